"""`firstfault batch`: many runs, a page for each and one index."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ...analyzer import rules_for
from ..text.errors import NoRunError
from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, RulesOption, add, command_errors, console, json_option, out_option
from .progress import progress_of, sign_of_life

if TYPE_CHECKING:
    from ..batch.index import IndexPage
    from ..batch.run import BatchRow, Work
    from ..batch.run_tree import RunPlace


class Engine(StrEnum):
    """Who judges the runs of a batch."""

    LOCAL = "local"
    RAY = "ray"


REFRESH_S = 10.0
"""Seconds between two looks at an index while its batch is under way, and as many more as looks are to stay a small part of the
work: an index over thousands of runs takes seconds itself."""

LOOKS_SHARE = 0.05
"""Largest share of the time that such looks may take."""


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "batch", batch_command)


def batch_command(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR…", help="Folders that hold runs, at any depth; or addresses such as s3://bucket/sweep."
        ),
    ],
    out: Annotated[Path, out_option("DIR", "Where the index and the pages go.")] = Path("firstfault-batch"),
    as_json: Annotated[bool, json_option("Print the index as JSON.")] = False,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", min=1, help="Processes; one per core without it.")
    ] = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="Processes here, or tasks on the Ray cluster that RAY_ADDRESS names.")
    ] = Engine.LOCAL,
    again: Annotated[bool, typer.Option("--again", help="Also judge runs that have not changed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder with files of others.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again until Ctrl-C; the page reloads.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.5, help="With --watch: time between looks.")
    ] = 10.0,
    rules: RulesOption = None,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Judge every run below some folders: a page for each, and one index that sorts and filters.

    Runs that have not changed since their page was written are not judged again. A run that cannot be read stops no other.

    Exit status: 0 all healthy; 1 any anomalous; 2 wrong usage; 3 none anomalous, but some inconclusive or unreadable.
    """
    from ..batch.index import check_out, index_json, reduce_index  # noqa: PLC0415 # as above
    from ..batch.page import print_index, write_index  # noqa: PLC0415 # as above
    from ..batch.run import run_batch  # noqa: PLC0415 # not for --help

    screen, err = console(), console(stderr=True)
    judged: Callable[[list[Work]], Iterator[BatchRow]] | None = None
    if engine is Engine.RAY:
        from ..batch.ray_cluster import judged_by_ray  # noqa: PLC0415 # an extra

        judged = partial(judged_by_ray, jobs=jobs)

    def write(done: "Sequence[BatchRow]", *, complete: bool, more: bool = False) -> "tuple[IndexPage, Path]":
        refresh = max(5, round(interval)) if more else None
        page = reduce_index(done, complete=complete, now_ns=time.time_ns(), refresh_s=refresh)
        return page, write_index(out, page, done)

    def judge(*, again: bool) -> "list[BatchRow]":
        with sign_of_life(err, "Looking for runs …"):
            places = _places(folders, patient=watch)
        # a mistake in the rules is no run's; settings that lie in a run folder, which may be the current one, are never in force
        rules_for(places[0].path if places else None, rules)
        out.mkdir(parents=True, exist_ok=True)
        work = partial(run_batch, places, out, own_rules=rules, jobs=jobs or _cores(), again=again, engine=judged)
        early = not watch or not (out / "index.html").exists()
        look = partial(write, complete=False, more=watch) if early else None
        if look is not None and not (out / "index.json").exists():
            look([])  # says that the folder is ours before the first row lies in it: a batch killed in between goes on
        return _with_looks(err, work, len(places), look)

    with command_errors(err, debug=debug):
        speak_as_asked(lang, None)
        check_out(out, force=force)
        ordered = judge(again=again)
        while watch:
            page, path = write(ordered, complete=True, more=True)
            if ordered:
                print_index(screen, page, _unchanged(ordered), path)
            try:
                time.sleep(interval)
            except KeyboardInterrupt:
                break
            ordered = judge(again=False)
        page, path = write(ordered, complete=True)
        if as_json:
            sys.stdout.write(index_json(ordered, complete=True).decode())
        elif not watch:
            print_index(screen, page, _unchanged(ordered), path)
    verdicts = {r.summary.verdict for r in ordered}
    raise typer.Exit(1 if "anomalous" in verdicts else 0 if verdicts == {"healthy"} else 3)


def _places(folders: list[str], *, patient: bool) -> "list[RunPlace]":
    """The runs below some folders. ``patient``: there may be none yet."""
    from ..batch.remote import is_remote  # noqa: PLC0415 # not for --help
    from ..batch.run_tree import find_runs  # noqa: PLC0415 # as above

    try:
        return find_runs(folders)
    except NoRunError:
        if not patient or not all(is_remote(f) or Path(f).is_dir() for f in folders):
            raise
        return []


def _with_looks(
    err: Console,
    work: "Callable[..., list[BatchRow]]",
    total: int,
    write: "Callable[[list[BatchRow]], object] | None",
) -> "list[BatchRow]":
    """Do the work under a progress bar, and write what is there now and then; stopped by Ctrl-C it can go on later."""
    rows: list[BatchRow] = []
    written, pause = time.monotonic(), REFRESH_S

    with progress_of(err, "Judging runs", total) as step:

        def done(row: "BatchRow") -> None:
            nonlocal written, pause
            rows.append(row)
            step(row.name)
            if write is not None and (len(rows) == 1 or time.monotonic() - written > pause):
                began = time.monotonic()
                write(rows)  # a look at what is there
                written = time.monotonic()
                pause = max(REFRESH_S, (written - began) / LOOKS_SHARE)

        try:
            return work(done=done)
        except KeyboardInterrupt:
            if write is not None:
                write(rows)
            err.print(f"firstfault: stopped after {len(rows)} of {total} runs; the same command goes on")
            raise typer.Exit(130) from None


def _unchanged(rows: "Sequence[BatchRow]") -> int:
    return sum(not r.fresh for r in rows)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
