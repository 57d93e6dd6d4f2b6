"""After three lost steps in a row the last good state is saved, or put back; before that nothing happens."""

import subprocess
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder.base.errors import RecorderError
from firstfault.recorder.base.option_parsing import resolve
from firstfault.schemas import STOPPED
from firstfault.schemas.files.layout import parts

SCRIPT = """\
import sys, torch
from torch import nn
first, last = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(16, 4)
    if first <= step < last:
        x = x * float("nan")
    loss = model(x).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print("finite" if all(p.isfinite().all() for p in model.parameters()) else "lost")
"""


def train(folder: Path, policy: str, first: int, last: int) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--quiet",
        "--on-nonfinite",
        policy,
        "--out",
        str(folder / "run"),
    ]
    return forked.run([*command, str(script), str(first), str(last)], capture_output=True, text=True, check=False)


def events(folder: Path) -> list[tuple[str, int]]:
    rows = [row for *_, part in parts(folder / "run", "events") for row in pq.read_table(part).to_pylist()]
    return [(row["event"], row["step"]) for row in rows if row["event"] in {"rolled-back", "stopped"}]


def test_rollback_ends_with_a_checkpoint_of_a_good_step(tmp_path):
    done = train(tmp_path, "rollback", 22, 40)

    assert done.returncode == STOPPED, done.stderr
    assert events(tmp_path) == [("stopped", 24)]
    saved = torch.load(tmp_path / "run" / "rollback.pt", weights_only=True)
    assert 10 <= saved["step"] < 22
    (weights,) = saved["models"].values()
    assert all(t.isfinite().all() for t in weights.values())
    assert saved["optimizers"][0]["state"]


def test_restore_puts_a_good_state_back_and_goes_on(tmp_path):
    done = train(tmp_path, "restore:2", 22, 24)

    assert (done.returncode, done.stdout) == (0, "finite\n"), done.stderr
    assert events(tmp_path) == [("rolled-back", 23)]


@pytest.mark.parametrize("policy", ["rollback", "restore"])
def test_fewer_lost_steps_are_left_to_the_script(policy, tmp_path):
    done = train(tmp_path, policy, 38, 39)

    assert done.returncode == 0, done.stderr
    assert events(tmp_path) == []
    assert done.stdout == ("finite\n" if policy == "restore" else "lost\n")


def test_the_number_of_steps_is_checked():
    assert resolve({"on-nonfinite": "rollback:5"}, []).on_nonfinite == "rollback:5"
    for wrong in ("rollback:0", "stop:3", "restore:x", "roll"):
        with pytest.raises(RecorderError, match="on-nonfinite"):
            resolve({"on-nonfinite": wrong}, [])
