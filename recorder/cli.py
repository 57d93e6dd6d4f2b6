"""`firstfault run`: the script's own exit status, 2 where it could not be started.

Its options are declared for typer, in annotations that are texts: so base/plain_arguments.py can read them without it.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .base.errors import RecorderError
from .supervisor import signals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec

    import typer


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    globals()["typer"] = sys.modules["typer"]  # the annotations of `run` name it
    # everything after SCRIPT is the script's, --help too
    app.command("run", context_settings={"allow_interspersed_args": False})(run)


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT|MODULE", help="The script to run, or with -m the module, as you would give it to python."
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Arguments of the script. They are handed over untouched."),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="Run a module instead of a file, as python -m does.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Record into this folder, which must be new or empty. Without it a new one is made below firstfault-runs/.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Continue an ended run in the same folder, as its next attempt. Step numbers continue, and what was recorded"
            " stays as it is. The script itself must load its checkpoint.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Use this name in the run's id instead of the script's name.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the step time that recording may take in the long run, such as 3% or 0.03. `off` measures everything"
            " at every step. The default is 2%.",
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="N", help="Measure the costly kinds at every N-th step at most.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Measure only modules and tensors whose name matches. May be given several times."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Do not measure modules and tensors whose name matches. May be given several times."
        ),
    ] = None,
    disk_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Keep the run folder below this size, such as 2GB. When it grows beyond it, statistics of old steps are"
            " thinned; scalars, events and batches stay. Without it nothing is ever removed.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="When the folder is thinned, keep N steps whole at the start, at the end, and around each event. The default"
            " is 100.",
        ),
    ] = None,
    on_nonfinite: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="What to do when a loss or a gradient is not finite. `record` only records it. `capture` also saves what was"
            " at hand and looks for the operator. `skip` also skips the optimizer step. `stop` ends the run with a checkpoint."
            " `rollback` ends it after three such steps in a row, with the last good state in RUN/rollback.pt. `restore` puts"
            " that state back and continues with the next batch. rollback:N and restore:N wait for N such steps. The default"
            " is capture.",
        ),
    ] = None,
    snapshots: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Save the state of recent good steps in RUN/snapshots: weights, optimizer, scheduler, random states."
            " `firstfault prove` can start from them. auto: from half a minute on, seldom, in 512 MB at most. every=N: every"
            " N steps. off: none. Add a size for more room, such as auto,20GB. The default is auto.",
        ),
    ] = None,
    memory_history: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Let the CUDA allocator remember its last N events and their lines, such as 100000. The verdict then names the"
            " lines whose memory grows or runs out. It costs some microseconds for each allocation.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Profile single steps with torch.profiler. auto: as many as fit into one percent of the time, none on a CUDA"
            " device. every=N: every N-th step. START:STOP: these steps. off: none. Add ,stacks, such as every=50,stacks, to"
            " record which function of the script called an operator; such steps take several times as long. The default is"
            " off.",
        ),
    ] = None,
    hang_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Call it a hang when nothing moves for this long, such as 10m. The default is 20 usual steps, and at least"
            " five minutes.",
        ),
    ] = None,
    hang_kill: Annotated[
        bool | None,
        typer.Option("--hang-kill", help="End the run when it hangs, after the stacks of its threads are saved."),
    ] = None,
    alert: Annotated[
        str | None,
        typer.Option(
            metavar="CMD|URL",
            help="When the run turns anomalous, run this command once with the facts as JSON on its stdin, or post them to this"
            " http address. A process of low priority checks the run, as `firstfault watch` does.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Leave out the watch of this name, such as host-reads or attention. What it fills stays empty. May be given"
            " several times. docs/tables.md lists the watches and what each one fills.",
        ),
    ] = None,
    keep_secrets: Annotated[
        bool | None,
        typer.Option(
            "--keep-secrets",
            help="Write tokens, keys and passwords as they are. Without it they are replaced before anything is written.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Leave out the closing line on stderr.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks when firstfault itself makes a mistake.")
    ] = False,
) -> None:
    """Record a training script without changing it. Options of firstfault come before SCRIPT.

    Put defaults into firstfault.toml under `run`, or into pyproject.toml under `tool.firstfault.run`.
    """
    given = {
        "budget": budget,
        "every": every,
        "include": include,
        "exclude": exclude,
        "disk-limit": disk_limit,
        "keep": keep,
        "on-nonfinite": on_nonfinite,
        "profile": profile,
        "hang-timeout": hang_timeout,
        "snapshots": snapshots,
        "memory-history": memory_history,
        "hang-kill": hang_kill,
        "without": without,
        "keep-secrets": keep_secrets,
    }
    before = signals.block()  # before the imports below: they start threads
    try:
        status = _record(
            target,
            args or [],
            before,
            given,
            module=module,
            out=out,
            resume=resume,
            name=name,
            quiet=quiet,
            alert=alert,
        )
    except RecorderError as e:
        if debug:
            raise
        sys.stderr.write(f"firstfault: {e}\n")
        status = 2
    sys.exit(status)


def _record(
    target: str,
    args: list[str],
    before: set[signal.Signals],
    given: Mapping[str, Any],
    *,
    module: bool,
    out: Path | None,
    resume: Path | None,
    name: str | None,
    quiet: bool,
    alert: str | None,
) -> int:
    target, args, module = _as_python_reads_it(target, args, module=module)
    _check_target(target, args, module=module)
    if resume is not None and (out is not None or name is not None):
        raise RecorderError("--resume goes on in a folder that exists: leave --out and --name away")
    _check_torch()
    from .base.option_parsing import resolve  # noqa: PLC0415
    from .base.options import as_json  # noqa: PLC0415
    from .supervisor.supervise import command_of, supervise  # noqa: PLC0415
    from .supervisor.troubles import guarded  # noqa: PLC0415

    command = command_of(target, args, module=module)
    folders = [Path()] if module or target == "-" else [Path(target).parent, Path()]
    options = as_json(resolve(given, folders))
    script = f"-m {target}" if module else target
    if resume is not None:
        from .storage.resume import resume_run  # noqa: PLC0415 - imports pyarrow, see signals.block

        folder = resume_run(resume, argv=command, script=script, options=options)
    else:
        from .storage.run_folder import create_run  # noqa: PLC0415

        folder = create_run(out, argv=command, script=script, name=name, options=options)
    watcher = _start_alert(folder, alert) if alert is not None else None
    try:
        status = supervise(folder, command, before)
    except OSError as e:
        raise RecorderError(f"{folder}: the script could not be started ({e}); free space there or choose --out") from e
    if watcher is not None:
        guarded("alert", lambda: watcher.wait(_ALERT_PATIENCE_S))
    guarded("closing-line", lambda: _say_what_was_recorded(folder, quiet=quiet))
    return status


_ALERT_PATIENCE_S = 120.0
"""Seconds after the script's end in which a fault of its last steps may still be found and told."""


def _start_alert(folder: Path, alert: str) -> subprocess.Popen[bytes]:
    """A process that watches the run until it ends; its own stdout is nobody's, what it cannot do is said on stderr."""
    command = [sys.executable, "-P", "-m", "firstfault", "watch", str(folder), "--interval", "10", "--alert", alert]
    return subprocess.Popen(
        ["nice", "-n", "10", *command] if shutil.which("nice") else command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={k: v for k, v in os.environ.items() if k not in {"FIRSTFAULT_RUN", "FIRSTFAULT_PROBES"}},
        start_new_session=True,
    )


def _as_python_reads_it(target: str, args: list[str], *, module: bool) -> tuple[str, list[str], bool]:
    """Script or module, arguments, and whether it is a module: behind `--` stands `-m` too, as with other launchers."""
    if module or target != "-m":
        return target, args, module
    if not args:
        raise RecorderError("-m: no module is named; give it as you would give it to python -m")
    return args[0], args[1:], True


def _check_target(target: str, args: list[str], *, module: bool) -> None:
    if module:
        top = target.partition(".")[0]
        if Path(top).is_dir() or Path(f"{top}.py").exists() or top in sys.builtin_module_names:
            return
        if _find(top) is None:
            raise RecorderError(
                f"no module named {target!r}, neither here nor in {sys.prefix}; check the name after -m"
            )
    elif _PYTHON.fullmatch(Path(target).name) and not Path(target).is_dir() and shutil.which(target) is not None:
        again = shlex.join(["firstfault", "run", *args]) if args else "firstfault run SCRIPT"
        raise RecorderError(f"{target}: leave it away, the script is run with {sys.executable}; write `{again}`")
    elif target != "-" and not Path(target).exists():
        command = shutil.which(target)
        if command or target in _MODULES:
            raise RecorderError(_of_a_command(target, Path(command or target), args))
        hint = "options of firstfault come before the script" if target.startswith("-") else "check the path"
        raise RecorderError(f"{target}: no such script; {hint}")
    elif target != "-":
        _check_interpreter(Path(target))


_PYTHON = re.compile(r"python[\d.]*t?")

_MODULES = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}
"""Commands that are a module of Python, by which they are found in the right environment."""


def _of_a_command(name: str, command: Path, args: list[str]) -> str:
    """What to write in place of `firstfault run COMMAND`."""
    if name in _MODULES and _find(_MODULES[name].partition(".")[0]) is not None:
        again = shlex.join(["firstfault", "run", "-m", _MODULES[name], *args])
        return f"{name}: no such script; it is a command of Python, so write `{again}`"
    with suppress(OSError), command.open("rb") as file:
        first = file.readline(1000)
        if first.startswith(b"#!") and b"python" in first:
            again = shlex.join(["firstfault", "run", str(command), *args])
            return f"{name}: no such script; it is a command of Python, so write `{again}`"
    return f"{name}: no such script; put the command in front: `{name} … firstfault run SCRIPT`"


def _check_interpreter(script: Path) -> None:
    """Refuse a script that names another interpreter, unless Python can read it: pip writes launchers that both can."""
    if not script.is_file():
        return
    with script.open("rb") as file:
        first = file.readline(1000)
        if not first.startswith(b"#!") or b"python" in first or b"pypy" in first:
            return
        text = first + file.read()
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        if zipfile.is_zipfile(script):
            return
        named = first[2:].decode("utf-8", "replace").strip()
        raise RecorderError(
            f"{script}: is a script for {named}, not for python; give the Python script that trains, or write `firstfault run`"
            f" into {script.name} in place of python"
        ) from None


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
    """One line on stderr after the script's own last one: where the run lies, or why there is nothing in it. One more before it
    where recording took longer than it would have to."""
    from .storage.segments import completed_steps  # noqa: PLC0415
    from .supervisor.closing_line import switched_off, why_nothing, without_library  # noqa: PLC0415
    from .supervisor.troubles import say  # noqa: PLC0415

    steps = completed_steps(folder)
    shown = shlex.quote(os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder))
    off = switched_off(folder)
    if not steps:
        say(f"nothing was recorded: {why_nothing(folder)}; how it ended is in {shown}")
    elif off or not quiet:
        count = max(steps.values())
        ranks = f" on {len(steps)} ranks" if len(steps) > 1 else ""
        but = f", but {off}" if off else ""
        slower = None if quiet else without_library(folder)
        if slower is not None:
            say(slower)
        say(f"{count} step{'s' * (count != 1)}{ranks} recorded{but}; next: firstfault diagnose {shown}")
