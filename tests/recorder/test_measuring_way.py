"""Which way tensors are measured stands in the recording, and is said where it is the slower one without anybody's choice."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.reading.check import Way, check
from firstfault.recorder import Recorder
from firstfault.recorder.tensors import native
from firstfault.reports.commands.check import lines_of
from firstfault.schemas.files.unrecorded import process_notes
from polars.testing import assert_frame_equal
from torch import nn

TRAIN = """
import torch
model = torch.nn.Linear(2, 1, bias=False)
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    with torch.no_grad():
        model.weight -= 0.1 * model.weight.grad
        model.weight.grad = None
"""
"""By hand: the first optimizer of a process loads torch._dynamo, which takes as long as torch itself."""
PACKAGE = Path(native.__file__).parents[2]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the recording half of the package, whose library a test may break."""
    folder = tmp_path_factory.mktemp("copied")
    for room in ("recorder", "schemas"):
        shutil.copytree(PACKAGE / room, folder / "firstfault" / room)  # with its compiled modules, which stay valid
    for path in PACKAGE.glob("*.py"):
        if path.name != "setup.py":
            shutil.copy(path, folder / "firstfault")
    return folder


def _recorded(folder: Path, *options: str, copied: Path | None = None, **environment: str) -> tuple[Path, list[str]]:
    """The run, and what `firstfault run` said."""
    (folder / "train.py").write_text(TRAIN)
    plain = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", native.ENV_NATIVE, "FIRSTFAULT_RUN"}}
    done = subprocess.run(
        [sys.executable, "-m", "firstfault", "run", "--out", "run", *options, "train.py"],
        cwd=folder,
        env=plain | ({"PYTHONPATH": str(copied)} if copied else {}) | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return folder / "run", done.stderr.splitlines()


def _row(run: Path) -> dict[str, object]:
    with Trace(run) as trace:
        return trace.sql("SELECT instructions, without_library FROM ranks").row(0, named=True)


def test_the_instructions_of_the_library_stand_in_the_recording(need_library, tmp_path):
    need_library(native.library, native.why_not() or "")
    run, said = _recorded(tmp_path)
    assert native.library is not None
    assert _row(run) == {"instructions": native.library.instructions, "without_library": None}
    assert len(said) == 1
    assert check(run).ways == [Way(native.library.instructions, None, 1)]
    assert any(f"by the C library ({native.library.instructions})" in line for line in lines_of(check(run)))


@pytest.mark.suite
def test_who_leaves_the_library_out_is_told_nothing(tmp_path):
    run, said = _recorded(tmp_path, FIRSTFAULT_NATIVE="0")
    assert _row(run) == {"instructions": None, "without_library": "FIRSTFAULT_NATIVE is 0"}
    assert len(said) == 1
    assert said[0].startswith("firstfault: 3 steps recorded; next: ")
    assert [note.without_library for note in process_notes(run)] == [None]
    lines = lines_of(check(run))
    assert lines[-2] == "tensors in the host's memory were measured by torch's operators: FIRSTFAULT_NATIVE is 0"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(
            None, "libmoments.so was not built when firstfault was installed: there was no C compiler", id="missing"
        ),
        pytest.param(b"not a library", "libmoments.so: file too short", id="broken", marks=pytest.mark.suite),
    ],
)
def test_a_library_that_cannot_be_used_is_said_in_one_line(copied, tmp_path, content, why):
    library = copied / "firstfault" / "recorder" / "tensors" / "libmoments.so"
    library.unlink(missing_ok=True)
    if content is not None:
        library.write_bytes(content)
    run, said = _recorded(tmp_path, copied=copied)
    assert len(said) == 2
    assert said[0].startswith("firstfault: torch's operators measured the tensors, which takes longer")
    assert why in said[0]
    assert said[1].startswith("firstfault: 3 steps recorded; next: ")
    assert why in str(_row(run)["without_library"])
    assert json.loads(next((run / "processes").glob("*.json")).read_text())["without_library"] in said[0]
    assert any(why in line for line in lines_of(check(run)))


@pytest.mark.suite
def test_quiet_leaves_it_out(copied, tmp_path):
    (copied / "firstfault" / "recorder" / "tensors" / "libmoments.so").unlink(missing_ok=True)
    run, said = _recorded(tmp_path, "--quiet", copied=copied)
    assert said == []
    assert "no C compiler" in str(_row(run)["without_library"])


def _train(run: Path) -> tuple[list[float], torch.Tensor]:
    """Losses and final weights of a recorded training with a convolution, batch norm, clipping, and one step that goes NaN."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    with Recorder(run, model=model, budget="off", on_nonfinite="record"):
        for step in range(14):
            x = torch.randn(16, 3, 8, 8)
            if step == 10:
                x[3, 1, 2, 2] = math.nan
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), torch.randint(5, (16,)))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses, nn.utils.parameters_to_vector(model.parameters()).detach()


def test_a_whole_recording_is_the_same_with_the_library_and_without(need_library, tmp_path, monkeypatch):
    need_library(native.library, native.why_not() or "")
    losses, weights = _train(tmp_path / "library")
    monkeypatch.setattr(native, "library", None)
    again, same = _train(tmp_path / "operators")

    torch.testing.assert_close(torch.tensor(losses), torch.tensor(again), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(weights, same, rtol=0, atol=0, equal_nan=True)
    stats = (  # numbers that cancel have a sum as exact as their size allows, by the machine's own way of adding
        "SELECT step, tensor, kind, s.numel, nan_count, inf_count, min, max, sum_sq,"
        " sum / greatest(1, sqrt(s.numel * sum_sq)) AS sum FROM stats s"
        " WHERE kind <> 'update' ORDER BY step, seq"
    )
    steps = "SELECT step, loss, grad_norm, clip_norm, completed FROM steps ORDER BY step"
    batches = "SELECT step, field, sample_fingerprints FROM batches ORDER BY step, field"
    with Trace(tmp_path / "library") as one, Trace(tmp_path / "operators") as other:
        assert one.sql(stats).height > 14 * 20
        assert_frame_equal(one.sql(stats), other.sql(stats), rel_tol=1e-4, abs_tol=1e-5)
        assert_frame_equal(one.sql(steps), other.sql(steps), rel_tol=1e-5)
        assert_frame_equal(one.sql(batches), other.sql(batches))
        first, second = diagnose(one), diagnose(other)
        assert first.causes[0].name == second.causes[0].name
        assert first.causes[0].step == second.causes[0].step == 10
