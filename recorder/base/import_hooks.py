"""Run an action right after a module has been imported, however its import comes about.

Programs ask for a module's spec before they import it (``importlib.util.find_spec("torch")``), once or often, and may never
import it. So nothing is decided when a spec is found: each spec that is handed out carries a loader that runs the actions
after the module's own code. The hook stays until that has happened once.

Works by itself and in old interpreters: inject/sitecustomize.py loads it where firstfault is not installed.
"""

from __future__ import annotations

import gc
import sys
from _thread import get_ident  # threading itself is not to be loaded before the script does it: gevent minds
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast

_actions: dict[str, list[Callable[[], None]]] = {}
"""Module name → what to do once its code has run."""


_failures: dict[str, Callable[[Exception], None]] = {}
"""Module name → who is told that its import failed. It may be tried again."""


def after_import(module: str, action: Callable[[], None], failed: Callable[[Exception], None] | None = None) -> None:
    """Run an action right after a module has been imported, now if it has been; tell ``failed`` of every import that fails."""
    if _is_imported(module):
        action()
        return
    _install()
    _actions.setdefault(module, []).append(action)
    if failed is not None:
        _failures[module] = failed


def _is_imported(module: str) -> bool:
    """Tell whether a module's own code has run to its end, without touching a module that is loaded lazily."""
    found = sys.modules.get(module)
    if found is None or (type(found).__module__, type(found).__name__) == ("importlib.util", "_LazyModule"):
        return False
    return not getattr(getattr(found, "__spec__", None), "_initializing", False)


class _Finder(MetaPathFinder):
    """Asks the other finders, and marks the loader of what they find."""

    def __init__(self) -> None:
        self._asking: set[tuple[int, str]] = set()
        """Thread and name of each search in progress."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Part of the import system's protocol."""
        search = (get_ident(), fullname)
        if fullname not in _actions or search in self._asking:  # a finder like this one asks us in its turn
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        self._asking.add(search)
        try:
            specs = (finder.find_spec(fullname, path, target) for finder in others)
            return _marked(next((spec for spec in specs if spec is not None), None))
        finally:
            self._asking.discard(search)


_IMPORT_SYSTEM = "<frozen importlib._bootstrap_external>"
_finder = _Finder()
_original: Any = PathFinder.__dict__["find_spec"]


def _find_in_path(
    cls: type[PathFinder], fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """Find as ``cls`` does, which may be a subclass of the user's, and mark what it finds."""
    return _marked(_original.__func__(cls, fullname, path, target))


_ours = classmethod(_find_in_path)


def _install() -> None:
    """Stand first in sys.meta_path, and behind the usual finder too: scripts replace that list."""
    if sys.meta_path[:1] != [_finder]:
        sys.meta_path[:] = [_finder, *(finder for finder in sys.meta_path if finder is not _finder)]
    if PathFinder.__dict__["find_spec"] is _original:
        PathFinder.find_spec = _ours  # type: ignore[method-assign]


def _uninstall() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if PathFinder.__dict__["find_spec"] is _ours:  # else somebody has wrapped it after us, and keeps what is theirs
        PathFinder.find_spec = _original  # type: ignore[method-assign]


def _marked(spec: ModuleSpec | None) -> ModuleSpec | None:
    """The spec, with a loader that runs the actions after the module's own code."""
    if spec is None or spec.name not in _actions:
        return spec
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None or getattr(execute, "__module__", None) == __name__:
        return spec

    def exec_module(module: ModuleType) -> None:
        collects = gc.isenabled()
        gc.disable()  # a tenth of what the import of torch takes is a search for garbage, of which it leaves none
        try:
            execute(module)
        except Exception as e:
            if module.__name__ in _failures:
                _failures[module.__name__](e)
            raise
        finally:
            if collects:
                gc.enable()
        _run_actions(module.__name__)

    # Python leaves frames of this file out of the traceback of a failed import: the user sees none of ours
    exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORT_SYSTEM)
    if isinstance(loader, type):  # one class for all modules, as with the built-in finders: this one gets its own
        loader = spec.loader = cast("Any", type(loader.__name__, (loader,), {}))
    loader.exec_module = exec_module
    return spec


def _run_actions(module: str) -> None:
    """A script must run even where the recorder cannot: what fails is said, and goes no further."""
    actions = _actions.pop(module, [])
    _failures.pop(module, None)
    if actions and not _actions:
        _uninstall()
    for action in actions:
        try:
            action()
        except Exception as e:  # noqa: BLE001 — see above
            if sys.stderr is not None:
                sys.stderr.write(f"firstfault: [attach] {module}: {type(e).__name__}: {e}; this part is not recorded\n")
