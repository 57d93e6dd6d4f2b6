"""`firstfault run`: the script's own exit status, 2 where it could not be started."""

import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Annotated, Any

import typer

from . import signals
from .errors import RecorderError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    # everything after SCRIPT is the script's, --help too
    app.command("run", context_settings={"allow_interspersed_args": False})(run)


def run(
    target: Annotated[
        str, typer.Argument(metavar="SCRIPT|MODULE", help="The script, or with -m the module, as for python.")
    ],
    args: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments, handed over untouched.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="Run a module, as python -m does.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; must be new or empty. Default: below firstfault-runs/.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name in the run's id, in place of the script's.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Of the step time, in the long run: 3%, 0.03, off. Default: 3%.")
    ] = None,
    every: Annotated[str | None, typer.Option(metavar="N", help="Measure costly kinds at most every N steps.")] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Modules or tensors to measure; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Modules or tensors to leave out; may be repeated.")
    ] = None,
    hang_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Without progress that counts as a hang: 10m.")
    ] = None,
    hang_kill: Annotated[
        bool | None, typer.Option("--hang-kill", help="End a hanging run once its stacks are saved.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No closing line on stderr.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Tracebacks for errors of firstfault itself.")] = False,
) -> None:
    """Record a training script without changing it. Options of firstfault come before SCRIPT.

    Defaults can stand in firstfault.toml, table [run], or in pyproject.toml, table [tool.firstfault.run].
    """
    given = {
        "budget": budget,
        "every": every,
        "include": include,
        "exclude": exclude,
        "hang-timeout": hang_timeout,
        "hang-kill": hang_kill,
    }
    before = signals.block()  # before the imports below: they start threads
    try:
        status = _record(target, args or [], before, given, module=module, out=out, name=name, quiet=quiet)
    except RecorderError as e:
        if debug:
            raise
        sys.stderr.write(f"firstfault: {e}\n")
        status = 2
    raise typer.Exit(status)


def _record(
    target: str,
    args: list[str],
    before: set[signal.Signals],
    given: Mapping[str, Any],
    *,
    module: bool,
    out: Path | None,
    name: str | None,
    quiet: bool,
) -> int:
    _check_target(target, module=module)
    _check_torch()
    from .options import as_json  # noqa: PLC0415 - imports pyarrow, see signals.block
    from .run_folder import create_run  # noqa: PLC0415
    from .settings import resolve  # noqa: PLC0415
    from .supervisor import command_of, guarded, supervise  # noqa: PLC0415

    command = command_of(target, args, module=module)
    folders = [Path()] if module or target == "-" else [Path(target).parent, Path()]
    options = as_json(resolve(given, folders))
    folder = create_run(out, argv=command, script=f"-m {target}" if module else target, name=name, options=options)
    try:
        status = supervise(folder, command, before)
    except OSError as e:
        raise RecorderError(f"{folder}: the script could not be started ({e}); free space there or choose --out") from e
    guarded("closing-line", lambda: _say_what_was_recorded(folder, quiet=quiet))
    return status


def _check_target(target: str, *, module: bool) -> None:
    if module:
        top = target.partition(".")[0]
        if Path(top).is_dir() or Path(f"{top}.py").exists() or top in sys.builtin_module_names:
            return
        if _find(top) is None:
            raise RecorderError(
                f"no module named {target!r}, neither here nor in {sys.prefix}; check the name after -m"
            )
    elif target != "-" and not Path(target).exists():
        hint = "options of firstfault come before the script" if target.startswith("-") else "check the path"
        raise RecorderError(f"{target}: no such script; {hint}")


def _check_torch() -> None:
    found = _find("torch")
    if found is None or found.origin is None:
        raise RecorderError(
            f"torch is not installed in {sys.prefix}; install the extra: pip install 'firstfault[record]'"
        )


def _find(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)  # of a top-level name: imports nothing
    except (ImportError, ValueError):
        return None


def _say_what_was_recorded(folder: Path, *, quiet: bool) -> None:
    """One line on stderr after the script's own last one: where the run lies, or why there is nothing in it."""
    from .exit_record import recorded_ranks  # noqa: PLC0415
    from .readback import completed_steps  # noqa: PLC0415
    from .supervisor import say  # noqa: PLC0415

    steps = completed_steps(folder)
    shown = shlex.quote(os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder))
    if not steps:
        attached = recorded_ranks(folder)
        why = (
            "the script ended before its first training step was complete"
            if attached
            else "the script did not import torch, or did not train with it"
        )
        say(f"nothing was recorded: {why}; how it ended is in {shown}")
    elif not quiet:
        count = max(steps.values())
        ranks = f" on {len(steps)} ranks" if len(steps) > 1 else ""
        say(f"{count} step{'s' * (count != 1)}{ranks} recorded; next: firstfault diagnose {shown}")
