"""What is put into torch and how it comes out again. Every watch of the recorder installs itself through this."""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from torch.compiler import is_compiling
from torch.nn.modules import module as nn_module

from ..base.import_hooks import after_import


class Removable(Protocol):
    """A handle of a torch hook."""

    def remove(self) -> None:
        """Take the hook out."""
        ...


_Told = tuple[Callable[..., Any] | None, Callable[..., Any] | None, Callable[..., Any] | None]
"""What runs before a call, after it, and in any case."""


class _Around:
    """The one wrapper of a function, for all who are told of its calls."""

    def __init__(self, original: Callable[..., Any], told: "list[_Told] | None" = None) -> None:
        self.original = original
        self.told = told = [] if told is None else told

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)  # torch.compile folds the rest away: no graph break
            notes = [None if before is None else before(*args, **kwargs) for before, _, _ in told]
            returned = False
            try:
                result = original(*args, **kwargs)
                returned = True
            finally:
                for (_, _, lastly), note in zip(told, notes, strict=True):
                    if lastly is not None:
                        lastly(note, returned)
            for (_, after, _), note in zip(told, notes, strict=True):
                if after is not None:
                    after(note, result, *args, **kwargs)
            return result

        self.wrapper = call


class Patches:
    """Wrapped functions and hook handles, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._around: dict[tuple[int, str], _Around] = {}
        self.module_hooks: list[Any] = []
        """Handles of the global forward hooks and pre-hooks of modules."""
        self.stand_ins: list[Callable[[], Iterable[Removable]]] = []
        """Each puts a hook of its own on the few modules that are watched even while those hooks are out."""
        self.resting_hooks: list[Any] = []
        """Handles of further hooks that have nothing to do where steps go unwatched."""
        self._resting_wraps: list[tuple[Any, str, bool, Any, Any]] = []
        """Of such wrapped attributes: owner, name, whether it is the owner's own, the original and what stands in its place."""

    def __bool__(self) -> bool:
        return bool(self._undo)

    def handles(self, handles: Iterable[Removable]) -> None:
        """Hooks that torch registered."""
        self._undo += [handle.remove for handle in handles]

    def hook_modules(self, before: Callable[..., None], after: Callable[..., None]) -> None:
        """Have torch call these around the forward of every module, until everything is taken out."""
        hooks = [nn_module.register_module_forward_pre_hook(before), nn_module.register_module_forward_hook(after)]
        self.module_hooks += hooks
        self.handles(hooks)

    def hook_some(self, before: Callable[..., None], stand_in: Callable[[], Iterable[Removable]]) -> None:
        """Have torch call this before the forward of every module; while such hooks are out, those of ``stand_in`` are in."""
        hooks = [nn_module.register_module_forward_pre_hook(before)]
        self.module_hooks += hooks
        self.stand_ins.append(stand_in)
        self.handles(hooks)

    def around(
        self,
        owner: Any,
        name: str,
        *,
        before: Callable[..., Any] | None = None,
        after: Callable[..., Any] | None = None,
        lastly: Callable[..., Any] | None = None,
        also: Iterable[Any] = (),
        rests: bool = False,
    ) -> None:
        """Be told of the calls of a function. All who are told of one function share one wrapper.

        ``before(*args, **kwargs)`` gives a note, ``after(note, result, *args, **kwargs)`` gets it once the function has
        returned, ``lastly(note, returned)`` in any case. Whoever is told is guarded already. ``also`` are other places of the
        same function. Where all who are told have nothing to do while steps go unwatched, the wrapper ``rests``.
        """
        around = self._around.get((id(owner), name))
        if around is None or getattr(owner, name) is not around.wrapper:
            around = self._around[id(owner), name] = _Around(getattr(owner, name))
            own = name in vars(owner)
            self.put(owner, name, around.wrapper)
            if rests:
                self._resting_wraps.append((owner, name, own, around.original, around.wrapper))
        elif not rests:
            self._resting_wraps = [wrap for wrap in self._resting_wraps if wrap[4] is not around.wrapper]
        around.told.append((before, after, lastly))
        for other in also:
            there: Any = getattr(other, name, None)
            if there is around.original:
                self.put(other, name, around.wrapper)
            elif _is_around(there, around.original):  # as torch._dynamo puts something around torch.manual_seed
                self.put(other, name, _Around(there, around.told).wrapper)

    def wrap(
        self,
        owner: Any,
        name: str,
        make: Callable[[Callable[..., Any]], Callable[..., Any]],
        *,
        rests: bool = False,
    ) -> None:
        """Replace an attribute by a function made from it, where ``around`` does not do. The original is to be called exactly
        once in it. One that ``rests`` has nothing to do where steps go unwatched, and is taken out for them."""
        own, original = name in vars(owner), getattr(owner, name)
        self.put(owner, name, make(original))
        if rests:
            self._resting_wraps.append((owner, name, own, original, getattr(owner, name)))

    def rest(self) -> None:
        """Steps go unwatched from here on."""
        for owner, name, own, original, replacement in self._resting_wraps:
            if vars(owner).get(name) is replacement:  # else the script has put something of its own on top
                if own:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)

    def wake(self) -> None:
        """Steps are watched again."""
        for owner, name, own, original, replacement in self._resting_wraps:
            if vars(owner).get(name, None if own else original) is original:
                setattr(owner, name, replacement)

    def put(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace an attribute."""
        own = name in vars(owner)
        original = getattr(owner, name)
        setattr(owner, name, replacement)

        def undo() -> None:
            if getattr(owner, name) is not replacement:
                return  # the script may have put something of its own on top
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def later(self, action: Callable[[], None]) -> None:
        """Something to do when everything is taken out."""
        self._undo.append(action)

    def undo(self) -> None:
        """Take everything out again."""
        while self._undo:
            self._undo.pop()()
        self._around.clear()
        self.module_hooks.clear()
        self.stand_ins.clear()
        self.resting_hooks.clear()
        self._resting_wraps.clear()

    def after_import(self, module: str, install: Callable[[Any], None]) -> None:
        """Install into a module when the script imports it, now if it has been. Never imports it itself."""
        after_import(module, lambda: install(sys.modules[module]))


def _is_around(function: Any, original: Callable[..., Any]) -> bool:
    """Whether a function was wrapped around another one."""
    while function is not None and function is not original:
        function = getattr(function, "__wrapped__", None)
    return function is not None
