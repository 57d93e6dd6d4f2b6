"""`firstfault watch`: a look at a run while it is being recorded."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live as Screen

from ...analyzer import AnalyzerError, Trace, Verdict, diagnose, rules_for
from ..alert import check, message, send
from ..live import Live, look_at, view_of_live
from .asked_language import speak_as_asked
from .common import (
    EXIT_CODES,
    DebugOption,
    LangOption,
    RulesOption,
    RunArgument,
    add,
    chosen_run,
    command_errors,
    console,
    json_option,
    print_json_line,
)

SHARE = 0.1
"""Share of the time that looking may take: of a long run, whose verdict takes seconds, looks become fewer."""


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "watch", watch_command)


def watch_command(
    run: RunArgument = None,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, help="Time between looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave.")] = False,
    alert: Annotated[
        str | None,
        typer.Option(
            "--alert",
            metavar="CMD|URL",
            help="When the run turns anomalous, run this command once with the facts as JSON on its stdin, or post them to"
            " this http address.",
        ),
    ] = None,
    rules: RulesOption = None,
    as_json: Annotated[bool, json_option("Print each look as one line of JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Watch a run while it is recorded: step, loss, rates, and the findings so far. The command ends with the run.

    Exit status as of `firstfault diagnose`: 0 healthy, 1 anomalous, 2 wrong usage or unreadable, 3 inconclusive; 130 for
    Ctrl-C.
    """
    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        folder = chosen_run(err, run)
        speak_as_asked(lang, folder)
        judged = rules_for(folder, rules)
        alarm = Alarm(check(alert), err) if alert is not None else None

        def look() -> tuple[Live, Verdict]:
            with Trace(folder, threads=1) as trace:
                live, verdict = look_at(trace), diagnose(trace, judged)
            if alarm is not None:
                alarm.seen(verdict)
            return live, verdict

        try:
            verdict = watch_until_ended(out, look, interval, once=once, as_json=as_json)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    raise typer.Exit(EXIT_CODES[verdict.verdict])


class Alarm:
    """Sends one alert, at the first anomalous verdict; a target that cannot be reached is tried again at the next look."""

    def __init__(self, target: str, err: Console) -> None:
        self.target = target
        self.err = err
        self.sent = False
        self._said = False

    def seen(self, verdict: Verdict) -> None:
        """A verdict of the run so far."""
        if self.sent or verdict.verdict != "anomalous":
            return
        failed = send(self.target, verdict)
        self.sent = failed is None
        if failed is not None and not self._said:
            self._said = True
            self.err.print(f"firstfault: [alert] {failed}", markup=False, soft_wrap=True)


def watch_until_ended(
    out: Console, look: Callable[[], tuple[Live, Verdict]], interval: float, *, once: bool, as_json: bool = False
) -> Verdict:
    """Look until the run has ended; the last verdict. Outside a terminal only the last look is printed, but as JSON each.

    Raises AnalyzerError where the run cannot be read twice in a row: files come and go while a run is written.
    """
    failures = 0
    screen = Screen(console=out, auto_refresh=False) if out.is_terminal and not as_json else None
    with screen or nullcontext():
        while True:
            began = time.monotonic()
            try:
                live, verdict = look()
            except AnalyzerError:
                failures += 1
                if failures > 1 or once:
                    raise
                time.sleep(interval)
                continue
            failures = 0
            last = once or not live.going_on
            if as_json:
                print_json_line({"status": live.status, "step": live.step, "loss": live.loss, **message(verdict)})
            elif screen is not None:
                screen.update(view_of_live(live, verdict), refresh=True)
            elif last:
                out.print(view_of_live(live, verdict))
            if last:
                return verdict
            time.sleep(max(interval, (time.monotonic() - began) * (1 / SHARE - 1)))
