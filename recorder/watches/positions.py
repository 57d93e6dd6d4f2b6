"""Positional encodings that are added along the samples of a batch instead of the places of each sample.

An encoding of shape (length, 1, features) is made for a sequence that comes first. Given the samples first, it adds one place's
vector to a whole sample. What such a module puts out is held against what it was given, in the first losses of a run.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from ..autograd.graph import nodes_down_to
from ..autograd.softmaxes import samples_of_loss
from ..base.identity_map import IdentityMap
from ..loop.batches import DataWatch
from ..session.patches import Patches, Removable
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES

_LOSSES = 4
"""Losses before which is looked."""

_MOST_NODES = 64
"""Last operators of a loss among which its targets are looked for."""

_CORNER = 8
"""Samples and places of a sample that are compared."""

_ROUNDING = 1e-3
"""Of the largest element: what remains below it is rounding, also in half precision."""


class PositionsWatch(Watch):
    """Writes event ``axis-of-samples`` for a positional encoding."""

    name = "positions"
    writes = ("events:axis-of-samples",)

    def __init__(self, session: Session, data: DataWatch) -> None:
        super().__init__(session)
        self._data = data
        self._tables: IdentityMap[nn.Module, str] = IdentityMap()
        """Module → name of the buffer that holds its encoding."""
        self._patches: Patches | None = None
        self._given: tuple[nn.Module, Tensor] | None = None
        """From the beginning of such a module's forward to its end."""
        self._found: tuple[int, int, int] | None = None
        """module_id, and the sizes of the two axes."""
        self._losses = 0

    def listen(self, signals: Signals) -> None:
        """Look for encodings in each model, at what they put out, and at each loss, which may say how many samples there are."""
        signals.model_found.connect(self.name, self._find)
        signals.loss.connect(self.name, self._judge)

    def install(self, patches: Patches) -> None:
        """The hook comes with the first encoding that is found."""
        self._patches = patches

    def _find(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None or self._losses >= _LOSSES:
            return
        for module in model.modules():
            name = _encoding(module)
            if name is None or module in self._tables:
                continue
            self._tables[module] = name
            self._hook()

    def _hook(self) -> None:
        """Listen from the first encoding on, once: what is hooked is called for every module."""
        patches, self._patches = self._patches, None
        if patches is None:
            return
        self.session.signals.activation.connect(self.name, self._puts_out)
        look = self.guarded(self._is_given)

        def on_themselves() -> list[Removable]:
            return []  # where hooks are out, nothing that is put out is measured

        patches.hook_some(look, on_themselves)

    def _is_given(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._losses >= _LOSSES or is_compiling() or module not in self._tables:
            return
        self._given = None
        if torch.is_grad_enabled() and args and type(args[0]) is Tensor and args[0].device.type not in LATE_DEVICES:
            self._given = module, args[0].detach()

    def _puts_out(self, entry: ModuleEntry, _tensor_id: int, output: Tensor) -> None:
        if self._given is None:
            return
        module, given = self._given
        if all(part is not entry.ref() for part in module.modules()):
            return  # what its dropout puts out is told as that of the dropout
        table = getattr(module, self._tables.get(module, ""), None)
        if isinstance(table, Tensor) and _added_along_the_first(table, given, output.detach(), _kept(module)):
            known = self.session.catalogue.find(module)
            self._found = entry.id if known is None else known.id, given.shape[0], given.shape[1]
            self._given = None

    def _judge(self, loss: Tensor) -> None:
        if self._losses >= _LOSSES or not len(self._tables):
            return
        self._losses += 1
        self._given = None
        if self._found is None:
            return
        module_id, first, second = self._found
        self._found = None
        samples = self._data.samples() or samples_of_loss(nodes_down_to(loss, 0, _MOST_NODES))
        if samples == first:
            self._losses = _LOSSES
            self.session.rows.event(
                "axis-of-samples",
                "Positions goes along the samples",
                module_id=module_id,
                detail={"operator": "Positions", "samples": first, "other": second, "axis": None, "operators": 1},
            )


def _encoding(module: nn.Module) -> str | None:
    """Name of the buffer of shape (length, 1, features) of a module that has nothing else."""
    if next(module.parameters(recurse=False), None) is not None:
        return None
    held = [(name, buffer.shape) for name, buffer in module.named_buffers(recurse=False) if buffer.is_floating_point()]
    if len(held) != 1:
        return None
    name, shape = held[0]
    return name if len(shape) == 3 and shape[1] == 1 and min(shape[0], shape[2]) > 1 else None


def _kept(module: nn.Module) -> float:
    """Share of the units that the dropout of a module keeps, by which it divides."""
    dropouts = [m for m in module.modules() if isinstance(m, nn.Dropout) and m.training]
    return 1 - dropouts[0].p if dropouts else 1.0


def _added_along_the_first(table: Tensor, given: Tensor, output: Tensor, kept: float) -> bool:
    """Whether the output is the input, as it is or scaled, and for each place of its first axis one row of the table."""
    if given.dim() != 3 or output.shape != given.shape or given.shape[2] != table.shape[2]:
        return False
    if given.shape[0] in {1, given.shape[1]} or given.shape[0] > table.shape[0] or given.shape[1] == 1:
        return False
    x, out = (t[:_CORNER, :_CORNER].double() for t in (given, output))
    rows = table[: x.shape[0]].detach().double()
    alive = out != 0  # the others may have been dropped
    rest = (out * kept - rows) * alive
    scale = (rest * x).sum() / (x * x * alive).sum().clamp_min(1e-30)
    largest = torch.maximum((scale * x).abs().max(), rows.abs().max())
    wrong = (rest - scale * x * alive).abs().max() > _ROUNDING * largest
    return bool(~wrong & (rows.abs().max() > 0) & (scale.abs() > _ROUNDING) & alive.any())
