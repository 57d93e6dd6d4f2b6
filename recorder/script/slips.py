"""Mistakes that can be read in a script's source: what is left lying or bound anew, one module several times, kept aliases,
detached terms, what is turned round, ignored or fitted on an evaluation."""

import ast
import linecache
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from .detached_parts import DetachedPart, detached_parts, may_cut
from .detached_terms import DetachedTerm, detached_terms, may_detach
from .fitted_anew import FittedAnew, fitted_anew, may_fit
from .graphless_terms import graphless_terms, may_leave_graph
from .ignored_arguments import IgnoredArgument, ignored_arguments, may_ignore
from .kept_aliases import KeptAlias, kept_aliases, may_keep
from .lost_results import Discarded, discarded, is_state, may_lose
from .overwritten_results import may_overwrite, overwritten
from .rebound_parameters import may_rebind, rebound
from .same_twice import RepeatedDerivative, may_be_one, own_differences, repeated_derivatives
from .source_nodes import dotted, shown_in
from .turned_round import TurnedRound, may_be_turned, turned_round
from .unread_arguments import may_leave_unread, unread
from .unread_branches import UnreadBranch, may_hold_unread_branch, unread_branches
from .unread_lists import may_fill_in_vain, unread_lists
from .unread_twins import may_hold_twins, unread_twins

_LISTED = re.compile(r"\[[ \t]*[\w.]+\([^\n]*\)[ \t]*\][ \t)]*\*")

_READERS = (
    may_lose, may_keep, may_detach, may_leave_graph, may_cut, may_rebind, may_leave_unread, may_overwrite, _LISTED.search,
    may_hold_unread_branch, may_be_one, may_hold_twins, may_be_turned,
    may_ignore, may_fit, may_fill_in_vain,
)  # fmt: skip
"""What finds a text worth a parse."""

_LARGEST = 300_000
"""Letters of a file: a parse takes half a second for each million."""


class Repeated(NamedTuple):
    """A list of one new object several times: ``[Block(8)] * 4``."""

    line: int
    text: str
    made: str
    """Name of what is called to make the object."""
    element: str


class Slips(NamedTuple):
    """All of a file, in order of lines."""

    discarded: tuple[Discarded, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    kept: tuple[KeptAlias, ...] = ()
    detached: tuple[DetachedTerm, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    """(function, name that it calls), where something was left lying or detached."""
    cut: tuple[DetachedPart, ...] = ()
    branches: tuple[UnreadBranch, ...] = ()
    derivatives: tuple[RepeatedDerivative, ...] = ()
    turned: tuple[TurnedRound, ...] = ()
    ignored: tuple[IgnoredArgument, ...] = ()
    fitted: tuple[FittedAnew, ...] = ()


@cache
def slips(file: str) -> Slips:
    """What a file holds; nothing where it cannot be read, is no Python, or is very large."""
    text = "".join(linecache.getlines(file))
    if len(text) > _LARGEST or not any(worth(text) for worth in _READERS):
        return Slips()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return Slips()
    return slips_of(tree, text)


def slips_of(tree: ast.Module, text: str) -> Slips:
    """What a parsed text holds."""
    lines = text.split("\n")
    shown = {id(statement) for statement in tree.body}  # a notebook shows the value of a cell's last statement
    left, again, called = list[Discarded](), list[Repeated](), set[tuple[str, str]]()
    callable_classes = set[str]()
    bound, states = dict[str, set[str]](), dict[str, set[str]]()
    for node, function in _nodes(tree, "<module>"):
        match node:
            case ast.Expr() | ast.Assign() if id(node) not in shown or isinstance(node, ast.Assign):
                found = discarded(node, function, lines, bound.get(function, ()), states.get(function, ()))
                if found is not None:
                    left.append(found)
                elif isinstance(node, ast.Assign) and is_state(node.value):
                    states.setdefault(function, set()).update(dotted(target) for target in node.targets)
            case ast.BinOp(left=ast.List(elts=[ast.Call(func=made) as element]), op=ast.Mult()) if dotted(made):
                name = dotted(made).rpartition(".")[2]
                again.append(Repeated(node.lineno, shown_in(node, lines), name, shown_in(element, lines)))
            case ast.Try(body=[ast.Expr(value=ast.Attribute()) as tried]):
                shown.add(id(tried))  # asks whether there is such a name
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                called.add((function, name))
            case ast.ClassDef(name=name, body=body) if any(getattr(part, "name", "") == "__call__" for part in body):
                callable_classes.add(name)
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                bound.setdefault(function, set()).add(dotted(node))
            case _:
                pass
    left += [*rebound(tree, text), *unread(tree, text), *overwritten(tree, text), *unread_twins(tree, text)]
    left += unread_lists(tree, text)
    left.sort(key=lambda slip: slip.line)
    kept = tuple(kept_aliases(tree, text))
    detached = (*detached_terms(tree, text), *graphless_terms(tree, text), *own_differences(tree, text))
    derivatives = tuple(repeated_derivatives(tree, text))
    called |= {(function, "__call__") for function, name in called if name in callable_classes}
    turned = tuple(turned_round(tree, text))
    fitted = tuple(fitted_anew(tree, text))
    calls = tuple(sorted(called)) if left or detached or derivatives or turned or fitted else ()
    ignored = tuple(ignored_arguments(tree, text))
    cut, branches = tuple(detached_parts(tree, text)), tuple(unread_branches(tree, text))
    return Slips(tuple(left), tuple(again), kept, detached, calls, cut, branches, derivatives, turned, ignored, fitted)


def running(file: str, roots: set[str]) -> set[str]:
    """Functions of a file that run where those of ``roots`` do: what they call by name, and what these call."""
    calls = slips(file).calls
    found, todo = set(roots), list(roots)
    while todo:
        function = todo.pop()
        new = {name for caller, name in calls if caller == function} - found
        found |= new
        todo.extend(new)
    return found


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr | ast.stmt):
            yield child, function
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if inside == "__init__" and isinstance(node, ast.ClassDef):
            inside = node.name  # it is called by the name of its class
        yield from _nodes(child, inside)
