"""What a script does the wrong way round: a limit that is reached at once, a best value that keeps the worst, an average of
weights that follows the last ones. All three are read in the source.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from math import inf
from typing import NamedTuple

from .number_words import A_MEASURE, AN_ERROR
from .source_nodes import dotted, inside, scopes, shown_in

_LIMIT = re.compile(r"([\w.]+)[ \t]*=[ \t]*(?:max|min)\([^\n]*\b\1\b")
_BEST = re.compile(r"\b[bB]est|[bB]est\b|best_")
_AVERAGE = re.compile(r"\b1(?:\.0*)?[ \t]*-[ \t]*[\w.]+[ \t]*\)")

_FAR = 1e6
"""Beyond it a first best value stands for no number at all: convention, as in 1e9 for infinity."""

_AT_ONCE = 0.2
"""Share of its old value that an average keeps: convention, published averages of weights keep 0.9 and more at each step."""

_AVERAGES = re.compile(r"(?:^|[_.\W])ema|target|targ\b|average|avg|teacher|shadow|momentum|moving|_k\b", re.IGNORECASE)

_NO_WEIGHTS = re.compile(r"loss|acc|score|reward|return|time|speed|prob|logit|label", re.IGNORECASE)
"""Of numbers that are averaged or weighted as anybody likes."""

_SAVES = re.compile(r"save|state_dict|deepcopy|checkpoint|patience|wait|counter", re.IGNORECASE)
"""Words beside a best value: it decides which weights are kept, or when a training ends."""

_ATTACK = re.compile(r"\badv|_adv\b|adversar|attack|perturb", re.IGNORECASE)

_GROWTH = re.compile(r"anneal|step|inc|delta|rate|warm|speed", re.IGNORECASE)
"""Words of what is added to a number until it is at its limit."""

_Numbers = Callable[[], Mapping[str, float]]


class TurnedRound(NamedTuple):
    """One statement, and how it was meant."""

    line: int
    function: str
    text: str
    reason: str
    """limit, never (no number is better than the first one), worst (the worst is kept) or average."""
    target: str
    value: float | None
    """What the target begins with; of an average the share of its old value that it keeps."""
    limit: str
    """What it is compared with, or what the average follows."""
    meant: str


def may_be_turned(text: str) -> bool:
    """Whether a text is worth a parse."""
    return bool(_LIMIT.search(text) or _BEST.search(text) or _AVERAGE.search(text))


def turned_round(tree: ast.Module, source: str) -> Iterator[TurnedRound]:
    """All of a file."""
    if not may_be_turned(source):
        return
    lines = source.split("\n")
    owners = {id(f): c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in c.body}
    numbers = cache(partial(_numbers, tree))
    for scope, function in scopes(tree):
        owner = owners.get(id(scope))
        if function == "__init__" and owner is not None:
            continue
        begun = cache(partial(_begun, tree, owner, scope))
        for node in inside(scope):
            found = None
            match node:
                case ast.Assign(targets=[target], value=ast.Call()) | ast.AnnAssign(target=target, value=ast.Call()):
                    found = _limit(node, dotted(target), begun, numbers, lines) or _best_of(node, dotted(target), lines)
                case ast.Assign(targets=[target], value=ast.BinOp() as written):
                    found = _average(written, _held(target), numbers, lines)
                case ast.If():
                    found = _best(node, begun, partial(_rebound, owner or scope, scope, node), lines)
                case ast.Call(func=ast.Attribute(value=held, attr="copy_"), args=[ast.BinOp() as written]):
                    found = _average(written, _held(held), numbers, lines)
                case _:
                    pass
            if found is not None and not (found.reason == "worst" and _attacks(scope, lines)):
                yield found._replace(function=function)


def _attacks(scope: ast.AST, lines: list[str]) -> bool:
    """Whether a function looks for the greatest loss on purpose, as of an adversarial example."""
    first, last = getattr(scope, "lineno", 1), getattr(scope, "end_lineno", None) or len(lines)
    return _ATTACK.search("\n".join(lines[first - 1 : last])) is not None


def number_of(node: ast.expr | None) -> float | None:
    """The number that an expression writes out: ``-1e9``, ``float("inf")``, ``-np.inf``, ``sys.maxsize``."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = number_of(operand)
            return None if value is None else -value
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return {"inf": inf, "+inf": inf, "infinity": inf, "-inf": -inf, "-infinity": -inf}.get(text.strip().lower())
        case ast.Attribute(attr="inf" | "Inf" | "infty" | "maxsize"):
            return inf
        case _:
            return None


def _begun(tree: ast.Module, owner: ast.ClassDef | None, scope: ast.AST) -> Mapping[str, float]:
    """Numbers that names are given before anything else: in the function, by its defaults, in the class or in the file."""
    own = [*(_initial(owner) if owner is not None else ()), *_initial(scope)]
    begun = {name: value for name, value in reversed([*_initial(tree), *own]) if value is not None}
    first = dict(reversed(own))
    return {name: value for name, value in begun.items() if first.get(name, value) is not None}


def _initial(scope: ast.AST) -> list[tuple[str, float | None]]:
    """(name, number) of assignments outside loops, in their order: of a class those of its methods' ``__init__``."""
    if isinstance(scope, ast.ClassDef):
        makers = [f for f in scope.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
        return [each for maker in makers for each in _initial(maker)]
    found: list[tuple[str, float | None]] = []
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        found += _defaults(scope).items()
    for node in _straight(getattr(scope, "body", [])):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if dotted(target):
                        found.append((dotted(target), _resolved(value, found)))
                    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        pairs = zip(target.elts, value.elts, strict=False)
                        found += [(dotted(t), number_of(v)) for t, v in pairs if dotted(t)]
            case ast.AnnAssign(target=target, value=ast.expr() as value) if dotted(target):
                found.append((dotted(target), _resolved(value, found)))
            case _:
                pass
    return found


def _resolved(value: ast.expr, before: list[tuple[str, float | None]]) -> float | None:
    number = number_of(value)
    if number is None and isinstance(value, ast.Name):
        return next((known for name, known in reversed(before) if name == value.id), None)
    return number


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run once and first, up to no loop: those inside ``with``, ``try`` and ``if`` too."""
    for node in body:
        yield node
        for part in ("body", "orelse"):
            if isinstance(node, ast.With | ast.Try | ast.If):
                yield from _straight(getattr(node, part, []))


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, float]:
    given = function.args
    named = [*zip(reversed([*given.posonlyargs, *given.args]), reversed(given.defaults), strict=False)]
    named += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
    return {a.arg: value for a, d in named if (value := number_of(d)) is not None}


def _numbers(tree: ast.Module) -> dict[str, float]:
    """Numbers that a file gives to one name only once: settings. By the last part of the name."""
    found: dict[str, set[float | None]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=value) if dotted(target):
                if not (isinstance(value, ast.Name) and value.id == dotted(target).rpartition(".")[2]):
                    found.setdefault(dotted(target).rpartition(".")[2], set()).add(number_of(value))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for name, value in _defaults(node).items():
                    found.setdefault(name, set()).add(value)
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value=str(name)), *_]):
                value = next((number_of(k.value) for k in node.keywords if k.arg == "default"), None)
                found.setdefault(name.lstrip("-").replace("-", "_"), set()).add(value)
            case ast.Call(keywords=keywords):
                for keyword in keywords:
                    if keyword.arg and number_of(keyword.value) is not None:
                        found.setdefault(keyword.arg, set()).add(number_of(keyword.value))
            case ast.AugAssign(target=target):
                found.setdefault(dotted(target).rpartition(".")[2], set()).add(None)
            case _:
                pass
    return {
        name: value for name, values in found.items() if len(values) == 1 and (value := next(iter(values))) is not None
    }


def _value(node: ast.expr, numbers: _Numbers) -> float | None:
    number = number_of(node)
    return numbers().get(dotted(node).rpartition(".")[2]) if number is None and dotted(node) else number


def _limit(
    node: ast.Assign | ast.AnnAssign, target: str, begun: _Numbers, numbers: _Numbers, lines: list[str]
) -> TurnedRound | None:
    """``beta = max(1.0, beta + anneal)`` of what begins below the limit: it is there at once."""
    match node.value:
        case ast.Call(func=ast.Name(id="max" | "min" as bound), args=[one, other], keywords=[]) if target:
            pass
        case _:
            return None
    step = ast.Add if bound == "max" else ast.Sub
    if _moves(one, target, step):
        one, other = other, one
    if not _moves(other, target, step):
        return None
    start, limit = begun().get(target), _value(one, numbers)
    if (
        start is None
        or limit is None
        or abs(limit) >= _FAR
        or not _grows_bit_by_bit(other, target, start, limit, numbers)
    ):
        return None
    if (start < limit) if bound == "max" else (start > limit):
        text = shown_in(node, lines)
        right = "min" if bound == "max" else "max"
        meant = text.replace(f"{bound}(", f"{right}(", 1)
        return TurnedRound(node.lineno, "", text, "limit", target, start, shown_in(one, lines), meant)
    return None


def _grows_bit_by_bit(node: ast.expr, target: str, start: float, limit: float, numbers: _Numbers) -> bool:
    """Whether the first step does not reach the limit by itself, or is called what a small step is."""
    if not isinstance(node, ast.BinOp):
        return False
    step = node.right if dotted(node.left) == target else node.left
    value = _value(step, numbers)
    if value is None:
        return _GROWTH.search(dotted(step)) is not None
    return 0 < value < abs(limit - start)


def _moves(node: ast.expr, target: str, step: type[ast.operator]) -> bool:
    """Whether it is the target and something more, or less."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, step):
            return dotted(left) == target or (step is ast.Add and dotted(right) == target)
        case _:
            return False


def _rebound(holder: ast.AST, scope: ast.AST, condition: ast.If) -> set[str]:
    """Names that something else than a condition binds again, behind what they begin with."""
    nodes = list(ast.walk(holder if isinstance(holder, ast.ClassDef) else scope))
    first = [
        s for place in (scope, holder) for s in _first_statements(place) if isinstance(s, ast.Assign | ast.AnnAssign)
    ]
    left_out = {id(n) for statement in (*first, condition) for n in ast.walk(statement)}
    return {
        dotted(n)
        for n in nodes
        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store) and id(n) not in left_out
    }


def _first_statements(scope: ast.AST) -> Iterator[ast.stmt]:
    if isinstance(scope, ast.ClassDef):
        for part in scope.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                yield from _straight(part.body)
    else:
        yield from _straight(getattr(scope, "body", []))


def _best(node: ast.If, begun: _Numbers, rebound: Callable[[], set[str]], lines: list[str]) -> TurnedRound | None:
    """``if loss > best_loss: best_loss = loss``, and a first value that no number beats."""
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
    compared = next((found for test in tests if (found := _comparison(test)) is not None), None)
    if compared is None:
        return None
    new, below, best = compared  # the condition holds where new lies below the best, or above it
    holds, fails = (
        any(_binds(n, best, new) for part in branch for n in ast.walk(part)) for branch in (node.body, node.orelse)
    )
    if holds == fails:
        return None  # it is bound in neither branch, or whatever the condition says
    below = below if holds else not below
    start = begun().get(best)
    text = shown_in(node.test, lines)
    if start is not None and abs(start) >= _FAR and below == (start < 0) and best not in rebound():
        return TurnedRound(node.lineno, "", text, "never", best, start, new, "")
    kept = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    if "best" in best.lower() and _SAVES.search(kept) and _worse(f"{new} {best}", below):
        return TurnedRound(node.lineno, "", text, "worst", best, start, new, "")
    return None


def _best_of(node: ast.Assign | ast.AnnAssign, target: str, lines: list[str]) -> TurnedRound | None:
    """``best_acc = min(acc, best_acc)``."""
    match node.value:
        case ast.Call(func=ast.Name(id="max" | "min" as chosen), args=[one, other], keywords=[]):
            names = {dotted(one), dotted(other)}
        case _:
            return None
    if target not in names or "best" not in target.lower() or len(names) != 2 or "" in names:
        return None
    new = (names - {target}).pop()
    if not _worse(f"{new} {target}", chosen == "min"):
        return None
    text = shown_in(node, lines)
    right = "max" if chosen == "min" else "min"
    return TurnedRound(
        node.lineno, "", text, "worst", target, None, new, text.replace(f"{chosen}(", f"{right}(", 1)
    )  # fmt: skip


def _worse(names: str, below: bool) -> bool:
    """Whether what is kept is the worse: less of a measure, or more of an error."""
    measure, error = A_MEASURE.search(names), AN_ERROR.search(names)
    return bool(measure if below else error) and not (measure and error)


def _comparison(test: ast.expr) -> tuple[str, bool, str] | None:
    """(new, whether it is to be below, best) of a comparison of two names, of which one may have a margin."""
    match test:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op], comparators=[right]):
            one, other = _without_margin(left), _without_margin(right)
        case _:
            return None
    below = isinstance(op, ast.Lt | ast.LtE)
    if not one or not other or one == other:
        return None
    if "best" in one.lower() and "best" not in other.lower():
        return other, not below, one
    return one, below, other


def _without_margin(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub()):
            return dotted(left)
        case ast.Call(func=ast.Attribute(value=held, attr="item"), args=[]):
            return dotted(held)
        case _:
            return dotted(node)


def _binds(node: ast.AST, best: str, new: str) -> bool:
    match node:
        case ast.Assign(targets=[target], value=value):
            return dotted(target) == best and _without_margin(value) == new
        case _:
            return False


def _average(node: ast.BinOp, into: str, numbers: _Numbers, lines: list[str]) -> TurnedRound | None:
    """``target.copy_(tau * target + (1 - tau) * online)`` with a small tau: nearly a copy of the last weights."""
    match node:
        case ast.BinOp(left=ast.BinOp(op=ast.Mult()) as one, op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as other):
            weighted = _weighted(one, other) or _weighted(other, one)
        case _:
            return None
    share = None if weighted is None else numbers().get(weighted[0].rpartition(".")[2])
    if weighted is None or share is None or not 0 < share < 1:
        return None
    _, by_itself, by_the_rest = weighted
    average, online, keeps = into, by_the_rest, share
    if by_the_rest == into:
        online, keeps = by_itself, 1 - share
    elif by_itself != into:
        return None
    if not _AVERAGES.search(average) or _AVERAGES.search(online) or _NO_WEIGHTS.search(f"{average} {online}"):
        return None
    if keeps > _AT_ONCE:
        return None
    return TurnedRound(node.lineno, "", shown_in(node, lines), "average", average, keeps, online, "")


def _weighted(one: ast.BinOp, other: ast.BinOp) -> tuple[str, str, str] | None:
    """(number, what it weights, what the rest to one weights) of ``tau * online`` and ``(1 - tau) * target``."""
    for rest, held in ((other.left, other.right), (other.right, other.left)):
        match rest:
            case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=number) if dotted(number):
                pass
            case _:
                continue
        for weight, weighted in ((one.left, one.right), (one.right, one.left)):
            if dotted(weight) == dotted(number) and _held(weighted) and _held(held):
                return dotted(number), _held(weighted), _held(held)
    return None


def _held(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=held, attr="detach" | "clone" | "to" | "cpu")):
            return _held(held)
        case ast.Subscript(value=held):
            return _held(held)
        case _:
            name = dotted(node)
            return name.removesuffix(".data")
