"""A softmax over one element, the one output of a layer or beside the axis that it weighs: it is 1 whatever goes in. Found in the
autograd graph."""

from typing import Any

from torch import Tensor

from .graph import dimension, saved_tensor, shape_of

_SOFTMAXES = ("Softmax", "LogSoftmax", "SafeSoftmax")
_LAYERS = ("Addmm", "Mm")
_MOVES = {"View", "UnsafeView", "ReshapeAlias", "Unsqueeze", "Squeeze", "Transpose", "Permute", "Clone", "ToCopy"}
_BETWEEN = _MOVES | {"Tanh", "Relu", "LeakyRelu", "Sigmoid", "Gelu", "Mul", "Div", "NativeDropout"}
"""Operators between a layer and the softmax of what it puts out."""

_KEEPS_MATRIX = {"Expand", "View", "UnsafeView", "ReshapeAlias", "Clone", "ToCopy", "NativeDropout"}
"""Operators between a softmax and the matrix product that it weighs, as long as the shape of its matrices stays."""

_MOST_BETWEEN = 8

_LARGEST_MATRIX = 1024
"""Rows of attention that are looked at."""


def kind_of(node: Any) -> str:
    """An autograd node's operator, such as Addmm."""
    return type(node).__name__.rstrip("0123456789").removesuffix("Backward")


def of_one_output(nodes: list[Any]) -> list[Any]:
    """Softmax nodes that go along one element, where a linear layer puts out that one for each sample, or where they weigh the
    elements of another axis: attention to a memory that has one entry so far is in order."""
    found = []
    for node in nodes:
        shape = shape_of(node, 0) if kind_of(node) in _SOFTMAXES and hasattr(node, "_saved_dim") else None
        if (
            shape
            and len(shape) > 1
            and shape[dimension(node._saved_dim, len(shape))] == 1
            and _given_by_one_output(node)
        ):
            found.append(node)
    return found + [node for node in _weighing_another_axis(nodes) if all(node is not f for f in found)]


def along_queries(nodes: list[Any]) -> list[Any]:
    """Softmax nodes of a causal attention that go along the queries: what a query may not see is exactly 0, and yet it is the
    weights of each key that sum to 1, over later queries."""
    found: list[Any] = []
    for node in nodes:
        if kind_of(node) != "Bmm":
            continue
        (weights, _), *_ = node.next_functions
        softmax = _softmax_behind(weights)
        result = None if softmax is None else saved_tensor(softmax, "result")
        if softmax is None or result is None or result.dim() < 3:
            continue
        if not 2 < result.shape[-1] == result.shape[-2] <= _LARGEST_MATRIX:
            continue
        along = dimension(softmax._saved_dim, result.dim()) - result.dim()
        if along == -2 and _is_lower_triangle(result.detach().flatten(0, -3)[0]):
            found.append(softmax)
    return found


def _is_lower_triangle(matrix: Tensor) -> bool:
    return not bool(matrix.triu(1).any()) and bool(
        (matrix.tril() > 0).sum() == matrix.shape[0] * (matrix.shape[0] + 1) // 2
    )


def _weighing_another_axis(nodes: list[Any]) -> list[Any]:
    """Softmax nodes along one element whose result weighs the several elements of another axis in a matrix product: each
    weight is 1, and the product is a plain sum."""
    found: list[Any] = []
    for node in nodes:
        if kind_of(node) != "Bmm":
            continue
        for (operand, _), axis, summed in zip(node.next_functions, (-2, -1), (-1, -2), strict=False):
            softmax = _softmax_behind(operand)
            shape = None if softmax is None else shape_of(softmax, 0)
            if softmax is None or not shape or len(shape) < 3:
                continue
            along = dimension(softmax._saved_dim, len(shape)) - len(shape)
            if along == axis and shape[axis] == 1 < shape[summed]:
                found.append(softmax)
    return found


def _softmax_behind(node: Any) -> Any:
    """The softmax that gives an operand of a matrix product, whose last two axes nothing between has changed."""
    matrix = None
    for _ in range(_MOST_BETWEEN):
        if node is None:
            return None
        shape = shape_of(node, 0)
        if not shape or (matrix is not None and shape[-2:] != matrix):
            return None
        matrix = shape[-2:]
        if kind_of(node) in {"Softmax", "SafeSoftmax"}:
            return node if hasattr(node, "_saved_dim") else None
        if kind_of(node) not in _KEEPS_MATRIX:
            return None
        node = next((behind for behind, _ in node.next_functions if behind is not None), None)
    return None


def samples_of_loss(nodes: list[Any]) -> int | None:
    """How many samples a classification has: the targets of its one loss, each a class."""
    targets = [t for node in nodes if kind_of(node) == "NllLoss" and isinstance(t := node._saved_target, Tensor)]
    return targets[0].numel() if len(targets) == 1 else None


def _given_by_one_output(node: Any) -> bool:
    for _ in range(_MOST_BETWEEN):
        node = next((behind for behind, _ in node.next_functions if behind is not None), None)
        if node is None:
            return False
        kind = kind_of(node)
        if kind in _LAYERS:
            shape = shape_of(node, 0)
            return bool(shape) and len(shape) == 2 and shape[1] == 1 < shape[0]
        if kind not in _BETWEEN:
            return False
    return False
