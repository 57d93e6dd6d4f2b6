"""Who holds a container: the variable or attribute through which a script reaches it, and the line that adds to it.

Asked of the garbage collector, backwards from the container. In Python 3.11 the local variables of a running function cannot
be seen that way without making copies of them; what nothing else holds is looked for in the source of the functions that run.
"""

import contextlib
import ctypes
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple

from ..script.frames import FIRSTFAULT, is_script, shown
from ..script.statements import Addition, additions, calls
from . import loaded_objects

_MOST_HOPS = 6
_MOST_LINKS = 64
_LONGEST_KEY = 24


class Holder(NamedTuple):
    """How a script reaches an object."""

    name: str
    """As in the source: ``seen``, ``history['val']``, ``Trainer.buffer``."""
    scope: str
    """global variable, local variable of f, attribute, class attribute, variable of f (closure)."""
    module: int | None = None
    """id() of the nn.Module whose attribute it is."""
    place: str | None = None
    """``file:line in function`` of the statement that adds to it."""
    expression: str | None = None
    """That statement."""
    later: bool = False
    """Whether it stands behind the line that its function has reached, so that it has not run yet in this iteration."""


OURS = Holder("", "recorder")
"""What the recorder itself holds."""


class _Link(NamedTuple):
    """An object through which a target is held, and the way from it to the target."""

    target: int
    held: Any
    keys: tuple[tuple[str, str], ...]


def holders_of(
    targets: list[Any],
    kinds: list[str],
    numbers: list[bool],
    is_module: Callable[[Any], bool],
    aside: Iterable[Any] = (),
) -> list[Holder | None]:
    """A holder for each target; None where nothing is found, OURS for what belongs to the recorder.

    ``kinds`` (list, dict, set, sum) and ``numbers`` (whether plain numbers are added) help to find the statement; ``aside``
    are objects of the caller that hold targets for the moment.
    Walks over all objects once for each step away from the targets: some tens of milliseconds each.
    """
    found: list[Holder | None] = [None] * len(targets)
    frames = script_frames(sys._getframe(1))
    links = [_Link(n, target, ()) for n, target in enumerate(targets)]
    seen = {id(target) for target in targets}
    aside_ids = {id(o) for o in aside}
    for _ in range(_MOST_HOPS):
        _look_in_frames(links, frames, kinds, numbers, found)
        links = [link for link in links if found[link.target] is None]
        if not links:
            break
        held = [link.held for link in links]
        mine = {id(held), id(links), id(targets), id(found), *(id(link) for link in links)} | aside_ids
        outer: list[_Link] = []
        for holder in _referrers(held):
            if id(holder) in mine or isinstance(holder, FrameType | _Link) or type(holder) is GeneratorType:
                continue
            held_here = {id(o) for o in gc.get_referents(holder)}
            for link in links:
                if found[link.target] is not None or id(link.held) not in held_here:
                    continue
                for root, more in _held_by(holder, link, frames, kinds, numbers, is_module):
                    if root is not None:
                        found[link.target] = root
                    elif more is not None and id(holder) not in seen and len(outer) < _MOST_LINKS:
                        outer.append(more)
        seen |= {id(link.held) for link in outer}
        links = outer
    return [h or _local(frames, kind, numbers=n) for h, kind, n in zip(found, kinds, numbers, strict=True)]


def _referrers(held: list[Any]) -> list[Any]:
    """What holds any of these: also global variables of modules that the garbage collector leaves alone (loaded_objects.py)."""
    found = gc.get_referrers(*held)
    if loaded_objects.are_set_aside():
        known, wanted = {id(o) for o in found}, {id(o) for o in held}
        modules = [vars(m) for m in list(sys.modules.values()) if type(m) is ModuleType]
        found += [d for d in modules if id(d) not in known and not wanted.isdisjoint(map(id, list(d.values())))]
    return found


def script_frames(frame: FrameType | None) -> list[FrameType]:
    """Frames of the script that are running, innermost first."""
    frames: list[FrameType] = []
    while frame is not None:
        if is_script(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _held_by(  # noqa: PLR0912 — one kind of holder after the other
    holder: Any,
    link: _Link,
    frames: list[FrameType],
    kinds: list[str],
    numbers: list[bool],
    is_module: Callable[[Any], bool],
) -> Iterator[tuple[Holder | None, _Link | None]]:
    """Whether an object holds what a link has reached: a root that ends the search, or the next link."""
    held, n = link.held, link.target

    def named(name: str, scope: str, root: str, files: Iterable[str], **more: Any) -> Holder:
        addition = _best(files, kinds[n], numbers=numbers[n], root=root, frames=frames, **more)
        return Holder(name + _path(link.keys), scope, None, *_words(addition, frames))

    kind = type(holder)
    if kind.__module__.partition(".")[0] == FIRSTFAULT:
        yield OURS, None
        return
    if kind is dict:
        key = next((k for k, v in list(holder.items()) if v is held), None)
        if key is None:
            return
        module = _module_of(holder, frames)
        if module is None:
            yield None, _Link(n, holder, (("item", _key(key)), *link.keys))
        elif module.partition(".")[0] == FIRSTFAULT:
            yield OURS, None
        elif isinstance(key, str) and not (key == "__warningregistry__" or module == "builtins"):
            file = holder.get("__file__")
            code = next((f.f_code.co_filename for f in frames if f.f_globals is holder), file)
            where = f"global variable of {shown(code)}" if isinstance(code, str) else "global variable"
            yield named(key, where, key, [code] if isinstance(code, str) else []), None
        return
    if isinstance(holder, dict):
        key = next((k for k, v in list(holder.items()) if v is held), None)
        if key is not None:
            yield None, _Link(n, holder, (("item", _key(key)), *link.keys))
            return
    if isinstance(holder, list | tuple | set | frozenset | deque):
        of_closure = bool(link.keys) and link.keys[0][0] == "cell"
        yield None, _Link(n, holder, link.keys if of_closure else (("item", "…"), *link.keys))
        return
    if kind is CellType:
        yield None, _Link(n, holder, (("cell", str(id(holder))), *link.keys))
        return
    if isinstance(holder, FunctionType):
        if str(holder.__module__).partition(".")[0] == FIRSTFAULT:
            yield OURS, None
        elif (default := _default(holder, link)) is not None:
            name, keys = default
            link = link._replace(keys=keys)
            files = [holder.__code__.co_filename]
            yield named(name, f"default argument of {holder.__name__}", name, files), None
        elif (cell := _closure(holder, link)) is not None:
            name, keys = cell
            link = link._replace(keys=keys)
            files = [holder.__code__.co_filename]
            yield named(name, f"variable of {_outer(holder)}", name, files), None
        return
    if isinstance(holder, MethodType | ModuleType):
        return
    if isinstance(holder, type):
        if holder.__module__.partition(".")[0] == FIRSTFAULT:
            yield OURS, None
        elif link.keys and link.keys[0][0] == "item" and (name := link.keys[0][1].strip("'")) in vars(holder):
            link = link._replace(keys=link.keys[1:])  # reached through the dictionary of the class
            yield named(f"{holder.__name__}.{name}", "class attribute", name, _files(holder), attribute=True), None
        return
    yield from _instance(holder, link, named, is_module)


def _instance(
    holder: Any, link: _Link, named: Callable[..., Holder], is_module: Callable[[Any], bool]
) -> Iterator[tuple[Holder | None, _Link | None]]:
    """An object with attributes: the end of the search, unless it is an element of what a script holds."""
    kind = type(holder)
    held, keys = link.held, link.keys
    attributes = getattr(holder, "__dict__", None)
    name = None
    if type(attributes) is dict:
        if attributes is held and keys and keys[0][0] == "item":
            name, keys = keys[0][1].strip("'"), keys[1:]
        else:
            name = next((k for k, v in list(attributes.items()) if v is held), None)
    if name is None:
        name = next((s for s in _slots(kind) if getattr(holder, s, None) is held), None)
    if name is None:
        return
    link = link._replace(keys=keys)
    found = named(f"{kind.__name__}.{name}", "attribute", name, _files(kind), attribute=True)
    found = found._replace(name=f"{kind.__name__}.{name}{_path(keys)}")
    yield found._replace(module=id(holder) if is_module(holder) else None), None


def _slots(kind: type) -> list[str]:
    """Slots of a class of the script; of built-in and compiled classes nothing is asked."""
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else [s for s in slots if isinstance(s, str)]
    return [n for n in names if not n.startswith("__")]


def _closure(function: FunctionType, link: _Link) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """(variable, way from it) where a function's closure has the cell that a link came through."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        if link.keys and link.keys[0] == ("cell", str(id(cell))):
            return name, link.keys[1:]
    return None


def _default(function: FunctionType, link: _Link) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """(argument, way from it) where a function's default values are what a link came through."""
    code = function.__code__
    if function.__kwdefaults__ is link.held and function.__kwdefaults__ is not None:
        return link.keys[0][1].strip("'"), link.keys[1:]
    if function.__defaults__ is link.held and function.__defaults__ is not None:
        names = code.co_varnames[: code.co_argcount][-len(function.__defaults__) :]
        gathering = [
            n for n, v in zip(names, function.__defaults__, strict=True) if isinstance(v, list | dict | set | deque)
        ]
        return " or ".join(gathering or names), link.keys[1:]
    return None


def _outer(function: FunctionType) -> str:
    """Function in which the variables of a closure were made."""
    parts = function.__qualname__.split(".<locals>.")
    return parts[-2].rpartition(".")[2] if len(parts) > 1 else function.__name__


def _module_of(holder: dict[Any, Any], frames: list[FrameType]) -> str | None:
    """Name of the module whose global variables a dictionary holds; None for any other dictionary."""
    if any(f.f_globals is holder for f in frames):
        return str(holder.get("__name__", "__main__"))
    name = holder.get("__name__")
    if isinstance(name, str) and (module := sys.modules.get(name)) is not None and vars(module) is holder:
        return name
    return None


def _files(kind: type) -> list[str]:
    """Source files of a class and of those it is made from, its own first."""
    files: list[str] = []
    for base in kind.__mro__:
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if isinstance(file, str) and is_script(file) and file not in files:
            files.append(file)
    return files


def _key(key: Any) -> str:
    return repr(key)[:_LONGEST_KEY] if isinstance(key, str | int) else "…"


def _path(keys: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"[{key}]" for kind, key in keys if kind == "item")


# -- statements -----------------------------------------------------------------------------------------------------------


def _best(
    files: Iterable[str],
    kind: str,
    *,
    numbers: bool,
    root: str,
    frames: list[FrameType],
    attribute: bool = False,
) -> tuple[str, Addition] | None:
    """The statement that adds to a variable or attribute: in a function that is running if there is one, else the first."""
    running = {(f.f_code.co_filename, f.f_code.co_name) for f in frames}
    found = [
        ((file, a.function) not in running, a.numbers and not numbers, file, a)
        for file in dict.fromkeys((*files, *(f.f_code.co_filename for f in frames)))
        for a in additions(file)
        if (root in a.attributes if attribute else root == a.root) and a.kind == kind
    ]
    if not found:
        return None
    _, _, file, addition = min(found, key=lambda f: f[:2])
    return file, addition


def _words(found: tuple[str, Addition] | None, frames: list[FrameType]) -> tuple[str | None, str | None, bool]:
    """(place, statement, whether it is still to come in this iteration)."""
    if found is None:
        return None, None, False
    file, a = found
    return f"{shown(file)}:{a.line} in {a.function}", a.text, _still_to_come(file, a, frames)


def _still_to_come(file: str, a: Addition, frames: list[FrameType]) -> bool:
    """Whether the statement, or the call of its function, stands behind the line that a running function has reached."""
    for frame in frames:
        code, line = frame.f_code, frame.f_lineno
        if (code.co_filename, code.co_name) == (file, a.function):
            return a.line > line
        called = [at for at, inside, name in calls(code.co_filename) if (inside, name) == (code.co_name, a.function)]
        if called:
            return min(called) > line
    return False


# -- local variables ------------------------------------------------------------------------------------------------------


def _look_in_frames(
    links: list[_Link], frames: list[FrameType], kinds: list[str], numbers: list[bool], found: list[Holder | None]
) -> None:
    """Local variables of the functions that run, where Python can be asked for one without copying all (from 3.12 on)."""
    get = _get_variable()
    if get is None:
        return
    for frame in frames:
        code = frame.f_code
        if code.co_name == "<module>":
            continue
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            try:
                value = get(frame, name)
            except NameError:
                continue  # not assigned yet, or deleted
            for link in links:
                if value is link.held and found[link.target] is None:
                    n = link.target
                    best = _best([code.co_filename], kinds[n], numbers=numbers[n], root=name, frames=frames)
                    scope = f"local variable of {code.co_name} in {Path(code.co_filename).name}"
                    found[n] = Holder(name + _path(link.keys), scope, None, *_words(best, frames))
            del value


def local_values() -> list[Any]:
    """Values of the local variables of the script's functions that run; none before Python 3.12."""
    get = _get_variable()
    if get is None:
        return []
    values: list[Any] = []
    for frame in script_frames(sys._getframe(1)):
        code = frame.f_code
        for name in (*code.co_varnames, *code.co_cellvars) if code.co_name != "<module>" else ():
            with contextlib.suppress(NameError):  # not assigned yet, or deleted
                values.append(get(frame, name))
    return values


def _get_variable() -> Callable[[FrameType, str], Any] | None:
    if sys.version_info < (3, 12):
        return None
    get = ctypes.pythonapi.PyFrame_GetVar
    get.restype, get.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]
    return get


def _local(frames: list[FrameType], kind: str, *, numbers: bool) -> Holder | None:
    """What nothing else holds is held by a local variable of a function that runs: the statements there that add to one."""
    for frame in frames:
        code: CodeType = frame.f_code
        variables = {*code.co_varnames, *code.co_cellvars} if code.co_name != "<module>" else set()
        found = [
            a
            for a in additions(code.co_filename)
            if a.function == code.co_name and a.root in variables and a.kind == kind and not a.attributes
        ]
        likely = [a for a in found if numbers or not a.numbers]
        if likely:
            names = list(dict.fromkeys(str(a.root) for a in likely))
            best = (code.co_filename, likely[0]) if len(names) == 1 else None
            where = f"local variable of {code.co_name} in {Path(code.co_filename).name}"
            return Holder(" or ".join(names[:3]), where, None, *_words(best, frames))
    return None
