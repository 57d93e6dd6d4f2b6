"""Attaching to torch: from the environment in an unmodified script, or by hand through Recorder.

``attach_from_environment`` waits for the script's own import of torch; a process that never imports it is left alone.
Everything put into torch is taken out again by ``Attachment.detach``.
"""

import atexit
import contextlib
import functools
import gc
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from .base.import_hooks import after_import
from .base.process_notes import note_process

if TYPE_CHECKING:
    from .attachment import Attachment

ENV_RUN = "FIRSTFAULT_RUN"
"""As in schemas.layout, which is not imported here: it would load pyarrow, and with it numpy and its thread pool, before a
script has set OMP_NUM_THREADS, and in every child that never trains."""

ENV_PLAN = "FIRSTFAULT_PROBES"
"""As in schemas.probes, for the same reason."""

_WAY_OUT = " (pip install 'pyarrow<26' stands beside NumPy 1)"
"""pyarrow does not ask for NumPy, so that pip installs a release that refuses the one that is there."""

_attached: "Attachment | None" = None


def attach_from_environment() -> None:
    """Attach when this process belongs to a recorded run. Called by inject/sitecustomize.py; does not import torch."""
    plan = os.environ.get(ENV_PLAN)
    if plan:
        after_import("torch", functools.partial(_try_out, Path(plan)))
    run = os.environ.get(ENV_RUN)
    if run:
        after_import("torch", functools.partial(_attach, Path(run)), functools.partial(_import_failed, Path(run)))


def _try_out(plan: Path) -> None:
    from .probes import begin  # noqa: PLC0415 — imports torch, which must not happen before the script does it

    begin(plan, lambda: 0 if _attached is None else _attached.session.position.step)


def _attach(run: Path) -> None:
    if _attached is None:
        attach(run)
        from .memory.loaded_objects import leave_alone  # noqa: PLC0415 — imports torch, as above

        leave_alone(sys._getframe(1))


def _import_failed(run: Path, error: Exception) -> None:
    note_process(run, import_error=f"{type(error).__name__}: {error}")


def attach(run: Path) -> "Attachment":
    """Record this process into a run folder. Only one recording can be attached at a time; see current()."""
    global _attached  # noqa: PLW0603 — a process has one torch, and so one attachment
    began = time.perf_counter_ns()
    try:
        with _without_collections():
            from .attachment import Attachment  # noqa: PLC0415 — imports torch, which must not happen before the script does
            from .session.session import Session  # noqa: PLC0415

        _attached = attachment = Attachment(Session(run))
    except Exception as e:
        words = f"{e}{_WAY_OUT}" if "requires NumPy" in str(e) else str(e)
        note_process(run, failure=f"{type(e).__name__}: {words}")
        if words != str(e):
            raise ImportError(words) from e
        raise
    note_process(run, torch=str(sys.modules["torch"].__version__))
    atexit.register(detach)
    os.register_at_fork(after_in_child=attachment.session.abandon)
    attachment.session.attaching_ns = time.perf_counter_ns() - began
    return attachment


@contextlib.contextmanager
def _without_collections() -> Generator[None]:
    """Keep the garbage collector from going through all of torch, a twentieth of a second, for what imports leave."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
