"""Evaluations that come before the first training step: what a model puts out while its buffers are not what training makes
them, and which buffers the first training forward sets.

Until something trains a script may be one that only infers, and gets no recording: the numbers wait in memory, few of them.
"""

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from ...schemas import Phase
from ..script.call_arguments import tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.device import scalar_of
from ..tensors.moments import measurable

_EVALS = 4
_TRAININGS = 3
"""Outputs of training forwards to compare with, of each model that was evaluated before."""

_MOST_BUFFERS = 64
_MOST_ELEMENTS = 1 << 22


class _Early:
    """A model that was evaluated before it was trained."""

    __slots__ = ("buffers", "trainings")

    def __init__(self, buffers: "list[tuple[weakref.ref[nn.Module], str, Any]]") -> None:
        self.buffers = buffers
        self.trainings = 0


class EarlyEvals(Watch):
    """Writes rows of `probes`."""

    name = "early-evals"
    writes = ("probes:eval_output_before_training", "probes:output_in_training", "probes:buffer_set_by_training")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._early: dict[int, _Early] = {}
        self._trained: set[int] = set()
        self._rows: list[dict[str, Any]] = []
        self._evals_left = _EVALS

    def listen(self, signals: Signals) -> None:
        """Look at what models put out."""
        signals.output.connect(self.name, self._note_output)
        signals.row_ends.connect(self.name, self._write)

    def _note_output(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        if entry.id in self._trained:
            return
        model = entry.ref()
        if model is None:
            return
        early = self._early.get(entry.id)
        if not model.training:
            if self._evals_left > 0 and (early is None or not early.trainings):
                self._evals_left -= 1
                if early is None:
                    self._early[entry.id] = _Early(_buffers_of(model))
                self._measure(entry, output, "eval_output_before_training")
        elif early is None:
            if grad:
                self._trained.add(entry.id)
        else:
            self._measure(entry, output, "output_in_training")
            early.trainings += 1
            if early.trainings == 1:
                self._compare(early)
            if early.trainings == _TRAININGS:
                self._trained.add(entry.id)

    def _measure(self, entry: ModuleEntry, output: Any, probe: str) -> None:
        for _, tensor in tensors_in(output):
            if tensor.is_floating_point() and type(tensor) is Tensor and measurable(tensor) and tensor.numel():
                with torch.no_grad():
                    value = torch.linalg.vector_norm(tensor.detach().float()) / tensor.numel() ** 0.5
                self._rows.append({"module_id": entry.id, "probe": probe, "value": scalar_of(value)})
                return

    def _compare(self, early: _Early) -> None:
        """After the first training forward: a row for each buffer that it has set."""
        by_object = self.session.catalogue.by_object
        for ref, name, before in early.buffers:
            module = ref()
            buffer = module._buffers.get(name) if module is not None else None
            entry = by_object.get(id(module))
            if buffer is None or entry is None:
                continue
            after = _size(buffer)
            if isinstance(before, float) and isinstance(after, float) and (before == after or before != before):  # noqa: PLR0124 — NaN
                continue
            row = {"module_id": entry.id, "probe": "buffer_set_by_training", "value": after, "scale": before}
            self._rows.append(row)

    def _write(self) -> None:
        for row in self._rows:
            self.session.rows.add("probes", seq=self.session.position.next_seq(), phase=int(Phase.EVAL), **row)
        self._rows.clear()


def _buffers_of(model: nn.Module) -> "list[tuple[weakref.ref[nn.Module], str, Any]]":
    found: list[tuple[weakref.ref[nn.Module], str, Any]] = []
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is None or type(buffer) is not Tensor or not buffer.is_floating_point() or not measurable(buffer):
                continue
            if 0 < buffer.numel() <= _MOST_ELEMENTS and len(found) < _MOST_BUFFERS:
                found.append((weakref.ref(module), name, _size(buffer)))
    return found


def _size(buffer: Tensor) -> Any:
    with torch.no_grad():
        return scalar_of(torch.linalg.vector_norm(buffer.detach().float()) / max(buffer.numel(), 1) ** 0.5)
