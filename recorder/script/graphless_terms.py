"""Terms of a loss that are made of values without a graph: of a gradient, where `torch.autograd.grad(…)` was not told to create a
graph, or of what went through NumPy, as in `torch.from_numpy(out.data.numpy()[hard])`.

Read in the source. PyTorch's documentation: with create_graph=False, its default, no graph of the derivative is constructed.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .detached_terms import DetachedTerm, is_live, lost_names, name_of, single_bindings, terms_of
from .source_nodes import dotted, inside, scopes, shown_in

_ASKS = re.compile(r"\bgrad\(")
_THROUGH_NUMPY = re.compile(
    r"\b(?:from_numpy|[tT]ensor|FloatTensor)\([^\n]*\.(?:data|detach\(\))[\w.()]*\.(?:numpy|tolist)\("
)
_MAKES = frozenset(f"torch.{name}" for name in ("from_numpy", "tensor", "as_tensor", "Tensor", "FloatTensor"))
_GRAD = frozenset({"torch.autograd.grad", "autograd.grad"})
_LOSS = re.compile(r"loss|criter|mse|mae|l1|huber|bce|crossentropy", re.IGNORECASE)
"""Names of what computes a loss and has no weights of its own."""

_ARRAYS = frozenset({"numpy", "tolist"})
_OF_TORCH = frozenset({"torch", "F", "functional", "nn"})
_PLAIN_OWNERS = frozenset({"args", "opt", "opts", "cfg", "config", "hparams", "params", "settings"})

_PLAIN = ast.Constant(value=None)
"""What has no graph, and is made of no gradient."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SEQUENCES = (ast.Tuple, ast.List)


def may_leave_graph(text: str) -> bool:
    """Whether a text is worth a parse."""
    if ".backward(" not in text:
        return False
    return ("autograd" in text and _ASKS.search(text) is not None) or _THROUGH_NUMPY.search(text) is not None


def graphless_terms(tree: ast.Module, source: str) -> Iterator[DetachedTerm]:
    """All of a file, one for each sum that goes backward."""
    if not may_leave_graph(source):
        return
    lines, known = source.split("\n"), _imported(tree)
    returned = {n: made for scope, n in scopes(tree) if (made := _Reading(known, {}).returned(scope)) is not None}
    for scope, function in scopes(tree):
        nodes = list(inside(scope))
        lost = lost_names(nodes)
        if not lost:
            continue
        reading = _Reading(known, returned)
        reading.read(scope, lost)
        bound = single_bindings(nodes)
        for added in reading.sums:
            live = added.in_place or any(is_live(n, bound) for term in added.others for n in ast.walk(term))
            if live:
                text, source_text = shown_in(added.sum, lines), shown_in(added.made, lines)
                made = isinstance(added.made, ast.Call) and dotted(added.made.func) in _MAKES
                reason = "cut" if made else "no_graph_created"
                yield DetachedTerm(added.sum.lineno, function, text, added.term, added.made.lineno, source_text, reason)


def _imported(tree: ast.Module) -> frozenset[str]:
    """Names of ``torch.autograd.grad`` in a file."""
    found = set(_GRAD)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "torch.autograd":
            found |= {a.asname or a.name for a in node.names if a.name == "grad"}
    return frozenset(found)


class _Sum(NamedTuple):
    """A sum that goes backward, with the term in it that has no graph."""

    sum: ast.expr | ast.stmt
    term: str
    others: list[ast.expr]
    """Terms that may have a graph."""
    made: ast.expr
    """What gave the gradient without a graph."""
    in_place: bool = False


class _Reading:
    """What variables of one scope hold, in the order of its lines."""

    def __init__(self, known: frozenset[str], returned: dict[str, ast.expr]) -> None:
        self._known, self._returned = known, returned
        self._holds: dict[str, ast.expr | None] = {}
        """Variable → the call that gave what it is made of without a graph, _PLAIN, or None where it may have a graph."""
        self._wants: set[str] = set()
        """Variables that were told to require a gradient."""
        self.sums: list[_Sum] = []

    def returned(self, scope: ast.AST) -> ast.expr | None:
        """The gradient that all values of a function are made of; None where one may have a graph, or is of another."""
        if not isinstance(scope, _FUNCTIONS):
            return None
        self.read(scope, set())
        values = [n.value for n in inside(scope) if isinstance(n, ast.Return) and n.value is not None]
        made = [self._made_of(value) for value in values]
        found = next((m for m in made if m is not None and m is not _PLAIN), None)
        return found if found is not None and None not in made else None

    def read(self, scope: ast.AST, lost: set[str]) -> None:
        """Go through it once; ``lost`` has the names that go backward."""
        nodes = sorted((n for n in inside(scope) if isinstance(n, ast.stmt)), key=lambda n: (n.lineno, n.col_offset))
        nodes = nodes if isinstance(scope, (*_FUNCTIONS, ast.Module)) else []
        for node in nodes:
            match node:
                case ast.Assign(targets=[target], value=value):
                    self._added(value, lost if dotted(target) in lost else set())
                    self._bind(target, self._made_of(value))
                case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value) if dotted(target) in lost:
                    self._added_in_place(node, value)
                case ast.AugAssign(target=target, value=value):
                    self._bind(target, self._joined([target, value]))
                case ast.For(target=target, body=body):
                    trains = any(_goes_backward(n) for statement in body for n in ast.walk(statement))
                    self._bind(target, _PLAIN if trains else None)
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="requires_grad_"))):
                    self._wants.add(dotted(held))
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.BinOp() as value, attr="backward"))):
                    self._added(value, {"backward"})
                case _:
                    pass

    def _bind(self, target: ast.expr, made: ast.expr | None) -> None:
        if isinstance(target, _SEQUENCES):
            for part in target.elts:
                self._bind(part, made)
        elif name := dotted(target):
            self._holds[name] = made

    def _added(self, value: ast.expr, lost: set[str]) -> None:
        terms = list(terms_of(value)) if lost else []
        made = [self._made_of(term) for term in terms]
        for term, of in zip(terms, made, strict=True):
            if of is not None and of is not _PLAIN and len(terms) > 1:
                others = [t for t, m in zip(terms, made, strict=True) if m is None]
                self.sums.append(_Sum(value, name_of(term), others, of))
                return

    def _added_in_place(self, node: ast.AugAssign, value: ast.expr) -> None:
        made = self._made_of(value)
        if made is not None and made is not _PLAIN and self._holds.get(dotted(node.target)) is None:
            self.sums.append(_Sum(node, name_of(value), [], made, in_place=True))

    def _joined(self, parts: list[ast.expr]) -> ast.expr | None:
        """What a value is made of whose parts these are."""
        made = [self._made_of(part) for part in parts]
        return None if None in made else next((m for m in made if m is not _PLAIN), _PLAIN)

    def _made_of(self, value: ast.expr) -> ast.expr | None:
        match value:
            case ast.Constant():
                return _PLAIN
            case ast.Name(id=name):
                return None if name in self._wants else self._holds.get(name)
            case ast.Attribute(value=ast.Name(id=owner)) if owner in _PLAIN_OWNERS:
                return _PLAIN
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name.startswith(
                "lambda"
            ):  # others may be trained
                return _PLAIN
            case ast.Attribute(value=held, attr="shape" | "dtype" | "device" | "ndim") if dotted(held):
                return _PLAIN
            case ast.Subscript(value=held):
                return self._made_of(held)
            case ast.UnaryOp(operand=operand):
                return self._made_of(operand)
            case ast.BinOp(left=left, right=right):
                return self._joined([left, right])
            case ast.Compare(left=left, comparators=others):
                return self._joined([left, *others])
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._joined(parts)
            case ast.Call():
                return self._of_call(value)
            case _:
                return None

    def _through_numpy(self, value: ast.expr) -> bool:
        """Whether it is an array made of a value of this scope that may have had a graph."""
        nodes = list(ast.walk(value))
        out = any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _ARRAYS for n in nodes
        )
        cut = any(isinstance(n, ast.Attribute) and n.attr in {"data", "detach"} for n in nodes)
        return out and cut and any(isinstance(n, ast.Name) and self._holds.get(n.id, n) is None for n in nodes)

    def _of_call(self, call: ast.Call) -> ast.expr | None:
        given = [*call.args, *(k.value for k in call.keywords)]
        name = dotted(call.func)
        if name in self._known:
            return call if _creates_no_graph(call) else None
        if name in _MAKES and call.args and self._through_numpy(call.args[0]):
            return call
        if name in self._returned:
            return self._returned[name]
        owner, _, last = name.rpartition(".")
        if last in {"size", "dim", "numel"} or name in {"len", "range"}:
            return _PLAIN
        if owner.partition(".")[0] in _OF_TORCH or _LOSS.search(last):
            return self._joined(given)
        if isinstance(call.func, ast.Call) and _LOSS.search(dotted(call.func.func).rpartition(".")[2]):
            return self._joined(given)  # a loss that is made and called in one line
        if isinstance(call.func, ast.Attribute) and (not owner or owner in self._holds):
            return self._joined([call.func.value, *given])
        return None


def _creates_no_graph(call: ast.Call) -> bool:
    told = {k.arg: k.value for k in call.keywords}
    creates = told.get("create_graph", next(iter(call.args[4:]), None))  # the fifth argument
    return None not in told and (creates is None or (isinstance(creates, ast.Constant) and creates.value is False))


def _goes_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
