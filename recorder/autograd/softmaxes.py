"""A softmax over the one output of a layer: it is 1 whatever goes in. Found in the autograd graph."""

from typing import Any

from torch import Tensor

from .graph import dimension, shape_of

_SOFTMAXES = ("Softmax", "LogSoftmax", "SafeSoftmax")
_LAYERS = ("Addmm", "Mm")
_MOVES = {"View", "UnsafeView", "ReshapeAlias", "Unsqueeze", "Squeeze", "Transpose", "Permute", "Clone", "ToCopy"}
_BETWEEN = _MOVES | {"Tanh", "Relu", "LeakyRelu", "Sigmoid", "Gelu", "Mul", "Div", "NativeDropout"}
"""Operators between a layer and the softmax of what it puts out."""

_MOST_BETWEEN = 8


def kind_of(node: Any) -> str:
    """An autograd node's operator, such as Addmm."""
    return type(node).__name__.rstrip("0123456789").removesuffix("Backward")


def of_one_output(nodes: list[Any]) -> list[Any]:
    """Softmax nodes that go along one element, where a linear layer puts out that one for each sample: attention to a memory
    that has one entry so far is in order."""
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
    return found


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
