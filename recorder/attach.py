"""Attaching to torch: from the environment in an unmodified script, or by hand through Recorder.

``attach_from_environment`` waits for the script's own import of torch; a process that never imports it is left alone.
Everything put into torch is taken out again by ``Attachment.detach``.
"""

import atexit
import functools
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hooks import Attachment

ENV_RUN = "FIRSTFAULT_RUN"
"""As in schemas.layout, which is not imported here: it would load pyarrow, and with it numpy and its thread pool, before a
script has set OMP_NUM_THREADS, and in every child that never trains."""

_attached: "Attachment | None" = None


def attach_from_environment() -> None:
    """Attach when this process belongs to a recorded run. Called by inject/sitecustomize.py; does not import torch."""
    run = os.environ.get(ENV_RUN)
    if run:
        after_import("torch", functools.partial(_attach, Path(run)))


def after_import(module: str, action: Callable[[], None]) -> None:
    """Run an action right after a module has been imported, now if it has been."""
    if module in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(module, action))


def _attach(run: Path) -> None:
    if _attached is None:
        attach(run)


def attach(run: Path) -> "Attachment":
    """Record this process into a run folder. Only one recording can be attached at a time; see current()."""
    global _attached  # noqa: PLW0603 — a process has one torch, and so one attachment
    from .hooks import Attachment  # noqa: PLC0415 — imports torch, which must not happen before the script does it
    from .session import Session  # noqa: PLC0415

    _attached = attachment = Attachment(Session(run))
    atexit.register(detach)
    os.register_at_fork(after_in_child=attachment.session.abandon)
    return attachment


def current() -> "Attachment | None":
    """What records this process, None if nothing does."""
    return _attached


def detach() -> None:
    """Write what is left and take everything out of torch."""
    global _attached
    attachment, _attached = _attached, None
    if attachment is not None:
        attachment.close()
    atexit.unregister(detach)


class _Finder(MetaPathFinder):
    """Steps aside at once, but has the found loader run the action when the module's own code has been executed."""

    def __init__(self, module: str, action: Callable[[], None]) -> None:
        self._module = module
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Part of the import system's protocol."""
        del path, target
        if fullname != self._module:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                self._action()
            except Exception as e:  # noqa: BLE001 — a script must run even where the recorder cannot
                print(  # noqa: T201
                    f"firstfault: [attach] {fullname}: {type(e).__name__}: {e}; this part is not recorded",
                    file=sys.stderr,
                    flush=True,
                )

        loader.exec_module = exec_module
        return spec
