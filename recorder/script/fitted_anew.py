"""What is fitted on the data of an evaluation: ``scaler.fit_transform(x_test)`` beside ``scaler.fit_transform(x_train)``, or
``standardize(x_test)`` of a function that takes mean and deviation of what it is given. Read in the source."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .source_nodes import dotted, inside, scopes, shown_in

_FITS = frozenset({"fit", "fit_transform"})
_CALLED = re.compile(r"\.fit(?:_transform)?\(")
_OWN = re.compile(r"\.(?:std|max)\(")
_SPREADS = frozenset({"std", "max"})
_CENTRES = frozenset({"mean", "min"})
_NUMERIC = frozenset({"np", "numpy", "torch", "pd"})
_PREPARES = re.compile(
    r"scal|normali[sz]|standardi[sz]|encod|imput|vectori[sz]|binari[sz]|discreti[sz]|whiten|pca|transformer|tokeni[sz]",
    re.IGNORECASE,
)
"""What prepares data, and is no model."""

_EVALUATED = re.compile(
    r"(?:^|[_.\W])(?:x_?|X_?|y_?)?(?:test|tst|val|valid|validation|eval|dev|holdout)(?:$|[_.\W\d])", re.IGNORECASE
)
_TRAINED = re.compile(r"train|(?:^|[_.\W])(?:tr|trn|fit|all|full)(?:$|[_.\W\d])", re.IGNORECASE)


class FittedAnew(NamedTuple):
    """A call that fits what prepares the data of an evaluation."""

    line: int
    function: str
    text: str
    fitted: str
    """What is fitted."""
    given: str
    trained: str
    """The call that fits the same on data of the training."""


def may_fit(text: str) -> bool:
    """Whether a text is worth a parse."""
    fits = _CALLED.search(text) is not None and _PREPARES.search(text) is not None
    return fits or (_OWN.search(text) is not None and "def " in text)


def fitted_anew(tree: ast.Module, source: str) -> Iterator[FittedAnew]:
    """Calls on the data of an evaluation, where one of the same class or name is fitted on the data of the training too."""
    if not may_fit(source):
        return
    lines = source.split("\n")
    own = _own_statistics(tree)
    for scope, function in scopes(tree):
        made = _made(scope)
        calls = [call for call in inside(scope) if isinstance(call, ast.Call)]
        fits = [(call, *fit) for call in calls if (fit := _fit(call, made) or _of_own(call, own))]
        for call, fitted, kind, given in fits:
            if not _EVALUATED.search(given) or _TRAINED.search(given):
                continue
            other = next(
                (c for c, _, k, g in fits if k == kind and _TRAINED.search(g) and not _EVALUATED.search(g)), None
            )
            if other is not None:
                yield FittedAnew(call.lineno, function, shown_in(call, lines), fitted, given, shown_in(other, lines))


def _made(scope: ast.AST) -> dict[str, str]:
    """Names → the class that each is made of."""
    return {
        dotted(node.targets[0]): dotted(node.value.func).rpartition(".")[2]
        for node in inside(scope)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call)
    }


def _fit(call: ast.Call, made: dict[str, str]) -> tuple[str, str, str] | None:
    """(what is fitted, its class or else its name, on what)."""
    match call:
        case ast.Call(func=ast.Attribute(value=held, attr=name), args=[ast.expr() as given, *_]) if name in _FITS:
            pass
        case _:
            return None
    if isinstance(held, ast.Call):
        fitted = dotted(held.func)
        kind = fitted.rpartition(".")[2]
    else:
        fitted = dotted(held)
        kind = made.get(fitted, fitted)
    if not _PREPARES.search(f"{fitted} {kind}"):
        return None
    return (fitted, kind, _data(given)) if _data(given) else None


def _data(given: ast.expr) -> str:
    """The name of what is given, without what picks a part or makes an array of it."""
    match given:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module)), args=[first, *_]) if module in _NUMERIC:
            return _data(first)
        case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)):
            return _data(value)
        case ast.Call(args=[first, *_]):
            return _data(first)
        case _:
            return dotted(given)


def _own_statistics(tree: ast.Module) -> dict[str, int]:
    """Functions and classes → the place of the argument whose centre and spread over all samples they take themselves."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name):
                functions, skipped = [node], 0
            case ast.ClassDef(name=name, body=body):
                functions = [f for f in body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
                skipped = 1
            case _:
                continue
        for function in functions:
            for place, argument in enumerate(function.args.args[skipped:]):
                taken = {n for part in function.body for n in _taken(part, argument.arg)}
                if taken & _SPREADS and taken & _CENTRES and _moved(function, argument.arg):
                    found[name] = place
    return found


def _moved(function: ast.FunctionDef, argument: str) -> bool:
    """Whether something is subtracted from an argument, in a quotient."""
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _less(node.left, argument)
        for node in ast.walk(function)
    )


def _less(node: ast.expr, argument: str) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and dotted(node.left) == argument


def _taken(part: ast.stmt, argument: str) -> Iterator[str]:
    """Statistics of an argument over all its samples: ``x.mean(0)``, ``np.std(x, axis=0)``, ``x.mean()``."""
    for node in ast.walk(part):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr=name), args=rest, keywords=keywords):
                pass
            case _:
                continue
        if held in _NUMERIC and rest and dotted(rest[0]) == argument:
            rest = rest[1:]
        elif held != argument:
            continue
        axes = [*rest, *(k.value for k in keywords if k.arg in {"axis", "dim"})]
        if all(isinstance(axis, ast.Constant) and axis.value == 0 for axis in axes):
            yield name


def _of_own(call: ast.Call, own: dict[str, int]) -> tuple[str, str, str] | None:
    name = dotted(call.func)
    if name not in own or len(call.args) <= own[name]:
        return None
    given = _data(call.args[own[name]])
    return (name, name, given) if given else None
