"""Which rows of an embedding were ever looked up: one bit for each row, kept where the embedding lives."""

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.modules import module as nn_module

from .catalogue import ModuleEntry
from .device_statistics import either, scalar_of
from .patches import Patches
from .session import Session

_MOST_ROWS = 4_000_000
"""Rows above which an embedding is left alone: a byte for each."""

_EACH_STEP = 8
_EVERY = 8
"""Rows of `embeddings` are written at the first steps, then at every so many."""


class _Used:
    """An embedding whose lookups are counted."""

    __slots__ = ("looked_up", "module", "module_id", "rows", "seen")

    def __init__(self, module: nn.Module, module_id: int, rows: int) -> None:
        self.module = weakref.ref(module)
        self.module_id = module_id
        self.rows = rows
        self.seen: Tensor | None = None
        self.looked_up = 0


class EmbeddingWatch:
    """Writes table `embeddings`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._used: dict[int, _Used] = {}
        self._patches: Patches | None = None
        self.padding: Tensor | None = None
        """Where the tokens of this step are the embedding's padding (or 0), for whoever looks at attention."""
        self._declared = False
        """Whether the embedding itself says which index is padding."""
        session.on_model.append(session.guarded("embeddings", self._found))
        session.at_finish.append(session.guarded("embeddings", self._rows))

    def install(self, patches: Patches) -> None:
        """The hook comes with the first embedding that is found."""
        self._patches = patches

    def _found(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None:
            return
        for module in model.modules():
            if not isinstance(module, (nn.Embedding, nn.EmbeddingBag)) or module.num_embeddings > _MOST_ROWS:
                continue
            entry = self.session.catalogue.find(module)
            if entry is None or id(module) in self._used:
                continue
            if not self._used and self._patches is not None:
                self._hook(self._patches)
            self._used[id(module)] = _Used(module, entry.id, module.num_embeddings)

    def _hook(self, patches: Patches) -> None:
        used, look = self._used, self.session.guarded("embeddings", self._look)

        def pre_hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            if not is_compiling() and id(module) in used:
                look(module, args)

        patches.handles([nn_module.register_module_forward_pre_hook(pre_hook)])

    def _look(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        known = self._used[id(module)]
        indices = args[0] if args else None
        if known.module() is not module or not torch.is_grad_enabled() or self.session.in_backward:
            return
        if not isinstance(indices, Tensor) or indices.is_floating_point() or not indices.numel():
            return
        if torch.jit.is_tracing() or type(indices) is not Tensor:  # pyright: ignore[reportPrivateImportUsage]
            return
        self._note_padding(module, indices)
        if known.seen is None:
            known.seen = torch.zeros(known.rows, dtype=torch.bool, device=indices.device)
        if known.seen.device != indices.device:
            return
        # clamped: a wrong index is the script's own error, and is to be raised by its own lookup
        known.seen[indices.detach().reshape(-1).clamp(0, known.rows - 1).long()] = True
        known.looked_up += indices.numel()

    def _note_padding(self, module: nn.Module, indices: Tensor) -> None:
        if indices.dim() != 2 or (self.session.step >= _EACH_STEP and self.session.step % _EVERY):
            return
        index = getattr(module, "padding_idx", None)
        padding = indices.detach() == (0 if index is None else index)
        if index is not None or self.padding is None:
            self.padding, self._declared = padding, index is not None

    def padding_in(self, target: Tensor, ignore_index: int | None) -> dict[str, Any]:
        """``padding_fraction`` and ``padding_counted`` of the targets of a loss, one for each token of this step; nothing is
        said where they are not, or where padding has targets of several values: then they are ordered otherwise."""
        padding = self.padding
        if (
            padding is None
            or not self._declared
            or target.numel() != padding.numel()
            or target.device != padding.device
        ):
            return {}
        with torch.no_grad():
            flat, hidden = target.detach().reshape(-1), padding.reshape(-1)
            limits = torch.iinfo(flat.dtype)
            counted = hidden if ignore_index is None else hidden & (flat != ignore_index)
            seen = [
                scalar_of(value)
                for value in (
                    hidden.sum(),
                    counted.sum(),
                    torch.where(hidden, flat, limits.max).min(),
                    torch.where(hidden, flat, limits.min).max(),
                )
            ]
        numel = flat.numel()

        def one(values: Any) -> bool:
            return values[0] > 0 and values[2] == values[3]

        return {
            "padding_fraction": either(seen, lambda v: float(v[0]) / numel if one(v) else None),
            "padding_counted": either(seen, lambda v: float(v[1]) / float(v[0]) if one(v) else None),
        }

    def _rows(self) -> None:
        step = self.session.step
        self.padding = None
        if step >= _EACH_STEP and step % _EVERY:
            return
        for known in self._used.values():
            if known.seen is not None and known.module() is not None:
                self.session.add(
                    "embeddings",
                    module_id=known.module_id,
                    rows=known.rows,
                    rows_used=either([scalar_of(known.seen.sum())], lambda count: int(count[0])),
                    lookups=known.looked_up,
                )
