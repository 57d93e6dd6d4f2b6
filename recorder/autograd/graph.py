"""Looks into the autograd graph, which knows the operators, what they saved, and in which order they ran.

Nodes carry a sequence number given in forward order, so the nodes of one module's forward are a range of numbers. Reading
`_saved_*` neither keeps nor changes anything; where saved-tensor hooks are in use (activation checkpointing) it would run
them, so then nothing is read.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

from torch import Tensor

from ..session.session import Session
from ..tensors.measure import measure
from ..tensors.moments import LATE_DEVICES, measurable
from .compiled_graphs import CompiledGraphs, is_compiled
from .compiled_modules import Places
from .compiled_values import operands_of, write_operand
from .operator_rows import write_operator

_MOST_NODES = 20_000
_MOST_LOOKED_AT = 200
_MOST_LOST = 3
_LONGEST_LOOK_S = 2.0

LOSSES = {
    "NllLossBackward0": 1,
    "NllLoss2DBackward0": 1,
    "MseLossBackward0": None,
    "SmoothL1LossBackward0": None,
    "HuberLossBackward0": None,
    "BinaryCrossEntropyBackward0": None,
    "BinaryCrossEntropyWithLogitsBackward0": None,
    "KlDivBackward0": None,
    "CtcLossBackward0": None,
    "SoftMarginLossBackward0": None,
    "MultiMarginLossBackward0": 1,
}
"""Loss operators that save their input and target; the number is the dimension that holds the classes."""

_LAYS_OUT = (
    "SqueezeBackward",
    "UnsqueezeBackward",
    "ViewBackward",
    "UnsafeViewBackward",
    "ReshapeAliasBackward",
    "TransposeBackward",
    "PermuteBackward",
    "TBackward",
    "SelectBackward",
    "SliceBackward",
    "UnbindBackward",
    "CloneBackward",
    "ToCopyBackward",
)
"""Operators that give the same values in another shape, order or precision, or some of them."""

_CHOOSES_ROWS = {"IndexBackward0", "IndexSelectBackward0"}

_LAYOUTS = 6
"""Of them, how many in a row."""


def nodes_down_to(tensor: Tensor, first: int, most: int = _MOST_NODES) -> list[Any]:
    """Autograd nodes behind a tensor with a sequence number of at least ``first``, in forward order."""
    found: dict[Any, int] = {}
    todo = [tensor.grad_fn]
    while todo and len(found) < most:
        node = todo.pop()
        if node is None or node in found:
            continue
        number = node._sequence_nr()
        if number < first or number > 1 << 62:  # AccumulateGrad carries the largest number there is
            continue
        found[node] = number
        todo.extend(next_node for next_node, _ in node.next_functions)
    return sorted(found, key=lambda n: found[n])


def leaves_of(loss: Tensor, most: int = 20_000) -> Iterator[Tensor]:
    """Tensors in which the graph of a loss ends, in its order; of more than ``most`` nodes, those of the first ones."""
    seen: set[Any] = set()
    todo = [loss.grad_fn]
    while todo and len(seen) < most:
        node: Any = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            yield leaf
        todo.extend(reversed([behind for behind, _ in node.next_functions]))


def dimension(number: int, count: int) -> int:
    """An axis from 0, of so many: autograd keeps negative ones as numbers without a sign."""
    return (number - (1 << 64) if number >= 1 << 63 else number) % max(count, 1)


MOST_OF_LOSS = 64
"""Nodes among which the operators of a loss are searched."""


def loss_nodes(loss: Tensor, most: int = MOST_OF_LOSS) -> Iterator[tuple[Any, int]]:
    """Nodes of known loss operators, searched breadth first from the loss, each with how many were looked at until then."""
    seen: set[Any] = set()
    todo = [loss.grad_fn]
    while todo and len(seen) < most:
        level, todo = todo, []
        for node in level:
            if node is None or node in seen:
                continue
            seen.add(node)
            if type(node).__name__ in LOSSES:
                yield node, len(seen)
                if len(seen) == most:
                    return
            else:
                todo.extend(next_node for next_node, _ in node.next_functions[:MOST_OF_LOSS])


def softmax_elsewhere(node: Any) -> tuple[int, list[int]] | None:
    """Return the dimension and the shape of a softmax over a dimension other than that of the classes, right before this loss.

    The loss is a negative log likelihood. None where all is right, or other operators lie between.
    """
    dimension = LOSSES.get(type(node).__name__)
    if dimension is None or not type(node).__name__.startswith("NllLoss"):
        return None
    behind: Any
    behind, place = node.next_functions[0]
    if behind is None:
        return None
    shape = shape_of(behind, place)
    if type(behind).__name__ == "LogBackward0":
        behind = behind.next_functions[0][0]
    if not shape or len(shape) < 2 or type(behind).__name__ not in {"LogSoftmaxBackward0", "SoftmaxBackward0"}:
        return None
    taken = behind._saved_dim
    taken = (taken - (1 << 64) if taken >= 1 << 63 else taken) % len(shape)
    return None if taken == dimension else (taken, shape)


def activated_twice(node: Any) -> str | None:
    """Return ``"softmax"`` or ``"sigmoid"`` if the loss applies an activation that was already applied, else None.

    The loss is a negative log likelihood behind a softmax, or a binary cross entropy with logits. Reshapes, a choice of
    rows and a dropout in between are ignored.
    """
    kind = type(node).__name__
    behind: Any = node.next_functions[0][0]
    if kind.startswith("NllLoss"):
        behind = _skip_reshapes(behind)
        if type(behind).__name__ != "LogSoftmaxBackward0":
            return None
        behind = behind.next_functions[0][0]
    elif kind != "BinaryCrossEntropyWithLogitsBackward0":
        return None
    made = _skip_reshapes(_before_dropout(_skip_reshapes(behind)))
    return "softmax" if _softmax_by_hand(made) else _ACTIVATIONS.get(type(made).__name__)


def rectified_logits(node: Any) -> str | None:
    """Return ``"relu"`` if the logits of this loss come right from a ReLU, so that no probability is below that of zero.

    The loss is a negative log likelihood or a binary cross entropy, with or without the sigmoid in front of it.
    """
    kind = type(node).__name__
    behind: Any = node.next_functions[0][0]
    if kind.startswith("NllLoss") or kind == "BinaryCrossEntropyBackward0":
        behind = _skip_reshapes(behind)
        if type(behind).__name__ not in {"LogSoftmaxBackward0", "SigmoidBackward0"}:
            return None
        behind = behind.next_functions[0][0]
    elif kind != "BinaryCrossEntropyWithLogitsBackward0":
        return None
    return "relu" if type(_skip_reshapes(behind)).__name__ == "ReluBackward0" else None


def bounded_prediction(node: Any) -> str | None:
    """``"sigmoid"``, ``"softmax"``, ``"tanh"`` or ``"relu"`` where what is compared with numbers is such an activation's result
    as it is, but for its shape; of what a binary cross entropy is given, whether it is a softmax. None where it is not, or the
    loss is another."""
    kind = type(node).__name__
    if kind not in _COMPARES_NUMBERS and kind != "BinaryCrossEntropyBackward0":
        return None
    found = _BOUNDED.get(type(_skip_reshapes(node.next_functions[0][0])).__name__)
    return found if kind in _COMPARES_NUMBERS or found == "softmax" else None


def _softmax_by_hand(node: Any) -> bool:
    """``log_softmax(x).exp()``, or ``exp(x)`` over the sum of itself."""
    name = type(node).__name__
    if name == "ExpBackward0":
        return type(_skip_reshapes(node.next_functions[0][0])).__name__ == "LogSoftmaxBackward0"
    if name != "DivBackward0":
        return False
    (above, _), (below, _) = node.next_functions
    return (
        type(above).__name__ == "ExpBackward0"
        and type(below).__name__ == "SumBackward1"  # over a dimension
        and below.next_functions[0][0] is above
    )


def reversed_objective(loss: Tensor) -> tuple[str, str] | None:
    """Return (operator, of what) if what is minimised can only be meant to be maximised.

    That is the negative of a mean or sum of ``absolute`` values or of a ``square`` of differences, or a mean or sum of
    logarithms of a ``probability``.
    """
    node: Any = loss.grad_fn
    negative = type(node).__name__ == "NegBackward0"
    if negative:
        node = _skip_reshapes(node.next_functions[0][0])
    if not type(node).__name__.startswith(("MeanBackward", "SumBackward")):
        return None
    node = _skip_reshapes(node.next_functions[0][0])
    if not negative:
        if _normalised_by_hand(node):
            return "Logsumexp", "probability"
        return (type(node).__name__.split("Backward")[0], "probability") if _logarithm_of_a_probability(node) else None
    kind = {"AbsBackward0": "absolute", "PowBackward0": "square"}.get(type(node).__name__)
    if kind is None or (kind == "square" and node._saved_exponent != 2):
        return None
    return ("Neg", kind) if type(node.next_functions[0][0]).__name__ in _SUBTRACTIONS else None


def _logarithm_of_a_probability(node: Any) -> bool:
    """log_sigmoid, the logarithm of a sigmoid, or what was picked out of a log_softmax."""
    name = type(node).__name__
    if name == "LogSigmoidBackward0":
        return True
    if name not in {"LogBackward0", "GatherBackward0", "IndexBackward0"}:
        return False
    behind = type(_skip_reshapes(node.next_functions[0][0])).__name__
    return behind == ("SigmoidBackward0" if name == "LogBackward0" else "LogSoftmaxBackward0")


def _normalised_by_hand(node: Any) -> bool:
    """A score minus the logsumexp of all scores, as a conditional random field gives it."""
    if type(node).__name__ != "SubBackward0" or len(node.next_functions) != 2:
        return False
    score, normaliser = (type(_skip_reshapes(n)).__name__ if n is not None else "" for n, _ in node.next_functions)
    return normaliser == "LogsumexpBackward0" != score and score != ""


def _skip_reshapes(node: Any) -> Any:
    """The node that made the values: the one given, or the first behind it that does more than lay them out again."""
    for _ in range(_LAYOUTS):
        if not type(node).__name__.startswith(_LAYS_OUT):
            break
        node = node.next_functions[0][0]
    return node


def _before_dropout(node: Any) -> Any:
    """What is behind rows that were chosen, and behind a dropout, which on the CPU is a product with zeros and one other number;
    else the node as it is."""
    if type(node).__name__ in _CHOOSES_ROWS:
        node = node.next_functions[0][0]
    name = type(node).__name__
    if name == "NativeDropoutBackward0":
        return node.next_functions[0][0]
    if name != "MulBackward0" or len(node.next_functions) != 2 or node.next_functions[1][0] is not None:
        return node
    mask = node._saved_other
    if not isinstance(mask, Tensor) or mask.dim() == 0 or mask.device.type != "cpu":
        return node
    kept = mask.detach().amax()
    return node.next_functions[0][0] if bool(((mask == 0) | (mask == kept)).all() and kept > 1) else node


def kl_of_probabilities(loss: Tensor) -> bool:
    """Whether the loss holds ``kl_div(softmax(x), target)``, where logarithms of probabilities belong.

    torch puts kl_div together as ``xlogy(target, target) - target * input``: a subtraction whose first side has no graph."""
    todo: list[Any] = [loss.grad_fn]
    for _ in range(_NEAR):
        todo = [n for node in todo if node is not None for n, _ in node.next_functions[:4]][:32]
        for node in todo:
            if type(node).__name__ == "SubBackward0" and node.next_functions[0][0] is None:
                product: Any = node.next_functions[1][0]
                factors = product.next_functions if type(product).__name__ == "MulBackward0" else ()
                if any(type(f).__name__ == "SoftmaxBackward0" for f, _ in factors):
                    return True
    return False


_ACTIVATIONS = {"SoftmaxBackward0": "softmax", "SigmoidBackward0": "sigmoid"}

_COMPARES_NUMBERS = ("MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0")

_BOUNDED = {**_ACTIVATIONS, "TanhBackward0": "tanh", "ReluBackward0": "relu"}

_NEAR = 6
"""Operators between a loss and a term of it."""

_SUBTRACTIONS = {"SubBackward0", "RsubBackward0"}


def shape_of(node: Any, place: int) -> list[int] | None:
    """Shape of a node's n-th output, from autograd's notes; None where it keeps none."""
    try:
        return [int(n) for n in node._input_metadata[place].shape]
    except (AttributeError, IndexError, TypeError):
        return None


def saved_tensor(node: Any, name: str) -> Tensor | None:
    """A saved tensor of a node; None where it saved none, or the tensor has since been changed in place."""
    try:
        value = getattr(node, f"_saved_{name}", None)
    except RuntimeError:
        return None
    return value if isinstance(value, Tensor) else None


def operator_name(node: Any) -> str:
    """Autograd's name without its suffix: SoftmaxBackward0 → Softmax."""
    return type(node).__name__.rstrip("0123456789").removesuffix("Backward")


def look_at_forward(session: Session, graphs: CompiledGraphs, nodes: list[Any]) -> None:
    """Write what operators behind a non-finite tensor had saved. Their ``nodes`` stand in forward order.

    The values just before the first non-finite one matter most, or the last ones where all that was saved is finite: of a long
    graph only those are written. Of compiled code nothing is written after the first that is lost.
    """
    if session.position.saved_tensor_hooks_used:
        return
    writers: deque[Callable[[], None]] = deque(maxlen=_MOST_LOOKED_AT)
    lost, end = 0, perf_counter() + _LONGEST_LOOK_S
    for node in nodes:
        for writer, value in _compiled(session, graphs, node) if is_compiled(node) else _saved(session, node):
            writers.append(writer)
            lost += (bad := _lost(value))
            if bad and is_compiled(node):
                break
        if lost > _MOST_LOST or perf_counter() > end:
            break
    for write in writers:
        write()


def _saved(session: Session, node: Any) -> Iterator[tuple[Callable[[], None], Tensor]]:
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            name = attribute.removeprefix("_saved_")
            value = saved_tensor(node, name)
            if value is not None and value.numel() and measurable(value):
                outside = _from_outside(node, name)
                yield partial(write_node, session, node, name, value, "nonfinite", outside=outside), value
    target = _target_of_kl(node)
    if target is not None and measurable(target):
        yield partial(write_node, session, node, "target", target, "nonfinite", op="KlDiv"), target


_ARGUMENTS = {
    "Addmm": {"mat1": 1},
    "Baddbmm": {"batch1": 1},
    "Bmm": {"self": 0},
    "Convolution": {"input": 0},
    "Mm": {"self": 0},
    "NativeBatchNorm": {"input": 0},
    "NativeLayerNorm": {"input": 0},
}
"""Operator → what it saves of its arguments → the place of this argument among those that may have a gradient."""


def _target_of_kl(node: Any) -> Tensor | None:
    """What kl_div took for probabilities and has taken the logarithm of: torch puts it together as ``xlogy(target, target) -
    target * input``, whose first side has no graph, and logarithms of probabilities go in. Else None."""
    if type(node).__name__ != "SubBackward0" or len(node.next_functions) != 2 or node.next_functions[0][0] is not None:
        return None
    product: Any = node.next_functions[1][0]
    if type(product).__name__ != "MulBackward0" or len(product.next_functions) != 2:
        return None
    (target, _), (given, _) = product.next_functions
    if target is not None or given is None:
        return None
    behind = _skip_reshapes(given)
    if type(behind).__name__.startswith("SortBackward"):
        behind = _skip_reshapes(behind.next_functions[0][0])
    return (
        saved_tensor(product, "self")
        if type(behind).__name__.startswith(("LogSoftmax", "LogSigmoid", "LogBackward"))
        else None
    )


def _from_outside(node: Any, name: str) -> bool | None:
    """Whether what an operator has saved came into the graph there, as data do; None where that is not known."""
    place = _ARGUMENTS.get(operator_name(node), {}).get(name)
    edges = node.next_functions
    return None if place is None or place >= len(edges) else edges[place][0] is None


def _compiled(session: Session, graphs: CompiledGraphs, node: Any) -> Iterator[tuple[Callable[[], None], Tensor]]:
    graph = graphs.graph_of(node)
    if graph is not None:
        places = Places(session, graph.parameters, node)
        for operand, value in operands_of(graph, node):
            yield partial(write_operand, session, node, places, operand, value, "nonfinite"), value


def _lost(value: Tensor) -> bool:
    """Whether a value is known not to be finite; on a device that is known later only."""
    if value.device.type in LATE_DEVICES or not (value.is_floating_point() or value.is_complex()):
        return False
    return measure(value, size_only=True).nonfinite > 0


def write_node(
    session: Session, node: Any, name: str, value: Tensor, trigger: str, *, op: str | None = None, **columns: Any
) -> None:
    """One row of `operators`."""
    write_operator(
        session,
        value,
        trigger,
        op=op or operator_name(node),
        graph_seq=node._sequence_nr(),
        module_id=session.answers.module_of(node._sequence_nr()),
        saved=name,
        **columns,
    )
