"""What all tests share."""

import gc
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the tests are no package and share forked.py

import forked

# Two test workers share two cores: the threads of one training would wait at every barrier for those of the other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where the library cannot be built it is left out on purpose: `firstfault run` then says nothing of it.
if shutil.which("cc") is None and not (Path(__file__).parents[1] / "recorder" / "tensors" / "libmoments.so").exists():
    os.environ.setdefault("FIRSTFAULT_NATIVE", "0")
# A row that does not fit its table fails the test that wrote it, in recorded scripts too.
os.environ.setdefault("FIRSTFAULT_STRICT", "1")


# Torch and the libraries of the analysis are a million objects: to go through them takes a twenty-fifth of the time of all tests.
gc.set_threshold(20_000, 20, 20)

# Nothing here can tell whether a disk has kept its promise. To wait for it takes a thirtieth of the time of all tests.
os.fsync = lambda fd: None


def pytest_configure(config: pytest.Config) -> None:
    """Have workers share one process with torch, from which scripts are forked."""
    if config.getoption("numprocesses", None):  # of a worker it is None
        forked.share()


_LONGEST = (
    "test_silent.py",
    "test_ranks.py",
    "test_watches.py",
    "test_preflight.py",
    "test_numerics.py",
    "test_compare_recorded.py",
    "test_sharded.py",
    "test_supervise.py",
    "test_packaging.py",
    "test_programs.py",
    "test_optimizer.py",
    "test_model.py",
    "test_data.py",
    "test_run.py",
    "test_faults.py",
    "test_prove.py",
    "test_styles.py",
    "test_hostile_run.py",
)
"""Files that take the most time, computing or waiting. They begin first, so that no worker ends alone with one of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files in front; xdist gives files out in this order (`--no-loadscope-reorder`)."""
    place = {name: number for number, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
    longer = set(LONGER_TESTS.read_text().splitlines())
    for item in items:
        if function_of(item.nodeid) in longer:
            item.add_marker(pytest.mark.longer)


LONGER_TESTS = Path(__file__).with_name("longer_tests.txt")
"""Tests that `make quick` leaves out. house/longer_tests.py writes them anew; a test that is not known there is quick."""


def function_of(nodeid: str) -> str:
    """A test without its parameters, and without the group that xdist puts behind."""
    return nodeid.split("[", 1)[0].split("@", 1)[0]


class Here:
    """Takes the place of a pool of processes: judges in this one, which has all libraries loaded."""

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future


@pytest.fixture
def judged_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """`firstfault batch` without processes of its own, for claims that do not concern them."""
    from firstfault.reports.batch import run

    monkeypatch.setattr(run, "_pool", lambda jobs: nullcontext(Here()))


@pytest.fixture(scope="session")
def need_library() -> Callable[[Any, str], None]:
    """Leaves a test out where a library in C cannot be there: no compiler, or switched off. Where it could, it must."""

    def need(library: object, why_not: str) -> None:
        if library is None:
            if os.environ.get("FIRSTFAULT_NATIVE") != "0" and shutil.which("cc"):
                pytest.fail(f"{why_not}; install again: it is built then")
            pytest.skip(why_not)

    return need
