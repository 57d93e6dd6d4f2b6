"""How many optimizer steps a run is to make, read from the loops of the script that enclose ``optimizer.step()``.

The frames are walked from the step outwards. What cannot be told for certain makes the whole unknown: a ``break`` at
anything but a plain bound, a loop over what has no known length, a loop of a framework. Nothing of the script is run but
``len()`` of its data.
"""

import ast
import functools
import linecache
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from .frame_source import LoopNode, Scope, assigned, call_at, enclosing, targets_around, tree_of
from .frames import is_ours, is_users
from .loop_bounds import Bound, bound_of, moves, note_raises, taken_apart, truth
from .made_lengths import grown, made_anew, of_generator, same_count
from .plain_values import UnknownError, length, names, number, value
from .source_nodes import dotted, inside

_ENDINGS = frozenset({"exit", "quit", "sys.exit", "os._exit", "os.kill"})
_TORCH = tuple(torch.__path__)


@dataclass(slots=True)
class Loop:
    """A loop of the script that encloses the step."""

    code: CodeType
    first: int
    last: int
    line: int
    """Where the frame is."""
    length: float | None
    """Passes that it makes; infinite where only a bound ends it, None where it cannot be told."""
    every: int = 1
    """Passes for each that goes on to what is inside, as with ``if (i + 1) % 4 == 0``."""
    bounds: list[Bound] = field(default_factory=list[Bound])


def loops_around(frame: FrameType | None) -> list[Loop]:
    """The loops around the innermost step of an optimizer, the innermost first. Raises UnknownError."""
    while frame is not None and _is_torch_or_ours(frame.f_code.co_filename):
        frame = frame.f_back
    found: list[Loop] = []
    owed = _Owed()
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            found += _loops_of(frame, owed, innermost=not found)
        elif _loops_in_library(frame):
            raise UnknownError  # a loop of a framework
        frame = frame.f_back
    return found


def _loops_in_library(frame: FrameType) -> bool:
    code = frame.f_code
    known = _is_torch_or_ours(code.co_filename) or code.co_filename.startswith("<frozen") or code.co_name[:1] == "<"
    return not known and any(isinstance(node, LoopNode) for node in enclosing(frame)[1])


def planned(
    first: list[Loop],
    second: list[Loop],
    made_in: list[tuple[CodeType, int]] | None = None,
    *,
    passes_only: bool = False,
) -> int:
    """Steps of the whole run, of the loops as they were at two steps in a row. Raises UnknownError.

    ``made_in``: the calls in which a schedule was made; loops that hold them too make a schedule anew in each pass.
    ``passes_only``: passes of the first loop are counted, whatever they hold.
    """
    if [(a.code, a.line, a.first) for a in first] != [(b.code, b.line, b.first) for b in second] or not first:
        raise UnknownError
    if passes_only and first[0].every != 1:
        raise UnknownError
    total: float | None = 1.0
    always, of_frame = math.inf, math.inf
    code = first[0].code
    for now, later in zip(first, second, strict=True):
        if any(now.code is made and now.first <= line <= now.last for made, line in made_in or ()):
            break
        if now.code is not code and total is not None:
            total, of_frame, code = min(total, of_frame), math.inf, now.code
        passes, ended = now.length, False
        for before, after in zip(now.bounds, later.bounds, strict=True):
            moved, left = after.at - before.at, before.last - before.at
            if moved == 0 and before.by > 0 and (before.ends_all or passes is not None):
                limit = math.ceil(left / before.by)
                passes = limit if before.ends_all or passes is None else min(passes, limit)
                continue
            if passes_only or moved < 1 or (moved > 1 and moved not in (before.by, first[0].every)):
                raise UnknownError
            steps = math.ceil(left / moved)
            always, of_frame = (always, min(of_frame, steps)) if before.of_frame else (min(always, steps), of_frame)
            ended |= before.ends_all or passes == math.inf
        if ended:
            total = min(always, of_frame)
        elif passes is None or total is None:
            total = None
        else:
            total *= math.floor(passes / now.every) if math.isfinite(passes) else passes
    if total is None or not math.isfinite(steps := min(total, always, of_frame)) or steps < 1:
        raise UnknownError
    return math.ceil(steps)


def calls_now(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    """Code and line of all frames of the user's own files, for ``planned``."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found


def loop_of(frame: FrameType | None, scheduler: Any) -> int:
    """Which of ``loops_around`` calls ``step()`` of a scheduler once in each pass that makes a step. Raises UnknownError."""
    while frame is not None and _is_torch_or_ours(frame.f_code.co_filename):
        frame = frame.f_back
    passed, found = 0, list[int]()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            scope, around = enclosing(frame)
            loops = [node for node in around if isinstance(node, LoopNode)]
            for path in _paths(scope.body, [], functools.partial(_is_step_of, scheduler, frame)):
                within = [node for node in path if isinstance(node, LoopNode)]
                if within != loops[: len(within)]:
                    raise UnknownError
                changed = {name for loop in loops for name in assigned(loop)}
                for node in path:
                    if isinstance(node, ast.If) and node not in around and not truth(node.test, frame, changed):
                        raise UnknownError
                conditions = [n for n in around if isinstance(n, ast.If) and n not in path]
                if len(within) == len(loops) and conditions:
                    raise UnknownError  # of each pass, where the optimizer is not
                found.append(passed + len(loops) - len(within))
            passed += len(loops)
        frame = frame.f_back
    if len(found) != 1:
        raise UnknownError
    return found[0]


def _is_step_of(scheduler: Any, frame: FrameType, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return False
    try:
        return value(call.func.value, frame) is scheduler
    except UnknownError:
        return False


def _paths(body: list[ast.stmt], path: list[ast.stmt], wanted: Callable[[ast.Call], bool]) -> Iterator[list[ast.stmt]]:
    """Statements around each call that is wanted, the outermost first; the branch that is not taken as a rule holds none."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        parts = [getattr(node, part, []) for part in ("body", "orelse", "finalbody")]
        parts += [h.body for h in getattr(node, "handlers", [])]
        if not any(parts):
            yield from (path for n in ast.walk(node) if isinstance(n, ast.Call) and wanted(n))
        for part in parts:
            beside = isinstance(node, ast.For | ast.While) and part is not node.body
            yield from _paths(part, path if beside else [*path, node], wanted)


def removes_files() -> bool:
    """Whether a file of the user's that is loaded removes files: then checkpoints may be few."""

    files = {str(getattr(m, "__file__", None) or "") for m in list(sys.modules.values())}
    words = ("remove(", "unlink", "rmtree", "rename(", "replace(", "move(", "subprocess", "os.system")
    return any(w in "".join(linecache.getlines(f)) for f in files if f.endswith(".py") and is_users(f) for w in words)


# -- one frame ------------------------------------------------------------------------------------------------------------


class _Owed:
    """Values on which lengths rest and which a function was given: its caller's loops may give others."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.globals: list[tuple[int, str]] = []
        self.untold = False
        """Whether something is not followed, so that a loop further out may change it."""
        self.every = 1

    def called_from(self, frame: FrameType, call: ast.Call | None, changed: set[str], *, loops: bool) -> None:
        """Follow each value to what the caller gives; raises UnknownError where a loop of the caller changes it."""
        if loops and self.untold:
            raise UnknownError
        given = [*call.args, *(k.value for k in call.keywords)] if call is not None else []
        if call is not None and isinstance(call.func, ast.Attribute):
            given.append(call.func.value)
        owed, self.values = self.values, []
        for wanted in owed:
            for node in given:
                try:
                    same = value(node, frame) is wanted
                except UnknownError:
                    continue
                if same:
                    self.rest_on(node, frame, changed)
                    break
            else:
                if loops:
                    raise UnknownError
                self.untold = True

    def rest_on(self, node: ast.AST, frame: FrameType, changed: set[str]) -> None:
        """A length rests on an expression in this frame."""
        code = frame.f_code
        if not grown(frame).isdisjoint(dotted(n) for n in ast.walk(node)):
            raise UnknownError
        for name in names(node, frame):
            if name in changed:  # a new order of as many
                parts = made_anew(name, enclosing(frame)[0], frame)
                same_count(parts, frame)
                for part in parts:
                    self.rest_on(part, frame, changed - {name})
                continue
            if name in frame.f_locals and code.co_name != "<module>":
                if name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] or name in code.co_freevars:
                    held = frame.f_locals[name]
                    self.values.append(held)
                    self.untold |= isinstance(held, int) and -5 <= held <= 256  # one object of many expressions
            elif name in frame.f_globals:
                self.globals.append((id(frame.f_globals), name))

    def module(self, frame: FrameType, changed: set[str]) -> None:
        """The loops of a file change no name that lengths rest on."""
        if any(held == id(frame.f_globals) and name in changed for held, name in self.globals):
            raise UnknownError


def _loops_of(frame: FrameType, owed: _Owed, *, innermost: bool) -> list[Loop]:
    scope, around = enclosing(frame)
    call = call_at(scope, frame)
    loops = [node for node in around if isinstance(node, LoopNode)]
    changed = {name for loop in loops for name in assigned(loop)}
    if call is None:
        raise UnknownError
    _called_once(frame, scope, call, loops, innermost=innermost)
    if not innermost:
        owed.called_from(frame, call, changed, loops=bool(loops))
    if frame.f_code.co_name == "<module>":
        owed.module(frame, changed)
    if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in inside(scope)):
        raise UnknownError
    line = frame.f_lineno
    found: list[Loop] = []
    for i, node in reversed(list(enumerate(around))):  # from the innermost outwards
        if isinstance(node, ast.If):
            try:
                owed.every *= _every(node, frame, line, changed)
            except UnknownError:
                if any(isinstance(n, LoopNode) for n in around[:i]):
                    raise
                owed.untold = True
        elif isinstance(node, LoopNode):
            outer = {name for n in around[:i] if isinstance(n, LoopNode) for name in assigned(n)}
            found.append(_loop(node, frame, owed, outer))
            owed.every = 1
        elif not isinstance(node, ast.With | ast.AsyncWith | ast.Try):
            raise UnknownError
    until = loops[0].lineno if loops else line
    owed.untold |= any(isinstance(n, ast.Return) and n.lineno < until for n in inside(scope))
    return found


def _called_once(frame: FrameType, scope: Scope, call: ast.Call, loops: list[LoopNode], *, innermost: bool) -> None:
    """Another call of the same, outside the loop, makes the run longer."""
    name = dotted(call.func)
    if not name:
        return
    if loops:
        within = {id(n) for n in ast.walk(loops[-1])}
        beside = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and id(n) not in within]
    else:
        beside = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and n is not call]
    if innermost or frame.f_code.co_name != "<module>":
        tree = tree_of(frame.f_code.co_filename)
        inner = {id(n) for n in ast.walk(loops[-1] if loops else call)}
        beside = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and id(n) not in inner]
    if any(dotted(n.func) == name and n is not call for n in beside):
        raise UnknownError


def _loop(node: LoopNode, frame: FrameType, owed: _Owed, outer: set[str]) -> Loop:
    last = node.body[-1].end_lineno or node.lineno
    scope = Loop(frame.f_code, node.lineno, last, frame.f_lineno, None, owed.every)
    changed = set(assigned(node))
    if isinstance(node, ast.While):
        _while(node, frame, scope, changed)
    else:
        try:
            scope.length, rests = _length_of(node.iter, frame)
            for part in rests:
                owed.rest_on(part, frame, outer | changed)
        except UnknownError:
            scope.length = None
    for conditions, jump in _jumps(node.body, frame.f_lineno, []):
        _jump(conditions, jump, node, frame, scope, changed, outer)
    for bound in scope.bounds:
        if bound.rests_on is not None:
            owed.rest_on(bound.rests_on, frame, outer | changed)
    for n in (n for s in node.body for n in (s, *inside(s))):
        if isinstance(n, ast.Call) and dotted(n.func) in _ENDINGS:
            raise UnknownError
        if isinstance(n, ast.Raise) and n.exc is not None and "Exit" in ast.unparse(n.exc):
            raise UnknownError
    return scope


def _length_of(node: ast.expr, frame: FrameType) -> tuple[float, list[ast.expr]]:
    """How many items a loop runs over, and on what that rests."""
    try:
        return length(node, frame), [node]
    except UnknownError:
        return of_generator(node, frame)


def _while(node: ast.While, frame: FrameType, made: Loop, changed: set[str]) -> None:
    made.length = math.inf
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
    for test in tests:
        known = truth(test, frame, changed)
        if known is False:
            raise UnknownError
        if known is None:
            bound = bound_of(test, frame, changed, up_to=True)
            bound.ends_all = len(tests) == 1 or all(truth(t, frame, changed) for t in tests if t is not test)
            note_raises(bound, node, frame)
            made.bounds.append(bound)


def _jump(
    conditions: list[tuple[ast.expr, bool]],
    jump: ast.stmt,
    node: LoopNode,
    frame: FrameType,
    made: Loop,
    changed: set[str],
    outer: set[str],
) -> None:
    """A statement that leaves the loop, or a pass of it, under conditions."""
    left: list[tuple[ast.expr, bool]] = []
    for test, is_so in taken_apart(conditions):
        known = truth(test, frame, changed | outer)
        if known is None:
            left.append((test, is_so))
        elif known is not is_so:
            return  # never
    if isinstance(jump, ast.Continue) or len(left) != 1 or not left[0][1]:
        raise UnknownError
    bound = bound_of(left[0][0], frame, changed | outer, up_to=False)
    target = node.target if isinstance(node, ast.For) else None
    own = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
    if isinstance(own, ast.Name) and own.id == bound.counter:
        first = _begins(node.iter, frame) if isinstance(node, ast.For) else None
        if made.length is None or first is None or isinstance(jump, ast.Return):
            raise UnknownError
        made.length = min(made.length, bound.last - first + (jump.lineno > frame.f_lineno))
    elif bound.counter in targets_around(frame):
        raise UnknownError
    else:
        note_raises(bound, node, frame)
        made.bounds.append(bound)


def _begins(node: ast.expr, frame: FrameType) -> float | None:
    """The first number of ``range`` or ``enumerate``, in steps of one."""
    match node:
        case ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]):
            return 0
        case ast.Call(func=ast.Name(id="range"), args=[_]):
            return 0
        case ast.Call(func=ast.Name(id="range"), args=[first, _]):
            return number(first, frame)
        case ast.Call(args=[inner, *_]) if dotted(node.func).endswith("tqdm"):
            return _begins(inner, frame)
        case _:
            return None


def _jumps(
    body: list[ast.stmt], line: int, under: list[tuple[ast.expr, bool]], *, nested: bool = False
) -> Iterator[tuple[list[tuple[ast.expr, bool]], ast.stmt]]:
    """``break`` and ``return`` of a loop, and ``continue`` above the line, with the conditions that they stand under."""
    for node in body:
        match node:
            case ast.Return():
                yield under, node
            case ast.Break() if not nested:
                yield under, node
            case ast.Continue() if not nested and node.lineno < line:
                yield under, node
            case ast.If(test=test):
                yield from _jumps(node.body, line, [*under, (test, True)], nested=nested)
                yield from _jumps(node.orelse, line, [*under, (test, False)], nested=nested)
            case ast.For() | ast.While() | ast.AsyncFor():
                yield from _jumps([*node.body, *node.orelse], line, under, nested=True)
            case ast.With() | ast.AsyncWith():
                yield from _jumps(node.body, line, under, nested=nested)
            case ast.Try():
                rest = [s for h in node.handlers for s in h.body]
                yield from _jumps([*node.body, *rest, *node.orelse, *node.finalbody], line, under, nested=nested)
            case ast.Match():
                yield from _jumps([s for c in node.cases for s in c.body], line, under, nested=nested)
            case _:
                pass


def _every(node: ast.If, frame: FrameType, line: int, changed: set[str]) -> int:
    """Passes for each that enters the branch which is running."""
    body = any(s.lineno <= line <= (s.end_lineno or s.lineno) for s in node.body)
    known = truth(node.test, frame, changed)
    if known is not None:
        return 1 if known is body else _unknown()
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or) else [node.test]
    match tests[0]:
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=by), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            pass
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod(), right=by)):
            pass
        case _:
            raise UnknownError
    if not body or moves(by, frame, changed):
        raise UnknownError
    found = number(by, frame)
    last = len(tests) == 1 or (
        len(tests) == 2 and isinstance(tests[1], ast.Compare) and "len(" in ast.unparse(tests[1])
    )
    if not last or found != int(found) or found < 1:
        raise UnknownError
    return int(found)


def _unknown() -> int:
    raise UnknownError


def _is_torch_or_ours(file: str) -> bool:
    return is_ours(file) or file.startswith(_TORCH)
