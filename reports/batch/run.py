"""Judge many runs: each in a process of a pool, what has not changed not again, and none stops the others.

    OUT/index.html  index.json  findings.parquet
    OUT/runs/<slug>.html        the page of a run
    OUT/runs/<slug>.json        its row in the index, and the key of the files that it was made from

The row is written after the page, each in one go: a batch that was killed goes on where it stopped.
"""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...analyzer import AnalyzerError, Trace, diagnose, rules_for
from ...analyzer.diagnosis.run_summary import RunSummary, summarise
from ...analyzer.language import Language, language, speak
from ..text.errors import ReportError
from .remote import fetch
from .run_tree import RunPlace, printable, state_key

RUNS = "runs"
"""Folder of the pages below the output folder."""

_THREADS = "POLARS_MAX_THREADS"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h: a signal for us when the thread that started us ends


class BatchRow(msgspec.Struct, kw_only=True):
    """One run of the index: where it lies, its page (null without one), and what was found. ``fresh`` is False where the row
    was kept from an earlier batch."""

    name: str
    path: str
    slug: str
    page: str | None
    summary: RunSummary
    fresh: bool = True


class _Kept(msgspec.Struct, kw_only=True):
    key: str
    row: BatchRow


@dataclass(frozen=True, slots=True)
class Work:
    """What a process of the pool is given: one run and where its page goes."""

    place: RunPlace
    out: Path
    own_rules: Path | None
    language: Language = "en"


def run_batch(
    places: Sequence[RunPlace],
    out: Path,
    *,
    own_rules: Path | None,
    jobs: int,
    again: bool,
    done: Callable[[BatchRow], None],
    engine: "Callable[[list[Work]], Iterator[BatchRow]] | None" = None,
) -> list[BatchRow]:
    """A row for each run, in the order of ``places``; ``done`` is told each as soon as it is there. ``engine`` judges in place
    of a pool of ``jobs`` processes.

    Raises ReportError where the output folder cannot be written. Whatever is wrong with a run stands in its row.
    """
    try:
        (out / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ReportError(f"{out / RUNS}: cannot be made ({e.strerror}); choose another place with -o") from e
    rows: dict[str, BatchRow] = {}
    waiting: list[Work] = []
    for place in places:
        kept = None if again else kept_row(place, out, own_rules)
        if kept is None:
            waiting.append(Work(place, out, own_rules, language()))
        else:
            rows[place.slug] = kept
            done(kept)
    for row in engine(waiting) if engine is not None else _judged(waiting, jobs):
        rows[row.slug] = row
        done(row)
    return [rows[p.slug] for p in places]


def kept_row(place: RunPlace, out: Path, own_rules: Path | None) -> BatchRow | None:
    """Return the row of an earlier batch, if it and its page are still there and nothing that it depends on has changed.

    Two kinds are looked at again. A run that was in progress then may have died since without a trace in its folder. One that
    could not be read may have failed for a reason outside of it.
    """
    try:
        kept = msgspec.json.decode(_state(out, place.slug).read_bytes(), type=_Kept)
        current = kept.key == state_key(place, rules_for(place.path, own_rules))
    except (OSError, msgspec.MsgspecError, AnalyzerError):
        return None
    row = kept.row
    if not current or row.page is None or not (out / row.page).exists() or row.summary.status == "running":
        return None
    row.name, row.path, row.fresh = place.name, place.shown, False
    return row


def judge_run(work: Work) -> BatchRow:
    """Judge one run, write its page and its row. Never raises: an error becomes the row's."""
    from ..page.render import check_target, write_page  # noqa: PLC0415 # altair takes a second: only processes that draw load it

    speak(work.language)
    place = work.place
    page = f"{RUNS}/{place.slug}.html"
    row = unreadable_row(place, None)
    try:
        if place.remote is not None:
            fetch(place.remote)
        rules = rules_for(place.path, work.own_rules)
        key = state_key(place, rules)  # before reading: what changes meanwhile is read again the next time
        with Trace(place.path, threads=1) as trace:
            verdict = diagnose(trace, rules)
            row.summary = summarise(trace, verdict)
            check_target(work.out / page, force=False)
            write_page(trace, verdict, work.out / page)
        row.page = page
        write_whole(_state(work.out, place.slug), msgspec.json.encode(_Kept(key=key, row=row)))
    except (AnalyzerError, ReportError, OSError) as e:
        row.summary.error = printable(str(e))
    except Exception as e:  # noqa: BLE001 # a fault of ours with one run must not keep the others from being judged
        row.summary.error = f"firstfault failed on this run: {type(e).__name__}: {printable(str(e))}"
    return row


def unreadable_row(place: RunPlace, why: str | None) -> BatchRow:
    """The row of a run that could not be judged, or has not been yet."""
    summary = RunSummary(verdict="unreadable", error=why)
    return BatchRow(name=place.name, path=place.shown, slug=place.slug, page=None, summary=summary)


def _judged(waiting: list[Work], jobs: int) -> Iterator[BatchRow]:
    """Rows as they come. As many runs are under way as there are processes, so that where a process dies (killed for its
    memory, say) only these have to be tried again, one by one; the one that kills its process again gets that as its row."""
    left = list(reversed(waiting))
    while left:
        flying: dict[Future[BatchRow], Work] = {}
        with _pool(min(jobs, len(left))) as pool:
            try:
                while left or flying:
                    while left and len(flying) < jobs:
                        flying[pool.submit(judge_run, left[-1])] = left[-1]
                        left.pop()  # after it was taken: a broken pool takes none
                    for future in wait(flying, return_when=FIRST_COMPLETED).done:
                        row = future.result()
                        del flying[future]
                        yield row
            except BrokenProcessPool:
                pass
        for work in flying.values():
            yield _judged_alone(work)


def _judged_alone(work: Work) -> BatchRow:
    with _pool(1) as pool:
        try:
            return pool.submit(judge_run, work).result()
        except BrokenProcessPool:
            return unreadable_row(work.place, "the process that read it died, twice; is memory short?")


@contextmanager
def _pool(jobs: int) -> Generator[ProcessPoolExecutor]:
    """Processes with one thread each. They are started afresh (no fork of a process with threads) and end with this one."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"  # read when a process of the pool imports polars
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_process)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def _prepare_process() -> None:
    """Leave Ctrl-C to the parent, and end when the parent has ended, however it did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os._exit(1)  # it ended before we asked to be told


def _state(out: Path, slug: str) -> Path:
    return out / RUNS / f"{slug}.json"


def write_whole(path: Path, content: bytes) -> None:
    """Write so that a reader sees the old file or the new one. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
