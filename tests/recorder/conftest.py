"""Running real scripts through the real command, in a folder of their own."""

import gc
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.schemas import ExitRecord, read_exit
from firstfault.schemas.files.layout import parts
from forked import Process


@dataclass
class Recorded:
    """A finished `firstfault run`."""

    run: Path
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def exit(self) -> ExitRecord:
        """What exit.json says; there must be one."""
        record = read_exit(self.run)
        assert record is not None, f"no exit.json in {self.run}; stderr: {self.stderr.decode(errors='replace')}"
        return record


@dataclass
class Bench:
    """A folder with a script, and the two ways to run it."""

    folder: Path
    run: Path
    forked: bool = True
    """Whether `record` and `plain` fork a process that has torch loaded. `@pytest.mark.new_process` has them start a new one."""

    def write(self, text: str, name: str = "script.py") -> Path:
        """Put a file into the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    def command(self, *args: str, options: Sequence[str] = ()) -> list[str]:
        """`firstfault run` of what comes after the options."""
        return [sys.executable, "-m", "firstfault", "run", "--out", str(self.run), *options, *args]

    def environment(self, **more: str) -> dict[str, str]:
        """Ours, without traces of a recording that this test itself may run under."""
        return {k: v for k, v in os.environ.items() if k not in {"FIRSTFAULT_RUN", "PYTHONPATH"}} | more

    def record(self, *args: str, options: Sequence[str] = (), stdin: bytes = b"", **environment: str) -> Recorded:
        """Run to the end."""
        done = self._done(self.command(*args, options=options), stdin, environment)
        return Recorded(self.run, done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes] | Process:
        """Run, and let the test do something to it meanwhile. A fork has no streams."""
        command = self.command(*args, options=options)
        if self.forked:
            return Process(command, self.folder, self.environment())
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def plain(self, *args: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        """The same with python itself."""
        return self._done([sys.executable, *args], stdin, environment)

    def _done(
        self, command: list[str], stdin: bytes, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        run = forked.run if self.forked else subprocess.run
        return run(
            command,
            cwd=self.folder,
            env=self.environment(**environment),
            input=stdin,
            capture_output=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(autouse=True)
def no_graphs_of_other_tests() -> None:
    """What another test of this process has compiled is none of this one's: where there is compiled code, steps are watched."""
    if (dynamo := sys.modules.get("torch._dynamo.utils")) is not None:
        dynamo.counters.clear()


@pytest.fixture(autouse=True)
def the_same_numbers_in_every_order() -> None:
    """Numbers drawn at random do not depend on the tests that ran before in the same process."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


@pytest.fixture
def objects_of_the_test_alone() -> Generator[None]:
    """Hide what is there already from the garbage collector: the recorder looks through all objects in each training."""
    gc.freeze()
    yield
    gc.unfreeze()


@dataclass
class Training:
    """A training that this process recorded."""

    run: Path

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of a table, in the order of their recording."""
        return [row for part in parts(self.run, table) for row in pq.read_table(part.path).to_pylist()]

    def events(self, event: str) -> list[dict[str, Any]]:
        """Events of a kind, their details read."""
        found = [row for row in self.rows("events") if row["event"] == event]
        return [row | {"detail": json.loads(row["detail"] or "{}")} for row in found]

    def kinds(self) -> dict[int, tuple[str, str]]:
        """Tensors by their number: kind and name."""
        return {row["tensor_id"]: (row["kind"], row["tensor_name"]) for row in self.rows("tensors")}


@pytest.fixture
def events_of_reading(tmp_path: Path) -> Callable[[str, int], list[dict[str, Any]]]:
    """Details of the events of a recorded script that reads a dataset; it prints what the plain one does."""

    def of(kind: str, workers: int) -> list[dict[str, Any]]:
        run = tmp_path / "run"
        arguments = [str(Path(__file__).parent / "scripts" / "read_datasets.py"), kind, str(workers)]
        plain = forked.run([sys.executable, *arguments], text=True, check=True)
        command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), *arguments]
        recorded = forked.run(command, text=True, check=True)
        assert (recorded.stdout, recorded.stderr) == (plain.stdout, plain.stderr)
        training = Training(run)
        assert training.events("recorder-fault") == []
        return [e["detail"] for name in ("dataset-changed", "worker-randomness") for e in training.events(name)]

    return of


@pytest.fixture
def training_of() -> type[Training]:
    """Reads what a run recorded."""
    return Training


@pytest.fixture
def train(tmp_path: Path, objects_of_the_test_alone: None) -> Callable[..., Training]:
    """Trains and records everything: ``loss_of(step)`` is the loss; ``after(step)`` follows the step."""
    import torch
    from firstfault.recorder import Recorder

    def do(
        model: Any,
        loss_of: Callable[[int], Any],
        *,
        steps: int = 6,
        optimizer: Any = None,
        before: Callable[[int], object] = bool,
        after: Callable[[int], object] = bool,
        **options: Any,
    ) -> Training:
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.01)
        with Recorder(tmp_path / "run", budget="off", **options):
            for step in range(steps):
                before(step)
                optimizer.zero_grad()
                loss_of(step).backward()
                optimizer.step()
                after(step)
        training = Training(tmp_path / "run")
        assert training.events("recorder-fault") == []
        assert len(training.rows("steps")) >= steps
        return training

    return do


@pytest.fixture(params=["library", "operators"])
def measuring_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, need_library) -> str:
    """A claim holds for the C library and for torch's operators."""
    from firstfault.recorder.tensors import native

    if request.param == "operators":
        monkeypatch.setattr(native, "library", None)
    else:
        need_library(native.library, native.why_not() or "")
    return request.param


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """An empty folder and the path of a run that does not exist yet."""
    folder = tmp_path / "work with 'quotes' and 名"
    folder.mkdir()
    return Bench(folder, tmp_path / "run", forked=request.node.get_closest_marker("new_process") is None)


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Wait until a condition of another process holds; fails after two minutes, of which a busy machine may take one."""
    import time

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come to hold"
            time.sleep(0.01)

    return wait
