"""Whether the loss pulls a model's outputs towards the targets or away from them: signs of its gradient, element by element.

A loss that is written by hand, such as a Dice coefficient, has no operator that tells what it means. But whatever it is, a step
downhill must raise the output of a class where the target has this class, and lower it elsewhere. A few steps of a run are
looked at.
"""

from typing import Any

import torch
from torch import Tensor

from ..loop.batches import DataWatch
from ..script.call_arguments import tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES, measurable, node_of
from .rare_looks import RareLooks

_LOOKS = 3
"""Looks that must agree."""

_FEWEST = 64
"""Elements of the gradient below which signs may agree by chance: with eight of each kind, one in ten is none."""

_RARE = 0.02
"""Share of elements that the rarer kind must have."""

_FEW = 0.05
"""Share of elements that go the right way, up to which a loss is turned round. Of one that has nothing to do with the targets it
is a half."""

_MOST_ELEMENTS = 1 << 22
_MOST_OUTPUTS = 4


class LossDirection(Watch):
    """Writes an event ``loss-turned-round``."""

    name = "loss-direction"
    writes = ("events:loss-turned-round",)

    def __init__(self, session: Session, data: DataWatch) -> None:
        super().__init__(session)
        self._data = data
        self._looks = RareLooks()
        self._turned: dict[tuple[int, int, str], list[int]] = {}
        """(module_id, position of the output, field) → steps in which the loss was found turned round."""
        self._sane: set[tuple[int, int, str]] = set()
        """Those for which a look found something else."""

    def listen(self, signals: Signals) -> None:
        """Look at what models put out."""
        signals.output.connect(self.name, self._puts_out)

    def _puts_out(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        if not grad or not self._looks.due(self.session.position.step):
            return
        targets = {name: target for name, target in self._data.alive_fields().items() if _is_target(target)}
        if not targets:
            return
        for position, tensor in list(tensors_in(output))[:_MOST_OUTPUTS]:
            if (
                type(tensor) is Tensor
                and node_of(tensor) is not None
                and tensor.is_floating_point()
                and _FEWEST <= tensor.numel() <= _MOST_ELEMENTS
                and tensor.device.type not in LATE_DEVICES
            ):
                tensor.register_hook(self.guarded(lambda g, at=position: self._judge(entry, at, g, targets)))

    def _judge(self, entry: ModuleEntry, position: int, gradient: Tensor, targets: dict[str, Tensor]) -> None:
        for name, target in targets.items():
            key = (entry.id, position, name)
            if key in self._sane or (share := right_way(gradient.detach(), target)) is None:
                continue
            if share > _FEW:
                self._sane.add(key)
                continue
            steps = self._turned.setdefault(key, [])
            steps.append(self.session.position.step)
            if len(steps) == _LOOKS:
                self.session.rows.event(
                    "loss-turned-round",
                    f"the loss pushes the outputs of {entry.name or 'the model'} away from {name}",
                    module_id=entry.id,
                    detail={
                        "field": name,
                        "share": share,
                        "looks": _LOOKS,
                        "since": steps[0],
                        "elements": gradient.numel(),
                    },
                )


def _is_target(tensor: Tensor) -> bool:
    return (
        measurable(tensor)
        and tensor.layout is torch.strided
        and tensor.numel() > 1
        and tensor.device.type not in LATE_DEVICES
        and not tensor.requires_grad
    )


def right_way(gradient: Tensor, target: Tensor) -> float | None:
    """Share of the elements of a gradient whose sign pulls the output towards the target: the larger of two shares, of the
    outputs that should rise and of those that should fall. None where the two do not belong together, or are too few.

    ``gradient``: of shape (N, C, …) for targets (N, …) of C classes; for targets of zeros and ones also of as many elements, or
    of two channels.
    """
    rises = _should_rise(gradient, target)
    if rises is None:
        return None
    gradient = gradient.reshape(rises.shape)
    up, down = gradient[rises], gradient[~rises]
    up, down = up[up != 0], down[down != 0]
    fewest, rare = up.numel() + down.numel(), min(up.numel(), down.numel())
    if fewest < _FEWEST or rare < _RARE * fewest or not bool(gradient.isfinite().all()):
        return None
    return max(float((up < 0).double().mean()), float((down > 0).double().mean()))


def _should_rise(gradient: Tensor, target: Tensor) -> Tensor | None:
    """Where the target asks for a larger output, laid out as the gradient is."""
    ones = target == 1
    if bool((ones | (target == 0)).all()):
        if target.numel() == gradient.numel() and target.shape[0] == gradient.shape[0]:
            return ones.reshape(gradient.shape)
        if gradient.dim() < 2 or gradient.shape[1] != 2 or gradient.numel() != 2 * target.numel():
            return None
        ones = ones.reshape(gradient.shape[0], *gradient.shape[2:])
        return torch.stack((~ones, ones), 1)
    classes = gradient.shape[1] if gradient.dim() > 1 else 0
    if target.is_floating_point() or classes < 2 or gradient.shape != (target.shape[0], classes, *target.shape[1:]):
        return None
    if int(target.min()) < 0 or int(target.max()) >= classes:
        return None
    return torch.zeros(gradient.shape, dtype=torch.bool).scatter_(1, target.long().unsqueeze(1), True)
