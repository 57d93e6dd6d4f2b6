"""Run `batch --engine ray`: the same work for each run, on a Ray cluster that is there already, or on this machine.

A worker judges a run into a folder of its own, and sends back the page and the row. It must see the run, on a shared disk or by
an address, but not the output folder. Each worker needs firstfault installed.
"""

import logging
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..text.errors import ReportError
from .run import RUNS, BatchRow, Work, judge_run, unreadable_row, write_whole

_AHEAD = 2
"""Tasks that are handed out per processor: as few as keep all of them busy, so that Ctrl-C leaves little behind."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a worker sends back: the row, and the files of the run by name."""

    row: BatchRow
    files: dict[str, bytes]


def judged_by_ray(waiting: list[Work], jobs: int | None) -> Iterator[BatchRow]:
    """Rows as they come; ``jobs`` bounds how many are under way. An address in RAY_ADDRESS names the cluster.

    Raises ReportError where Ray is not installed or the cluster cannot be reached.
    """
    if not waiting:
        return
    ray = _connected()
    task = ray.remote(num_cpus=1, max_retries=1, runtime_env={"env_vars": {"POLARS_MAX_THREADS": "1"}})(judge_away)
    most = jobs or _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    left, flying = list(reversed(waiting)), {}
    try:
        while left or flying:
            while left and len(flying) < most:
                work = left.pop()
                flying[task.remote(work)] = work
            done, _ = ray.wait(list(flying), num_returns=1)
            for reference in done:
                work = flying.pop(reference)
                yield _received(ray, reference, work)
    finally:
        for reference in flying:
            ray.cancel(reference)
        ray.shutdown()  # leaves a cluster that was there as it is, and ends one that was started for this


def judge_away(work: Work) -> Judged:
    """Judge one run into a folder that goes again. Never raises for what is wrong with the run."""
    with tempfile.TemporaryDirectory(prefix="firstfault-") as folder:
        (Path(folder) / RUNS).mkdir()
        row = judge_run(replace(work, out=Path(folder)))
        return Judged(row, {path.name: path.read_bytes() for path in (Path(folder) / RUNS).iterdir()})


def _received(ray: Any, reference: Any, work: Work) -> BatchRow:
    """The row of one task, its files written; an error becomes the row's."""
    try:
        judged: Judged = ray.get(reference)
    except ray.exceptions.RayError as e:
        words = (str(e).splitlines() or [type(e).__name__])[0]
        return unreadable_row(work.place, f"the worker that read it failed ({type(e).__name__}: {words})")
    names = {f"{work.place.slug}.html", f"{work.place.slug}.json"}
    try:
        for name in sorted(names & set(judged.files)):  # the page first: a row without its page would count as done
            write_whole(work.out / RUNS / name, judged.files[name])
    except OSError as e:
        return unreadable_row(work.place, f"its page cannot be written ({e.strerror})")
    return judged.row


def _connected() -> Any:
    """Ray, connected."""
    try:
        import ray  # noqa: PLC0415 # pyright: ignore[reportMissingImports] # an extra
    except ImportError:
        raise ReportError("--engine ray needs Ray, which is not installed; pip install 'firstfault[ray]'") from None
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as e:
        words = (str(e).splitlines() or [type(e).__name__])[0]
        raise ReportError(f"the Ray cluster cannot be reached ({words}); check RAY_ADDRESS") from e
    return ray
