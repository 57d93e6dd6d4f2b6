"""Buffers of models, such as the running statistics of batch norm, measured with each step."""

import weakref
from time import perf_counter_ns

from torch import Tensor

from ...schemas import Phase
from ..session.registry import ModuleEntry, submodule
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.measure import measure_all
from ..tensors.moments import measurable

_MOST_ELEMENTS = 8192


class BufferWatch(Watch):
    """Measures the small buffers of every model."""

    name = "buffers"
    writes = ("tensor_stats:buffer", "tensors:buffer")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._buffers: dict[int, list[tuple[weakref.ref[Tensor], int]]] = {}
        """module_id of a model → its buffers and their tensor_ids."""

    def listen(self, signals: Signals) -> None:
        """Measure after each step where that is due."""
        signals.model_found.connect(self.name, self._find_buffers)
        signals.row_ends.connect(self.name, self._measure)

    def _find_buffers(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None:
            return
        catalogue = self.session.catalogue
        found: list[tuple[weakref.ref[Tensor], int]] = []
        for name, buffer in model.named_buffers():
            if 0 < buffer.numel() <= _MOST_ELEMENTS and measurable(buffer):
                owner = catalogue.find(submodule(model, name.rpartition(".")[0]))
                tensor_id = catalogue.tensor(owner.id if owner else None, name, "buffer", buffer)
                found.append((weakref.ref(buffer), tensor_id))
        self._buffers[root.id] = found

    def _measure(self) -> None:
        session = self.session
        if not session.budget.due("buffers"):
            return
        began = perf_counter_ns()
        alive = [(b, i) for found in self._buffers.values() for ref, i in found if (b := ref()) is not None]
        for (_, tensor_id), moments in zip(alive, measure_all([b for b, _ in alive]), strict=True):
            session.rows.add_tensor_stats(tensor_id, Phase.OPTIMIZER, moments)
        session.budget.spent("buffers", perf_counter_ns() - began, len(alive))
