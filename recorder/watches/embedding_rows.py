"""Which rows of an embedding were ever looked up: one bit for each row, kept where the embedding lives."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from ..base.identity_map import IdentityMap
from ..loop.backward import BackwardWatch
from ..loop.unhooked_forwards import OneShotHook
from ..session.patches import Patches, Removable
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.device import join_when_ready, scalar_of
from .padding import TokenPadding

_MOST_ROWS = 4_000_000
"""Rows above which an embedding is left alone: a byte for each."""


class _Used:
    """An embedding whose lookups are counted."""

    __slots__ = ("looked_up", "module", "module_id", "rows", "seen")

    def __init__(self, module: nn.Module, module_id: int, rows: int) -> None:
        self.module = weakref.ref(module)
        self.module_id = module_id
        self.rows = rows
        self.seen: Tensor | None = None
        self.looked_up = 0


class _Look(OneShotHook):
    """Called before the forward of a module, to look at it where it is an embedding whose lookups are counted."""

    def __init__(self, used: IdentityMap[nn.Module, _Used], look: Callable[..., None]) -> None:
        self._used = used
        self._look = look

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not is_compiling() and module in self._used:
            self._look(module, args)


class EmbeddingWatch(Watch):
    """Writes table `embeddings`, and what of a target is padding."""

    name = "embeddings"
    writes = (
        "embeddings",
        "batches.padding_fraction",
        "batches.padding_counted",
        "batches.padding_token",
        "batches.padded_sequences",
        "batches.ends_ignored",
        "batches.padding_targets",
        "batches.ignored_between",
    )

    def __init__(self, session: Session, padding: TokenPadding, backward: BackwardWatch) -> None:
        super().__init__(session)
        self._backward = backward
        self._used: IdentityMap[nn.Module, _Used] = IdentityMap()
        self._patches: Patches | None = None
        self.padding = padding

    def listen(self, signals: Signals) -> None:
        """Look for embeddings in each model, and write what was looked up in each step."""
        signals.model_found.connect(self.name, self._find_embeddings)
        signals.row_ends.connect(self.name, self._write_rows)
        self._backward.padding_in = self.guarded(self.padding.in_targets)

    def install(self, patches: Patches) -> None:
        """The hook comes with the first embedding that is found."""
        self._patches = patches
        if self._used:
            self._hook(patches)

    def _find_embeddings(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None:
            return
        for module in model.modules():
            if not isinstance(module, (nn.Embedding, nn.EmbeddingBag)) or module.num_embeddings > _MOST_ROWS:
                continue
            entry = self.session.catalogue.find(module)
            if entry is None or module in self._used:
                continue
            if not self._used and self._patches is not None:
                self._hook(self._patches)
            self._used[module] = _Used(module, entry.id, module.num_embeddings)

    def _hook(self, patches: Patches) -> None:
        look = _Look(self._used, self.guarded(self._count_indices))

        def on_themselves() -> list[Removable]:
            modules = [module for known in self._used.values() if (module := known.module()) is not None]
            return [module.register_forward_pre_hook(look) for module in modules]

        patches.hook_some(look, on_themselves)

    def _count_indices(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        known = self._used[module]
        indices = args[0] if args else None
        if not torch.is_grad_enabled() or self.session.position.in_backward:
            return
        if not isinstance(indices, Tensor) or indices.is_floating_point() or not indices.numel():
            return
        if torch.jit.is_tracing() or type(indices) is not Tensor:  # pyright: ignore[reportPrivateImportUsage]
            return
        self.padding.note(module, indices)
        if known.seen is None:
            known.seen = torch.zeros(known.rows, dtype=torch.bool, device=indices.device)
        if known.seen.device != indices.device:
            return
        # clamped: a wrong index is the script's own error, and is to be raised by its own lookup
        known.seen.index_fill_(0, indices.detach().reshape(-1).clamp(0, known.rows - 1).long(), True)
        known.looked_up += indices.numel()

    def _write_rows(self) -> None:
        self.padding.forget()
        if not self.padding.due():
            return
        for known in self._used.values():
            if known.seen is not None and known.module() is not None:
                self.session.rows.add(
                    "embeddings",
                    module_id=known.module_id,
                    rows=known.rows,
                    rows_used=join_when_ready([scalar_of(known.seen.sum())], lambda count: int(count[0])),
                    lookups=known.looked_up,
                )
