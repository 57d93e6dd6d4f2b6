"""Losses that only push a model's outputs one way, all by the same amount: a bias lowers such a loss without end.

The loss of a critic raises some scores and lowers others. Where a misplaced bracket turns a sign, it raises them all. Only losses
that are a sum of outputs are looked at: an absolute error pushes all outputs one way too, until they are there. And only steps of
an optimizer that holds the bias of the layer: the generator of a GAN rightly raises scores of a critic that it does not train.
"""

from functools import partial
from typing import Any

from torch import Tensor

from ..autograd.graph import operator_name
from ..loop.optimizers import OptimizerWatch
from ..script.call_arguments import tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES, node_of
from .rare_looks import RareLooks

_LOOKS = 3
"""Steps that must agree."""

_FEWEST = 16
"""Outputs of a step below which equal gradients are chance."""

_CALLS = 2
"""Calls of the model in a step: one may return what is to be minimised."""

_BIAS_AT = {"Addmm": 0, "Convolution": 2}
"""Linear operators with a bias → its place among what they were given."""

_SUMS = {"Mean", "Sum", "Neg", "Add", "Sub", "Expand", "Stack", "Cat", "Select", "Slice", "AccumulateGrad"}
_MOST_NODES = 64

_IN_PLACE = {"View", "Reshape", "ReshapeAlias", "UnsafeView", "Squeeze", "Alias", "Clone"}
_MOST_BETWEEN = 4


class _Pushed:
    """What the backward of a step has brought to the outputs above one bias."""

    __slots__ = ("calls", "elements", "entry", "signs")

    def __init__(self, entry: ModuleEntry) -> None:
        self.entry = entry
        self.calls = self.elements = 0
        self.signs: set[int] = set()
        """1 and -1 for gradients of one number; 0 for all others."""


class OneWayLosses(Watch):
    """Writes an event ``loss-one-way``."""

    name = "one-way-losses"
    writes = ("events:loss-one-way",)

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self._optimizers = optimizers
        self._looks = RareLooks()
        self._pushed: dict[int, _Pushed] = {}
        """id of a bias → what was seen above it since the last row of `steps`."""
        self._agree: dict[int, list[int]] = {}
        """module_id → steps in which all its outputs were pushed one way."""
        self._sane: set[int] = set()
        self._outputs: set[int] = set()
        """Sequence numbers of the nodes of outputs that were hooked in this step: a node itself would keep its graph alive."""
        self._a_sum = True
        """Whether the losses of this step are sums of them, and none was left out."""

    def listen(self, signals: Signals) -> None:
        """Look at what models put out, and at what has become of it when a step is over."""
        signals.output.connect(self.name, self._puts_out)
        signals.loss.connect(self.name, self._backward)
        signals.row_ends.connect(self.name, self._judge)

    def _puts_out(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        if not grad or entry.id in self._sane:
            return
        if not self._looks.due(self.session.position.step):
            self._a_sum = self._a_sum and not self._outputs
            return
        found = [t for _, t in tensors_in(output)]
        if len(found) != 1 or type(found[0]) is not Tensor or found[0].device.type in LATE_DEVICES:
            return
        node = node_of(found[0])
        bias = _bias_of(node)
        if node is not None and bias is not None:
            found[0].register_hook(self.guarded(partial(self._note, id(bias), entry)))
            self._outputs.add(node._sequence_nr())

    def _backward(self, loss: Tensor) -> None:
        if self._outputs:
            self._a_sum = self._a_sum and _is_sum(node_of(loss), self._outputs)

    def _note(self, bias: int, entry: ModuleEntry, gradient: Tensor) -> None:
        pushed = self._pushed.setdefault(bias, _Pushed(entry))
        pushed.calls += 1
        pushed.elements += gradient.numel()
        low, high = (float(x) for x in gradient.detach().aminmax())
        pushed.signs.add((low > 0) - (low < 0) if low == high else 0)

    def _judge(self) -> None:
        noted, self._pushed = self._pushed, {}
        a_sum, self._a_sum = self._a_sum, True
        self._outputs.clear()
        stepping = self._optimizers.stepping
        if not noted or stepping is None:
            return
        held = {id(parameter) for parameter, _, group in stepping.parameters if group >= 0}
        for bias, pushed in noted.items():
            if bias not in held or pushed.entry.id in self._sane:
                continue
            one_way = a_sum and pushed.signs in ({1}, {-1})
            if not one_way or pushed.calls < _CALLS or pushed.elements < _FEWEST:
                self._sane.add(pushed.entry.id)
                continue
            steps = self._agree.setdefault(pushed.entry.id, [])
            steps.append(self.session.position.step)
            if len(steps) == _LOOKS:
                self._write(pushed, steps)

    def _write(self, pushed: _Pushed, steps: list[int]) -> None:
        self.session.rows.event(
            "loss-one-way",
            f"the loss pushes all outputs of {pushed.entry.name or 'the model'} one way",
            module_id=pushed.entry.id,
            detail={
                "direction": "down" if 1 in pushed.signs else "up",
                "calls": pushed.calls,
                "elements": pushed.elements,
                "looks": _LOOKS,
                "since": steps[0],
            },
        )


def _is_sum(loss: Any, outputs: set[int]) -> bool:
    """Whether a loss adds outputs up, some of them times a number, and does nothing else."""
    todo, seen = [loss], 0
    while todo:
        node = todo.pop()
        seen += 1
        if node is None or node._sequence_nr() in outputs:
            continue
        behind = [n for n, _ in node.next_functions]
        by_a_number = operator_name(node) in {"Mul", "Div"} and behind.count(None) == 1
        if not (by_a_number or operator_name(node) in _SUMS | _IN_PLACE) or seen > _MOST_NODES:
            return False
        todo += behind
    return True


def _bias_of(node: Any) -> Tensor | None:
    """The bias of the linear layer that put out a tensor; None where it comes from anything else."""
    for _ in range(_MOST_BETWEEN):
        if node is not None and operator_name(node) in _IN_PLACE:
            node = node.next_functions[0][0]
    behind = () if node is None else node.next_functions
    place = _BIAS_AT.get(operator_name(node))
    return None if place is None or len(behind) <= place else getattr(behind[place][0], "variable", None)
