"""What becomes longer in each evaluation, and in no training step between: results that are never cleared, metrics that are
never reset.

Equal places of the loop are compared: the first forward of an evaluation, and the first training forward after it. The signs
are cheap: outputs of earlier evaluations that are still alive, or memory that rises from one evaluation to the next. At a sign
all containers and tensors are looked at, at the end of this evaluation and at both ends of the next ones; what kept its length
while the model trained and grew while it was evaluated is named. A run without such a sign pays for a look now and then.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from ..loop.batches import DataWatch
from ..script.call_arguments import tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import measurable
from .blocks import categories
from .containers import Grown, Look, grown, look
from .growing_tensors import TensorLook, grown_tensors, look_at_tensors
from .owners import OURS, Holder, holders_of
from .tensor_census import tensor_classes

_APART = 2
"""Training steps between two evaluations: a teacher, or a rollout of each step, is no evaluation."""

_FOLLOWED = 8
"""Outputs of one evaluation whose memory is followed."""

_MOST_FOLLOWED = 1024

_RISE = 1 << 16
"""Bytes from one evaluation to the next that are a sign, in the mean: 16 pages."""

_LEVELS = 4
"""Evaluations whose memory is compared."""

_FREE = 6
"""Looks at a sign that are free: twice one, and both ends of the next evaluation."""

_SHARE = 0.002
"""Of the run's time that all others may take, as a census of tensors may."""

_GUESS_NS = 60_000_000
"""What the first look is taken to cost."""

_REST = 1
"""Evaluations without a look after one that found nothing; doubled each time."""

_ONE_OF_MANY = 1 << 20
"""Bytes from which one element an evaluation counts: a confusion matrix of each is a history."""

_NUMBERS = frozenset({"int", "float", "str", "bool", "NoneType", "complex"})


class _Place(NamedTuple):
    """A look, at an end of an evaluation."""

    step: int
    lengths: Look
    tensors: TensorLook


class EvalGrowth(Watch):
    """Writes an event ``evaluation-growth`` for each container or tensor that an evaluation has made longer."""

    name = "evaluation-growth"
    writes = ("events:evaluation-growth",)
    uses = ("outputs", "live-tensors")

    def __init__(
        self, session: Session, data: DataWatch, optimizers: Callable[[], list[torch.optim.Optimizer]]
    ) -> None:
        super().__init__(session)
        self._data = data
        self._optimizers = optimizers
        self._began = perf_counter_ns()
        self._spent = 0
        self._dearest = _GUESS_NS
        self._looks = 0
        self._evaluations = 0
        self._running = False
        """Whether an evaluation is in progress."""
        self._step = -1
        """In which the last evaluation began."""
        self._training = False
        """Whether the model that is evaluated is in training mode."""
        self._followed: list[tuple[int, StorageWeakRef]] = []
        """Number of the evaluation, and memory of an output."""
        self._noted = 0
        self._alive = 0
        self._memory: deque[int] = deque(maxlen=_LEVELS)
        self._device: deque[int] = deque(maxlen=_LEVELS)
        self._graphs = 0
        """Graphs behind outputs of earlier steps, after the last evaluation."""
        self._read_memory = False
        self._sign = False
        self._before: _Place | None = None
        """At the end of the evaluation before."""
        self._begin: _Place | None = None
        self._quiet_until = 2
        """Number of an evaluation: the first ones fill caches."""
        self._rest = _REST

    def listen(self, signals: Signals) -> None:
        """Tell evaluations and training steps apart by what models put out."""
        signals.output.connect(self.name, self._output)
        signals.row_ends.connect(self.name, self._row_ends)

    def _output(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        session = self.session
        model = entry.ref()
        if model is None or not session.started or session.position.in_backward:
            return
        if grad and model.training:
            if self._running:
                self._ends()
        elif not self._running:
            self._begins(model.training)
        if self._running and self._noted < _FOLLOWED and len(self._followed) < _MOST_FOLLOWED:
            self._follow(output)

    def _follow(self, output: Any) -> None:
        for _, tensor in tensors_in(output):
            if tensor.numel() > 1 and tensor.layout is torch.strided and measurable(tensor):
                self._noted += 1
                self._followed.append((self._evaluations, StorageWeakRef(tensor.untyped_storage())))
                return

    # -- ends of evaluations ------------------------------------------------------------------------------------------------

    def _begins(self, training: bool) -> None:
        step = self.session.position.step
        close, self._step = step - self._step < _APART, step
        if close:
            return
        self._evaluations += 1
        self._running, self._training, self._noted = True, training, 0
        self._begin = None
        if self._before is not None and step - self._before.step >= _APART:
            self._begin = self._measure_growth(-1)[0]

    def _ends(self) -> None:
        """The first training forward after an evaluation."""
        self._running = False
        self._read_memory = True
        self._signs()
        if self._begin is not None:
            self._compare(self._begin)
        elif self._evaluations >= self._quiet_until and self._affordable():
            self._before = self._measure_growth(0)[0]
        self._sign = False

    def _signs(self) -> None:
        self._followed = [(n, ref) for n, ref in self._followed if not ref.expired()]
        # the last output of an evaluation usually still has its name
        alive = sum(n < self._evaluations for n, _ in self._followed)
        self._sign |= alive >= 2 and alive > self._alive
        self._alive = alive
        if torch.cuda.is_initialized():
            self._device.append(torch.cuda.memory_allocated())
            self._sign |= _rises(self._device)

    def _row_ends(self) -> None:
        """Of the step after an evaluation: memory that rises, or graphs that gather, are a sign for the next one."""
        if self._read_memory:
            self._read_memory = False
            facts = self.session.step_row.facts
            if (memory := facts.get("anonymous_bytes")) is not None:
                self._memory.append(memory)
                self._sign |= _rises(self._memory)
            graphs = facts.get("output_graphs_alive") or 0
            self._sign |= graphs > self._graphs + 1
            self._graphs = graphs

    def _affordable(self) -> bool:
        if self._sign and self._looks < _FREE:
            return True
        return self._spent + 3 * self._dearest <= _SHARE * (perf_counter_ns() - self._began)

    # -- looks --------------------------------------------------------------------------------------------------------------

    def _measure_growth(self, place: int) -> tuple[_Place, list[Any], list[Tensor]]:
        began = perf_counter_ns()
        lengths, containers, tensors = look(place, tensor_classes())
        seen = _Place(self.session.position.step, lengths, look_at_tensors(place, tensors))
        self._looks += 1
        took = perf_counter_ns() - began
        self._spent += took
        self._dearest = took if self._looks == 1 else max(took, self._dearest)
        return seen, containers, tensors

    def _compare(self, begin: _Place) -> None:
        """What did not change while the model trained, and is longer now than when the evaluation began."""
        before, self._begin = self._before, None
        now, containers, tensors = self._measure_growth(0)
        self._before = None
        if before is None:
            return
        kept = [c for c in containers if 0 < before.lengths.lengths.get(id(c), 0) == begin.lengths.lengths.get(id(c))]
        del containers
        known = categories(self.session.catalogue, self._optimizers(), self._data.alive_fields().values())
        weights = frozenset(k for k, category in known.items() if category in {"parameter", "buffer"})
        longer = [g for g in grown(begin.lengths, now.lengths, kept, weights) if _counts(g)]
        del kept
        found = self._containers(longer) + self._tensors(before, begin, now, tensors)
        for detail in found:
            self.session.rows.event(
                "evaluation-growth", f"{detail['holder'] or 'something'} became longer in an evaluation", detail=detail
            )
        if found and self._looks < 2 * _FREE:
            self._before = now
        elif not found:
            self._quiet_until = self._evaluations + self._rest
            self._rest *= 2

    def _containers(self, longer: list[Grown]) -> list[dict[str, Any]]:
        if not longer:
            return []
        containers = [g.container for g in longer]
        named = holders_of(containers, [g.kind for g in longer], [False] * len(longer), _is_module, [longer, *longer])
        found: list[dict[str, Any]] = []
        for g, holder in zip(longer, named, strict=True):
            if holder is OURS:
                continue
            content = g.content
            found.append(self._detail(g.kind, holder, g.length, g.rate, content.size, with_graph=content.with_graph))
            found[-1]["element"] = content.what
        return found

    def _tensors(self, before: _Place, begin: _Place, now: _Place, tensors: list[Tensor]) -> list[dict[str, Any]]:
        """A tensor that is joined to, or a sum that keeps its graph."""
        longer = [
            g
            for g in grown_tensors(begin.tensors, now.tensors, tensors)
            if _at(before.tensors, g.tensor, g.operator) == _at(begin.tensors, g.tensor, g.operator)
        ]
        if not longer:
            return []
        targets = [g.tensor for g in longer]
        kinds, numbers = ["sum"] * len(longer), [False] * len(longer)
        named = holders_of(targets, kinds, numbers, _is_module, [tensors, targets, longer, *longer])
        return [
            self._detail(
                "sum" if g.operator else "longer",
                holder,
                g.steps,
                g.rate,
                round(g.size / g.rate),
                with_graph=g.operator is not None,
            )
            for g, holder in zip(longer, named, strict=True)
            if holder is not OURS and holder is not None
        ]

    def _detail(
        self, kind: str, holder: Holder | None, length: int, added: float, each: int, *, with_graph: bool
    ) -> dict[str, Any]:
        return {
            "evaluation": self._evaluations,
            "kind": kind,
            "holder": holder.name if holder else None,
            "scope": holder.scope if holder else None,
            "place": holder.place if holder else None,
            "expression": holder.expression if holder else None,
            "element": "tensor",
            "with_graph": with_graph,
            "length": length,
            "added": round(added),
            "bytes": round(added * each),
            "training": self._training,
        }


def _counts(g: Grown) -> bool:
    """Whether what was added is worth a word: no numbers, no bounded queue, no history with a small entry for each evaluation,
    no model and no matrix that is kept of each."""
    if g.content.what in _NUMBERS or (isinstance(g.container, deque) and g.container.maxlen is not None):
        return False
    if g.content.with_graph or g.rate >= 2:
        return not _is_model(_last(g.container))
    last = _last(g.container)
    return g.rate * g.content.size >= _ONE_OF_MANY and not _is_model(last) and not _is_square(last)


def _last(container: Any) -> Any:
    """The element that was added last; None where it is not known."""
    try:
        return next(reversed(container.values() if isinstance(container, dict) else container), None)
    except (TypeError, RuntimeError):
        return None  # a set, or another thread adds to it


def _is_model(last: Any) -> bool:
    """Whether something is a model or its state_dict: models of several epochs are kept on purpose."""
    if isinstance(last, dict):
        keys = [key for key in list(last)[:4] if isinstance(key, str)]
        return any(key.endswith((".weight", ".bias")) or key in {"model", "state_dict", "weight"} for key in keys)
    return isinstance(last, nn.Module)


def _is_square(last: Any) -> bool:
    """Whether something is a matrix of the classes, such as a confusion matrix."""
    shape = tuple(last.shape) if isinstance(last, Tensor) or type(last).__name__ == "ndarray" else ()
    return len(shape) == 2 and shape[0] == shape[1]


def _at(seen: TensorLook, tensor: Tensor, operator: str | None) -> int | None:
    """Length that a look has seen of tensors like this one."""
    if operator is not None:
        return seen.chains.get((operator, tuple(tensor.shape)))
    return seen.lengths.get((tensor.dtype, tuple(tensor.shape[1:])))


def _is_module(value: Any) -> bool:
    return isinstance(value, nn.Module)


def _rises(memory: Sequence[int]) -> bool:
    """Allocators take memory in lumps: it need not rise each time."""
    return len(memory) == _LEVELS and memory[-1] - memory[0] >= (_LEVELS - 1) * _RISE
