"""Statements that look as if they did something, and leave it lying: read in the source, one statement at a time."""

import ast
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .source_nodes import dotted, shown_in

_COMPUTE = frozenset({
    "masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "index_put", "scatter_add", "scatter_reduce",
    "clamp", "clamp_min", "clamp_max", "nan_to_num", "softmax", "log_softmax", "sigmoid", "tanh", "relu", "dropout",
})  # fmt: skip
"""Operators that only compute, of names that nothing else has whose result may be left lying."""

_INTO = frozenset({"out", "inplace", "copy"})
"""Arguments by which a function writes into a tensor that is there."""

_OF_MODULES = frozenset({"torch", "F", "functional", "nn"})
"""Names under which torch's functions are called."""

_CALLED = frozenset({"zero_grad", "backward", "step", "train", "eval"})
"""Methods of a training of which a mere name does nothing."""

_SET = frozenset({"requires_grad", "grad", "training"})
"""Attributes that scripts set, and whose comparison nobody needs as a statement."""

_SET_BY_KEY = frozenset({"lr", "weight_decay", "momentum"})

_WORDS = (
    re.compile(rf"\.(?:{'|'.join(sorted(_COMPUTE))})\("),
    re.compile(rf"\.(?:{'|'.join(sorted(_CALLED))})[ \t]*(?:#[^\n]*)?$", re.MULTILINE),
    *(re.compile(rf"\.{name}[ \t]*==") for name in sorted(_SET)),
    *(re.compile(rf"{key}[\"']\][ \t]*==") for key in sorted(_SET_BY_KEY)),
    re.compile(r"=\+[ \t]"),
    re.compile(r"\.state_dict\([^)\n]"),
    re.compile(r"\.from_pretrained\("),
)
"""Without anchors, and not in one: so each is found by its letters, many times as fast as the beginnings of lines."""

_BEGINS = re.compile(
    rf"^[ \t]+[\w.\[\]\"']+(?:\.(?:{'|'.join(sorted(_COMPUTE))})\(|\.(?:{'|'.join(sorted(_CALLED))})[ \t]*(?:#[^\n]*)?$"
    rf"|(?:\.(?:{'|'.join(sorted(_SET))})|\[[\"'](?:{'|'.join(sorted(_SET_BY_KEY))})[\"']\])[ \t]*==|[ \t]*=\+[ \t]"
    r"|\.state_dict\([^)\n]|\.from_pretrained\()",
    re.MULTILINE,
)


class Discarded(NamedTuple):
    """A statement whose value nobody takes, or that throws away an earlier one."""

    line: int
    function: str
    """Function that holds it; ``<module>`` outside all."""
    text: str
    target: str
    """What stays as it is."""
    reason: str = "computed"
    """computed, not_called, compared, signed, loads_nothing, rebound, unread, overwritten, made_anew, misspelt, twin_read
    or list_unread."""
    called: str = ""
    method: bool = False
    """Whether what is called is a method of the tensor, not a function of torch."""
    meant: str = ""
    """The statement as it was meant, where that is certain."""


def may_lose(text: str) -> bool:
    """Whether a text is worth a parse."""
    return any(word.search(text) for word in _WORDS) and bool(_BEGINS.search(text))


def discarded(
    node: ast.stmt, function: str, lines: Sequence[str], known: Collection[str], states: Collection[str] = ()
) -> Discarded | None:
    """What a statement leaves lying; None for one that does something. ``known`` has a value before it in its function,
    ``states`` one that a state_dict() gave."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name)) as call) if name in _COMPUTE:
            return _computed(call, target, name, function, lines)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="state_dict")) as call) if _is_place(held):
            state = _only_argument(call)
            if state is not None and (is_state(state) or dotted(state) in states):
                target, text = shown_in(held, lines), shown_in(call, lines)
                meant = f"{target}.load_state_dict({shown_in(state, lines)})"
                return Discarded(node.lineno, function, text, target, "loads_nothing", "state_dict", meant=meant)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="from_pretrained")) as call) if "." in dotted(
            held
        ):
            if dotted(held).startswith("self."):  # a class by itself may be called to fetch its files
                target, text = dotted(held), shown_in(call, lines)
                return Discarded(
                    node.lineno, function, text, target, "made_anew", "from_pretrained", meant=f"{target} = {text}"
                )
        case ast.Expr(value=ast.Attribute(value=held, attr=name) as named) if name in _CALLED and _is_place(held):
            text = shown_in(named, lines)
            return Discarded(node.lineno, function, text, shown_in(held, lines), "not_called", name, meant=f"{text}()")
        case ast.Expr(value=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]) as compared) if _is_set(left):
            target = shown_in(left, lines)
            meant = f"{target} = {shown_in(right, lines)}"
            return Discarded(node.lineno, function, shown_in(compared, lines), target, "compared", meant=meant)
        case ast.Assign(targets=[target], value=ast.UnaryOp(op=ast.UAdd(), operand=added)):
            text, name = shown_in(node, lines), shown_in(target, lines)
            if name in known and re.match(r"[ \t]*=\+[ \t]", text.removeprefix(name)):
                return Discarded(
                    node.lineno, function, text, name, "signed", meant=f"{name} += {shown_in(added, lines)}"
                )
        case _:
            pass
    return None


def is_state(node: ast.expr) -> bool:
    """Whether it is the result of a state_dict(), or of a copy of it."""
    return any(isinstance(part, ast.Attribute) and part.attr == "state_dict" for part in ast.walk(node))


def _only_argument(call: ast.Call) -> ast.expr | None:
    if len(call.args) + len(call.keywords) != 1 or any(k.arg != "destination" for k in call.keywords):
        return None
    return call.args[0] if call.args else call.keywords[0].value


def _computed(call: ast.Call, target: ast.expr, name: str, function: str, lines: Sequence[str]) -> Discarded | None:
    if not _is_place(target) or _INTO & {k.arg for k in call.keywords}:
        return None
    method = dotted(target).rpartition(".")[2] not in _OF_MODULES
    if not method and not call.args:
        return None
    kept = shown_in(target if method else call.args[0], lines)
    return Discarded(call.lineno, function, shown_in(call, lines), kept, "computed", name, method)


def _is_place(node: ast.expr) -> bool:
    """Whether it names something that is there: ``x``, ``self.x``, ``parts[0].x``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name)


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in _SET and _is_place(node)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key in _SET_BY_KEY and _is_place(node)
        case _:
            return False
