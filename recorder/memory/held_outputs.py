"""Follow outputs of a model, and of its modules, that outlive their step: in lists to which a script only ever appends.

Storages are counted. So a view, a detached copy of the handle, or a numpy array over the same memory counts as the output
itself. A tensor that lives forever anyway, such as a parameter that the model returns, counts once. The graph behind an output
is followed separately, by a mark in its node as in graphs_alive: a sum of it may live where the output does not. Both marks are
weak: nothing is kept alive for this.
"""

import weakref
from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ...schemas import Phase
from ..script.call_arguments import tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import measurable
from .weak_marks import Followed, Mark, Marks, leave

_MOST = 20_000

_AT_ONCE = 48
"""Outputs of modules that are followed in each step; of a larger model they are followed at every so many steps."""


class _Output:
    """An output of the model in one step."""

    __slots__ = ("graph", "size", "step", "storage")

    def __init__(self, step: int, storage: StorageWeakRef, size: int, graph: "weakref.ref[Mark] | None") -> None:
        self.step = step
        self.storage = storage
        self.size = size
        self.graph = graph

    def alive(self) -> bool:
        """Whether its memory or its graph is still there."""
        return not self.storage.expired() or (self.graph is not None and self.graph() is not None)


def _memory_and_graphs(outputs: list[_Output]) -> Counter[str]:
    stored = [o.size for o in outputs if not o.storage.expired()]
    graphs = sum(o.graph is not None and o.graph() is not None for o in outputs)
    return Counter(outputs=len(stored), bytes=sum(stored), graphs=graphs)


class _Activation:
    """An output of a module in one step."""

    __slots__ = ("module_id", "ref", "step")

    def __init__(self, step: int, module_id: int, ref: "weakref.ref[Tensor]") -> None:
        self.step = step
        self.module_id = module_id
        self.ref = ref

    def alive(self) -> bool:
        """Whether the tensor is still there."""
        return self.ref() is not None


def _by_module(activations: list[_Activation]) -> Counter[int]:
    """Each memory once: a replayed CUDA graph puts its output into the same memory, in the same tensor, again and again."""
    held = {(a.module_id, tensor.untyped_storage()._cdata) for a in activations if (tensor := a.ref()) is not None}
    return Counter(module_id for module_id, _ in held)


class HeldOutputs(Watch):
    """Fills ``steps.outputs_alive``, ``outputs_alive_bytes`` and ``output_graphs_alive``."""

    name = "outputs"
    writes = ("steps.outputs_alive", "steps.outputs_alive_bytes", "steps.output_graphs_alive")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._held = Followed(_memory_and_graphs, self._forget)
        self._known: set[int] = set()

    def listen(self, signals: Signals) -> None:
        """Follow what models put out, and count at each step what lives of it."""
        signals.output.connect(self.name, self._follow_output)
        signals.row_ends.connect(self.name, self._count)

    def living(self) -> dict[int, int]:
        """Storage → step in which the model put it out, of outputs that are still held."""
        return {h.storage.cdata: h.step for h in self._held if not h.storage.expired()}

    def _follow_output(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        del entry
        session = self.session
        if not grad or not session.started:
            return
        for _, tensor in tensors_in(output):
            if tensor.numel() < 2 or tensor.layout is not torch.strided or not measurable(tensor):
                continue  # a loss that the model returns is followed as a loss
            storage = tensor.untyped_storage()
            if storage._cdata in self._known or len(self._known) >= _MOST:
                continue
            self._known.add(storage._cdata)
            self._held.add(
                _Output(session.position.step, StorageWeakRef(storage), storage.nbytes(), self._mark(tensor))
            )

    def _mark(self, output: Tensor) -> "weakref.ref[Mark] | None":
        node = output.grad_fn
        if node is None or self.session.position.saved_tensor_hooks_used:
            return None
        mark = Mark()
        leave(mark, node, "output")
        return weakref.ref(mark)

    def _count(self) -> None:
        # the output of the step before usually still has its name
        counts = self._held.before(self.session.position.step - 1)
        self.session.step_row.facts |= {
            "outputs_alive": counts["outputs"],
            "outputs_alive_bytes": counts["bytes"],
            "output_graphs_alive": counts["graphs"],
        }

    def _forget(self, gone: list[_Output]) -> None:
        self._known -= {h.storage.cdata for h in gone}


class HeldActivations(Watch):
    """Writes a row of `probes` whenever a module's outputs of earlier steps that are still held, graph and all, are not as
    many as before; fills ``steps.forward_graphs_alive``.

    Every module's outputs are followed at each step where there are few of them, else at every so many steps.
    """

    name = "held-activations"
    writes = ("probes:kept_outputs", "steps.forward_graphs_alive")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._beginnings = Marks()
        """Of the first nodes of the first forwards of steps: whatever is kept of the graph behind it keeps it."""
        self._any_graphs = False
        self._unmarked = True
        self._held = Followed(_by_module)
        self._counts: Counter[int] = Counter()
        self._interval = 1
        self._noted = 0

    def listen(self, signals: Signals) -> None:
        """Follow what modules put out, and count at each step what lives of it."""
        signals.activation.connect(self.name, self._follow_activation)
        signals.row_ends.connect(self.name, self._count)

    @property
    def most_kept(self) -> int:
        """Of the module of which most outputs of earlier steps are held: how many."""
        return max(self._counts.values(), default=0)

    def living(self) -> dict[int, tuple[int, int]]:
        """Storage → (step, module_id) of outputs of modules that are still held."""
        held = ((h.step, h.module_id, h.ref()) for h in reversed(list(self._held)))
        return {t.untyped_storage()._cdata: (step, module_id) for step, module_id, t in held if t is not None}

    def _follow_activation(self, entry: ModuleEntry, tensor_id: int, tensor: Tensor) -> None:
        del tensor_id
        step = self.session.position.step
        if self._unmarked and tensor.grad_fn is not None and not self.session.position.saved_tensor_hooks_used:
            self._unmarked, self._any_graphs = False, True
            mark = self._beginnings.add(step)
            leave(mark, tensor.grad_fn, "forward")
        if tensor.grad_fn is None or step % self._interval or len(self._held) >= _MOST:
            return
        self._noted += 1
        self._held.add(_Activation(step, entry.id, weakref.ref(tensor)))

    def _count(self) -> None:
        session = self.session
        now = session.position.step
        self._unmarked = True
        if self._any_graphs:
            session.step_row.facts["forward_graphs_alive"] = self._beginnings.before(now - 1)
        if self._noted:
            self._interval, self._noted = 1 + self._noted // _AT_ONCE, 0
        counts = self._held.before(now - 1)
        if counts == self._counts:
            return
        for module_id in counts.keys() | self._counts.keys():
            count = counts[module_id]
            if count != self._counts[module_id]:
                session.rows.add(
                    "probes",
                    seq=session.position.next_seq(),
                    phase=int(Phase.OPTIMIZER),
                    module_id=module_id,
                    probe="kept_outputs",
                    value=float(count),
                )
        self._counts = counts
