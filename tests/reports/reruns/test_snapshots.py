"""Re-runs that go on from a snapshot: the same bits as the run, and the same proof as from the start."""

import subprocess
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace
from firstfault.reports.reruns.prove import before_step, prove
from firstfault.reports.reruns.rerun_script import Script, finish, record
from firstfault.schemas.files.snapshot import snapshot_path, snapshots

LOADER = """\
import sys, numpy, random, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
workers, bad = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
x = torch.randn(480, 8)
y = x[:, :1] * 2
if bad >= 0:
    x[bad] = 1e6
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5), torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9)],
    [5],
)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=9)
numpy.random.seed(0)
for epoch in range(2):
    rows = DataLoader(TensorDataset(x, y, torch.arange(480)), 16, shuffle=True, num_workers=workers)
    for a, b, ids in rows:
        loss = nn.functional.mse_loss(model(a + random.gauss(0, 0.01) + numpy.random.randn() * 0.01), b)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        print(int(ids[0]))
"""

DRAWN = """\
import random, torch
from torch import nn
torch.manual_seed(0)
random.seed(0)
model = nn.LSTM(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
for step in range(40):
    x = torch.randn(6, 8, 4)
    loss = (head(model(x)[0]) - x.sum(-1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def recorded(folder: Path, text: str, *args: str, run=forked.run) -> tuple[Path, Script]:
    script = folder / "train.py"
    script.write_text(text)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--snapshots", "every=12"]
    run([*command, "--out", str(folder / "run"), str(script), *args], check=False, capture_output=True)
    return folder / "run", Script(str(script), args)


def losses(run: Path, since: int) -> dict[int, tuple[float, float]]:
    with Trace(run) as trace:
        frame = trace.sql("SELECT step, loss, grad_norm FROM steps WHERE step > $s ORDER BY step", {"s": since})
    return {s: (loss, norm) for s, loss, norm in frame.iter_rows()}


@pytest.mark.parametrize(
    ("text", "args", "steps"),
    [(LOADER, ("0", "-1"), 60), (LOADER, ("2", "-1"), 60)],
    ids=["loader", "workers"],
)
def test_a_script_that_goes_on_from_a_snapshot_computes_the_same_bits(reruns_are_forks, tmp_path, text, args, steps):
    goes_on(tmp_path, text, args, steps)


@pytest.mark.suite
def test_one_that_draws_its_samples_does_so_in_processes_of_its_own(tmp_path):
    goes_on(tmp_path, DRAWN, (), 40, run=subprocess.run)


def goes_on(tmp_path, text, args, steps, run=forked.run):
    run, script = recorded(tmp_path, text, *args, run=run)
    step = before_step(run, steps - 2)
    assert step is not None
    assert 20 < step < steps - 10

    again = tmp_path / "again"
    finish(record(script, again, steps=steps, seconds=60, again=True, snapshot=snapshot_path(run, step)), 60)

    shared = losses(run, step)
    assert len(shared) == steps - step - 1
    found = losses(again, step)
    assert {s: found[s] for s in shared} == shared


def test_a_snapshot_of_another_script_is_not_put_in(reruns_are_forks, tmp_path):
    (tmp_path / "one").mkdir()
    run, _ = recorded(tmp_path / "one", DRAWN)
    other = tmp_path / "train.py"
    other.write_text(DRAWN.replace("nn.LSTM(4, 8)", "nn.LSTM(4, 6)").replace("nn.Linear(8, 1)", "nn.Linear(6, 1)"))
    again = tmp_path / "again"
    finish(record(Script(str(other)), again, steps=9, seconds=60, snapshot=snapshots(run)[0][1]), 60)
    with Trace(again) as trace:
        assert trace.sql("SELECT message FROM events WHERE event = 're-entered'").item().count("does not fit") == 1
        assert trace.sql("SELECT max(step) AS s FROM steps WHERE completed").item() == 8


@pytest.mark.suite
@pytest.mark.slow
def test_a_cause_is_confirmed_from_a_snapshot(reruns_are_forks, tmp_path):
    text = LOADER.replace("480", "960").replace("range(2)", "range(1)").replace("nn.BatchNorm1d(16), ", "")
    text = text.replace("growth_interval=9", "enabled=False")
    plain = tmp_path / "train.py"
    plain.write_text(text)
    shown = forked.run([sys.executable, str(plain), "0", "-1"], check=True, text=True)
    row = shown.stdout.split()[50]
    run, _ = recorded(tmp_path, text, "0", row)
    proof, _ = prove(run, seconds=60)

    assert proof.proven == {"outlier-batch": "confirmed"}, proof
    # one that comes while another is being written is left out
    assert {t.after for t in proof.tried} <= {11, 23, 35}
    assert [t.gone for t in proof.tried][:2] == [False, True]
