"""Outputs of a model, and of its modules, that outlive their step: in lists to which a script only ever appends.

What counts is the storage, so that a view, a detached copy of the handle or a numpy array over the same memory counts as the
output itself, and a tensor that lives for ever anyway (a parameter that the model returns) counts once. The graph behind an
output is followed apart, by a mark in its node as in graphs_alive, because a sum of it may live where the output does not.
Both are weak: nothing is kept alive for this.
"""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ..schemas import Phase
from .call_arguments import tensors_in
from .catalogue import ModuleEntry
from .graphs_alive import Mark
from .patches import Patches
from .session import Session
from .statistics import measurable

_RECENT = 64
"""Steps for which an output is looked for at every step; later at every so many."""

_MOST = 20_000

_AT_ONCE = 48
"""Outputs of modules that are followed in each step; of a larger model they are followed at every so many steps."""


class _Held:
    """An output of one step."""

    __slots__ = ("graph", "size", "step", "storage")

    def __init__(self, step: int, storage: StorageWeakRef, size: int, graph: "weakref.ref[Mark] | None") -> None:
        self.step = step
        self.storage = storage
        self.size = size
        self.graph = graph

    def alive(self) -> bool:
        """Whether its memory or its graph is still there."""
        return not self.storage.expired() or (self.graph is not None and self.graph() is not None)


class HeldOutputs:
    """Fills ``steps.outputs_alive``, ``outputs_alive_bytes`` and ``output_graphs_alive``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._recent: list[_Held] = []
        self._old: list[_Held] = []
        self._known: set[int] = set()
        session.on_output.append(session.guarded("outputs", self._note))
        session.at_finish.append(session.guarded("outputs", self._count))

    def install(self, patches: Patches) -> None:
        """Nothing of its own is put into torch."""

    def living(self) -> dict[int, int]:
        """Storage → step in which the model put it out, of outputs that are still held."""
        return {h.storage.cdata: h.step for h in (*self._old, *self._recent) if not h.storage.expired()}

    def _note(self, entry: ModuleEntry, output: Any, *, grad: bool) -> None:
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
            self._recent.append(_Held(session.step, StorageWeakRef(storage), storage.nbytes(), self._mark(tensor)))

    def _mark(self, output: Tensor) -> "weakref.ref[Mark] | None":
        node = output.grad_fn
        if node is None or self.session.saved_tensor_hooks_used:
            return None
        mark = Mark()
        node.metadata["firstfault.output"] = mark  # pyright: ignore[reportIndexIssue] — a property, typed as a method
        return weakref.ref(mark)

    def _count(self) -> None:
        session = self.session
        now = session.step
        self._recent = self._living(self._recent)
        if now % _RECENT == 0:
            self._old = self._living(self._old) + [h for h in self._recent if h.step < now - _RECENT]
            self._recent = [h for h in self._recent if h.step >= now - _RECENT]
        # the output of the step before usually still has its name
        kept = [h for h in (*self._old, *self._recent) if h.step < now - 1]
        stored = [h.size for h in kept if not h.storage.expired()]
        session.facts |= {
            "outputs_alive": len(stored),
            "outputs_alive_bytes": sum(stored),
            "output_graphs_alive": sum(h.graph is not None and h.graph() is not None for h in kept),
        }

    def _living(self, held: list[_Held]) -> list[_Held]:
        alive = [h for h in held if h.alive()]
        if len(alive) < len(held):
            self._known -= {h.storage.cdata for h in held if not h.alive()}
        return alive


class HeldActivations:
    """Writes a row of `probes` whenever a module's outputs of earlier steps that are still held, graph and all, are not as
    many as before; fills ``steps.forward_graphs_alive``.

    Every module's outputs are followed at each step where there are few of them, else at every so many steps.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._beginnings: list[tuple[int, weakref.ref[Mark]]] = []
        """Step and mark of the first node of its first forward: whatever is kept of the graph behind it keeps it."""
        self._unmarked = True
        self._held: list[tuple[int, int, weakref.ref[Tensor]]] = []
        self._counts: dict[int, int] = {}
        self._interval = 1
        self._noted = 0
        session.on_activation.append(session.guarded("held-activations", self._note))
        session.at_finish.append(session.guarded("held-activations", self._count))

    def install(self, patches: Patches) -> None:
        """Nothing of its own is put into torch."""

    @property
    def most_kept(self) -> int:
        """Of the module of which most outputs of earlier steps are held: how many."""
        return max(self._counts.values(), default=0)

    def living(self) -> dict[int, tuple[int, int]]:
        """Storage → (step, module_id) of outputs of modules that are still held."""
        held = ((step, module_id, ref()) for step, module_id, ref in reversed(self._held))
        return {t.untyped_storage()._cdata: (step, module_id) for step, module_id, t in held if t is not None}

    def _note(self, entry: ModuleEntry, tensor_id: int, tensor: Tensor) -> None:
        del tensor_id
        step = self.session.step
        if self._unmarked and tensor.grad_fn is not None and not self.session.saved_tensor_hooks_used:
            self._unmarked = False
            mark = Mark()
            tensor.grad_fn.metadata["firstfault.forward"] = mark  # pyright: ignore[reportIndexIssue] — as above
            self._beginnings.append((step, weakref.ref(mark)))
        if tensor.grad_fn is None or step % self._interval or len(self._held) >= _MOST:
            return
        self._noted += 1
        self._held.append((step, entry.id, weakref.ref(tensor)))

    def _count(self) -> None:
        session = self.session
        now = session.step
        self._unmarked = True
        if self._beginnings:
            self._beginnings = [(step, ref) for step, ref in self._beginnings[-_MOST:] if ref() is not None]
            session.facts["forward_graphs_alive"] = sum(step < now - 1 for step, _ in self._beginnings)
        if self._noted:
            self._interval, self._noted = 1 + self._noted // _AT_ONCE, 0
        if not self._held:
            return
        self._held = [h for h in self._held if h[2]() is not None]
        counts: dict[int, int] = {}
        for step, module_id, _ in self._held:
            if step < now - 1:
                counts[module_id] = counts.get(module_id, 0) + 1
        if counts == self._counts:
            return
        for module_id in counts.keys() | self._counts.keys():
            count = counts.get(module_id, 0)
            if count != self._counts.get(module_id, 0):
                session.add(
                    "probes",
                    seq=session.next_seq(),
                    phase=int(Phase.OPTIMIZER),
                    module_id=module_id,
                    probe="kept_outputs",
                    value=float(count),
                )
        self._counts = counts
