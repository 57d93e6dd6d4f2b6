"""Operators of a graph that can lose numbers in backward, because their derivative is undefined at a value that they hold.

Where every step is watched the whole graph is gone through. Where steps are not, the ways from the loss to these operators are
learnt once, and no more than their ends are looked at.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..session.session import Session
from ..tensors.moments import LATE_DEVICES, measurable
from .denominators import Denominators
from .graph import nodes_down_to, operator_name, saved_tensor, write_node

_MOST_RISKS = 16

_MOST_WAYS = 8
"""Operators that are looked at in steps that are not watched, nearest to the loss first: a look takes some ten microseconds."""

_NODES = 512
"""Nodes in which the ways are searched."""

_RISKS: dict[str, tuple[str, float]] = {
    "Sqrt": ("result", 0.0),
    "Std": ("result", 0.0),
    "Rsqrt": ("result", torch.inf),
    "Reciprocal": ("result", torch.inf),
    "Log": ("self", 0.0),
    "Log2": ("self", 0.0),
    "Log10": ("self", 0.0),
    "Log1P": ("self", -1.0),
    "Div": ("other", 0.0),
    "Pow": ("self", 0.0),
    "Acos": ("self", 1.0),
    "Asin": ("self", 1.0),
}
"""Operators whose derivative is undefined where a saved tensor has this value (for the arc functions: this magnitude)."""

_DIVISIONS = ("Div", "Rsqrt", "Reciprocal")

_RISKS_BEHIND_A_MASK: dict[str, tuple[str, float]] = {
    "Exp": ("result", torch.inf),
    "Expm1": ("result", torch.inf),
    "Mul": ("self other", torch.inf),  # a factor without a graph, such as the logarithm of a target
}
"""More of them, which only a mask can hide from the loss."""

LEAVES_OUT = frozenset({"NllLoss", "NllLoss2D"})
"""Losses that leave out samples with a target to be ignored: their NaN does not reach the loss, and backward brings it to all."""

_MOST_LEFT_OUT = 1 << 20
"""Elements of what such a loss is given, up to which it is looked at in steps that are not watched."""

_ELEMENTS_OF_A_LOOK = 1 << 16
"""Elements that are gone through in the time that is reckoned for one look, next to nothing for its call."""

_MASKS = ("WhereBackward", "MaskedFillBackward")
_BEHIND_A_MASK = 6
"""Operators that a value may have gone through on its way to the mask."""


def find_undefined_derivatives(
    session: Session, loss: Tensor, first: int, denominators: Denominators
) -> tuple[list[Any], int]:
    """Write operators whose derivative is undefined at a value they hold in this step, and divisors that have collapsed.

    Returns the operators of that kind, and how many nodes the graph has, so that a graph known to be harmless needs no second
    walk.
    """
    nodes = nodes_down_to(loss, first)
    masked = _behind_masks(nodes)
    present: list[Any] = []
    written = 0
    denominators.new_graph()
    for node in nodes:
        operator = operator_name(node)
        for name, value, at, fractional in _operands_at_risk(node, operator, masked=node in masked):
            if node not in present[-1:]:
                present.append(node)
            low, high = (v.item() for v in torch.aminmax(value.detach()))
            if written < _MOST_RISKS and _is_at_singularity(value, operator, at, low, high, fractional=fractional):
                written += 1
                write_node(session, node, name, value, "risk", masked=node in masked)
            if operator in _DIVISIONS:
                module_id = session.answers.module_of(node._sequence_nr())
                collapse = denominators.look(operator, module_id, tuple(value.shape), low, high)
                if collapse is not None and written < _MOST_RISKS:
                    written += 1
                    write_node(session, node, name, value, "collapse", **collapse._asdict())
    return present, len(nodes)


def at_risk(node: Any) -> bool:
    """Whether the derivative of an operator is undefined at a value that it holds in this step, or it leaves out a NaN."""
    operator = operator_name(node)
    if operator in LEAVES_OUT:
        given = _left_out(node)
        return given is not None and math.isnan(torch.aminmax(given.detach())[0].item())
    for _, value, at, fractional in _operands_at_risk(node, operator, masked=True):
        low, high = (v.item() for v in torch.aminmax(value.detach()))
        if _is_at_singularity(value, operator, at, low, high, fractional=fractional):
            return True
    return False


def _left_out(node: Any) -> Tensor | None:
    """What a loss is given that may leave out a part of it."""
    given = saved_tensor(node, "self")
    if given is None or not given.is_floating_point() or not 0 < given.numel() <= _MOST_LEFT_OUT:
        return None
    return given if measurable(given) and given.device.type not in LATE_DEVICES else None


def _operands_at_risk(node: Any, operator: str, *, masked: bool) -> Iterator[tuple[str, Tensor, float, bool]]:
    """Of an operator whose derivative can be undefined: the name of each saved tensor that tells, the tensor, the value at which
    it is undefined, and whether the exponent is fractional."""
    risk = _RISKS.get(operator) or (_RISKS_BEHIND_A_MASK.get(operator) if masked else None)
    if risk is None:
        return
    fractional = False
    if operator == "Pow":
        exponent = getattr(node, "_saved_exponent", None)
        if not isinstance(exponent, (int, float)) or exponent >= 1:
            return
        fractional = exponent % 1 != 0
    names, at = risk
    for name in names.split():
        value = saved_tensor(node, name)
        if value is not None and value.device.type in LATE_DEVICES:
            continue  # looking at it would make the host wait
        if value is not None and value.is_floating_point() and value.numel() and measurable(value):
            yield name, value, at, fractional


def _behind_masks(nodes: list[Any]) -> set[Any]:
    """Nodes whose result reaches the loss through a where or masked_fill alone, a few operators further on.

    What also goes another way, or into both sides of a where, meets its gradient there, whatever the mask hides.
    """
    sides: dict[Any, set[tuple[Any, int]]] = {}
    distances: dict[Any, int] = {}
    open_: set[Any] = set()
    for node in reversed(nodes):  # what uses a result comes before it
        mask = type(node).__name__.startswith(_MASKS)
        reached = sides.get(node, set())
        hidden = node not in open_ and 0 < len(reached) == len({where for where, _ in reached})
        if not hidden:
            open_.add(node)
        further = 1 if mask else distances.get(node, 0) + 1
        for side, (before, _) in enumerate(node.next_functions):
            if before is None:
                continue
            if mask or (hidden and further <= _BEHIND_A_MASK):
                sides.setdefault(before, set()).update({(node, side)} if mask else reached)
                distances[before] = min(further, distances.get(before, further))
            else:
                open_.add(before)
    return distances.keys() - open_


def _is_at_singularity(value: Tensor, operator: str, at: float, low: float, high: float, *, fractional: bool) -> bool:
    if math.isnan(low) or (fractional and low < 0):
        return True  # the operator was given what it is not defined for
    if at == torch.inf:
        return high == torch.inf or low == -torch.inf
    if operator in {"Acos", "Asin"}:
        return high >= at or low <= -at
    if at in {low, high}:
        return True
    return low < at < high and bool((value.detach() == at).any())


class RiskPaths:
    """Ways as places among the next functions of each node. All graphs are taken to be built as the one they were learnt from; a
    way that ends at another operator, or nowhere, is passed over."""

    def __init__(self) -> None:
        self.shape: tuple[int, int] | None = None
        """Of the graph that they were learnt from."""
        self._ways: list[tuple[tuple[int, ...], str]] = []
        self.looks = 0
        """As how many looks their ends count: one each, and more where there is much to go through."""

    def learn(self, loss: Tensor, risky: list[Any], shape: tuple[int, int]) -> None:
        """Find the ways to these nodes, unless the graph is of the shape that was seen last."""
        if shape == self.shape:
            return
        self.shape, self._ways, self.looks = shape, [], 0
        wanted = set(risky)
        first: Any = loss.grad_fn
        ways: dict[Any, tuple[int, ...]] = {first: ()}
        todo = [first]
        for node in todo:
            if node in wanted:
                given = _left_out(node) if operator_name(node) in LEAVES_OUT else None
                self._ways.append((ways[node], type(node).__name__))
                self.looks += 1 + (given.numel() // _ELEMENTS_OF_A_LOOK if given is not None else 0)
                if len(self._ways) == _MOST_WAYS:
                    return
            for place, (behind, _) in enumerate(node.next_functions):
                if behind is not None and behind not in ways and len(todo) < _NODES:
                    ways[behind] = (*ways[node], place)
                    todo.append(behind)

    def ends(self, loss: Tensor) -> list[Any]:
        """The nodes at the ends of the ways through the graph of this loss."""
        found = []
        for way, name in self._ways:
            node: Any = loss.grad_fn
            for place in way:
                after = node.next_functions if node is not None else ()
                node = after[place][0] if place < len(after) else None
            if type(node).__name__ == name:
                found.append(node)
        return found
