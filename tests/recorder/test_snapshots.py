"""The ring of snapshots: what is in one, when none is kept, which goes first; the training computes the same bits."""

import sys
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import cast

import forked
import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder.base.errors import RecorderError
from firstfault.recorder.base.option_parsing import resolve
from firstfault.recorder.base.options import Options, SnapshotPlan, snapshot_plan
from firstfault.recorder.capture import snapshots as snapshots_module
from firstfault.recorder.capture.snapshots import Snapshots, make_room
from firstfault.recorder.session.budget import Budget
from firstfault.recorder.session.session import Session
from firstfault.recorder.tensors.tensor_file import read_tensors, write_tensors
from firstfault.schemas.files.layout import parts
from firstfault.schemas.files.snapshot import SNAPSHOTS, read_meta, snapshot_path, snapshots

SCRIPT = """\
import sys, torch
from torch import nn
folder, lost = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 300), nn.BatchNorm1d(300), nn.ReLU(), nn.Dropout(0.1), nn.Linear(300, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)
for step in range(30):
    x = torch.randn(16, 4) * (float("nan") if step >= lost else 1.0)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 14:
        torch.save([model.state_dict(), optimizer.state_dict(), torch.get_rng_state()], folder + "/there.pt")
    schedule.step()
torch.save([*model.state_dict().values(), torch.get_rng_state()], folder + "/end.pt")
"""


def train(folder: Path, *options: str, lost: int = 99) -> Path:
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(SCRIPT)
    recorder = ["-m", "firstfault", "run", "--quiet", "--out", str(folder / "run"), *options] if options else []
    forked.run([sys.executable, *recorder, str(script), str(folder), str(lost)], check=True)
    return folder / "run"


def events(run: Path) -> list[str]:
    rows = [row for *_, part in parts(run, "events") for row in pq.read_table(part).to_pylist()]
    return [row["message"] for row in rows if row["event"] == "snapshots"]


def test_a_snapshot_holds_the_state_after_its_step_and_the_training_computes_the_same_bits(tmp_path):
    train(tmp_path / "plain")
    run = train(tmp_path / "kept", "--snapshots", "every=15")

    one, two = torch.load(tmp_path / "plain" / "end.pt"), torch.load(tmp_path / "kept" / "end.pt")
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert next(step for step, _ in snapshots(run)) == 14
    kept, _ = read_tensors(snapshot_path(run, 14))
    model, optimizer, random = torch.load(tmp_path / "kept" / "there.pt")
    assert all(torch.equal(kept[f"model/model/{name}"], value) for name, value in model.items())
    for i, state in optimizer["state"].items():
        assert all(torch.equal(kept[f"optimizer/0/0.{i}/{key}"], value) for key, value in state.items())
    assert torch.equal(kept["random/cpu"], random)
    meta = read_meta(snapshot_path(run, 14))
    assert meta is not None
    assert meta.optimizers[0][0]["lr"] == optimizer["param_groups"][0]["lr"] == 0.0025
    assert meta.schedulers[0][0]["last_epoch"] == 14


def test_a_state_that_is_lost_is_no_good_one(tmp_path):
    run = train(tmp_path, "--snapshots", "every=10", lost=12)
    assert [step for step, _ in snapshots(run)] == [9]


def test_what_the_thread_that_writes_takes_stands_in_the_account(tmp_path):
    run = train(tmp_path, "--snapshots", "every=15")
    rows = [row for *_, part in parts(run, "recorder_stats") for row in pq.read_table(part).to_pylist()]
    [written] = [row for row in rows if row["part"] == "snapshots" and row["step"] == 29]
    assert written["calls"] in {1, 2}
    assert written["ns"] > 100_000


def test_a_snapshot_that_is_dear_to_write_is_taken_seldom(monkeypatch):
    options = Options()
    kept = Snapshots(cast("Session", SimpleNamespace(options=options, budget=Budget(options))), list, list)
    taken: list[float] = []
    clock = 0.0
    monkeypatch.setattr(snapshots_module, "perf_counter_ns", lambda: int(clock * 1e9))

    def take(seconds: float) -> None:
        taken.append(seconds)
        kept._writer = Thread(target=setattr, args=(kept, "_written_ns", int(0.3e9)))
        kept._writer.start()
        kept._writer.join()

    monkeypatch.setattr(kept, "_take", take)
    for second in range(400):
        clock = 1.0 + second
        kept._step_ended()
    assert taken == [30.0, 130.0, 230.0, 330.0]


def test_none_is_kept_of_a_short_run_or_where_two_do_not_fit_or_where_none_is_wanted(tmp_path):
    assert snapshots(train(tmp_path / "auto", "--snapshots", "auto")) == []
    assert snapshots(train(tmp_path / "off", "--snapshots", "off")) == []
    run = tmp_path / "small"
    script = tmp_path / "large.py"
    script.write_text(SCRIPT.replace("300", "60000"))
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), "--snapshots", "every=5,2MB"]
    forked.run([*command, str(script), str(tmp_path), "99"], check=True)
    assert snapshots(run) == []
    assert ["do not fit" in words for words in events(run)] == [True]


def test_the_one_between_the_closest_neighbours_goes_first_and_the_newest_two_stay(tmp_path):
    (tmp_path / SNAPSHOTS).mkdir()
    for step in (10, 20, 40, 80, 81, 160, 320, 330):
        snapshot_path(tmp_path, step).write_bytes(b"x" * 100)
    make_room(tmp_path, 750)
    assert [s for s, _ in snapshots(tmp_path)] == [10, 20, 40, 80, 160, 320, 330] or [
        s for s, _ in snapshots(tmp_path)
    ] == [10, 20, 40, 81, 160, 320, 330]
    make_room(tmp_path, 250)
    assert [s for s, _ in snapshots(tmp_path)] == [320, 330]


def test_tensors_come_back_as_they_were_and_a_cut_file_says_so(tmp_path):
    torch.manual_seed(0)
    given = {
        "a": torch.randn(3, 5),
        "b": torch.randn(2, 2).bfloat16(),
        "c": torch.arange(7),
        "d": torch.tensor([True, False, True]),
        "e": torch.empty(0, 4),
        "f": torch.tensor(2.5, dtype=torch.float64),
    }
    path = tmp_path / "x.safetensors"
    size = write_tensors(path, given, {"who": "me"})
    assert path.stat().st_size == size
    found, metadata = read_tensors(path)
    assert metadata == {"who": "me"}
    assert {n: (t.dtype, t.shape) for n, t in found.items()} == {n: (t.dtype, t.shape) for n, t in given.items()}
    assert all(torch.equal(found[n], given[n]) for n in given)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="does not lie within"):
        read_tensors(path)
    assert read_meta(path) is None


def test_the_option_is_read_with_its_units():
    assert resolve({"snapshots": "every=5,1GB"}, []).snapshots == "every=5,1000000000"
    assert snapshot_plan("every=5,1000000000") == SnapshotPlan("every", 5, 1_000_000_000)
    assert snapshot_plan("auto") == SnapshotPlan("auto")
    for wrong in ("every=0", "sometimes", "auto,", "every", "auto,3"):
        with pytest.raises(RecorderError, match="snapshots"):
            resolve({"snapshots": wrong}, [])
