"""Recording changes nothing and counts right, whatever the style of the training loop."""

import subprocess
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
import torch
from firstfault import reports
from firstfault.schemas.files.layout import parts

SCRIPT = Path(__file__).parent / "scripts" / "styles.py"
STYLES = [
    "accumulation",
    "gan",
    "parametrized",
]
IN_PROCESSES_OF_THEIR_OWN = {"workers"}
"""The others are forked from a process that has torch loaded: what is computed does not depend on how it starts."""

IN_THE_WHOLE_SUITE = [
    "workers",
    "transformer",
    "gradients_returned",
    "plain",
    "cnn",
    "lbfgs",
    "scaler",
    "no_modules",
    "step_in_backward",
    "wasserstein",
    "recurrent",
    "checkpointed",
    "double_backward",
    "never_steps",
    "zero_before_step",
    "half_skipped",
    "by_hand",
    "bare_tensors",
    "transformed",
    "meta",
]


def rows(run: Path, table: str) -> list[dict]:
    return [row for part in parts(run, table) for row in pq.read_table(part.path).to_pylist()]


@pytest.mark.parametrize(
    "style", [*STYLES, *(pytest.param(style, marks=pytest.mark.suite) for style in IN_THE_WHOLE_SUITE)]
)
def test_recording_is_bit_identical_and_counts_iterations_as_the_script_does(style: str, tmp_path: Path) -> None:
    run_python = subprocess.run if style in IN_PROCESSES_OF_THEIR_OWN else forked.run
    plain = run_python([sys.executable, SCRIPT, style], capture_output=True, text=True, check=True)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT), style]
    recorded = run_python(command, capture_output=True, text=True, check=True)

    assert recorded.stdout == plain.stdout
    steps = int(plain.stdout.split()[-1])
    assert sorted({row["step"] for row in rows(run, "steps") if row["completed"]}) == list(range(steps))
    assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []
    assert rows(run, "tensor_stats")


@pytest.mark.suite
@pytest.mark.slow
def test_the_demo_trains_the_same_recorded_and_plain(tmp_path: Path) -> None:
    script = Path(reports.__file__).parent / "demo_script" / "train_gpt.py"
    training = [str(script), "--steps", "12", "--save"]
    forked.run([sys.executable, *training, tmp_path / "plain.pt"], check=True)
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--out",
        tmp_path / "run",
        *training,
        tmp_path / "recorded.pt",
    ]
    forked.run(command, check=True)

    plain, recorded = (torch.load(tmp_path / name, weights_only=True) for name in ("plain.pt", "recorded.pt"))

    assert torch.equal(plain["losses"], recorded["losses"])
    assert plain["weights"].keys() == recorded["weights"].keys()
    assert all(torch.equal(plain["weights"][name], recorded["weights"][name]) for name in plain["weights"])


def test_losses_lr_and_gradient_norms_of_each_step_are_those_of_the_script(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT), "accumulation"]
    out = forked.run(command, text=True, check=True).stdout
    losses = [float.fromhex(line) for line in out.split()[:16]]

    steps = rows(run, "steps")

    assert [row["microbatches"] for row in steps] == [4, 4, 4, 4]
    means = [sum(losses[i : i + 4]) / 4 for i in range(0, 16, 4)]
    assert [row["loss"] for row in steps] == pytest.approx(means, rel=1e-6)
    lrs = [row["lr"] for row in rows(run, "param_groups")]
    assert lrs[0] == pytest.approx(1e-2)
    assert lrs == sorted(lrs, reverse=True)
    gradients = {r["tensor_id"] for r in rows(run, "tensors") if r["kind"] == "gradient"}
    squares = [0.0] * 4
    for row in rows(run, "tensor_stats"):
        if row["tensor_id"] in gradients:
            squares[row["step"]] += row["sum_sq"]
    assert [row["grad_norm"] for row in steps] == pytest.approx([s**0.5 for s in squares], rel=1e-6)


def test_an_optimizer_that_is_left_out_halfway_leaves_steps_that_did_not_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT), "half_skipped"]
    forked.run(command, check=True)

    assert [row["stepped"] for row in rows(run, "steps")] == [True] * 4 + [False] * 4
    assert all(row["grad_norm"] > 0 for row in rows(run, "steps")[:-1])  # at exit the last gradients are gone
