"""Scripts that go on by themselves where their checkpoint lies: hidden from the second start, and found by a third."""

import builtins
import glob
import os
import sys
from pathlib import Path

import forked
import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder.probes.interventions import intervened
from firstfault.reports.reruns import rerun_script
from firstfault.reports.reruns.preflight_facts import determinism
from firstfault.reports.reruns.preflight_goes_on import Saved, looked_for, saved_at, went_on
from firstfault.reports.reruns.rerun_script import write_plan
from firstfault.schemas.files.probe_report import ENV_END_AFTER, ENV_PLAN, ProbePlan, read_report
from firstfault.schemas.files.rehearsed import read_asked

SCRIPT = """\
import os, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
forgotten, file = "FORGOTTEN", "last.pt"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = OPTIMIZER
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
parts = {"weights": model, "moments": optimizer, "schedule": scheduler}
if forgotten == "saving":
    del parts["moments"]
x = torch.randn(96, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
start = 0
if os.path.isfile(file):
    state = torch.load(file)
    for name, part in parts.items():
        if name != forgotten:
            part.load_state_dict(state[name])
    start = 0 if forgotten == "epoch" else state["epoch"] + 1
for epoch in range(start, 20):
    for inputs, targets in loader:
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    torch.save({name: part.state_dict() for name, part in parts.items()} | {"epoch": epoch}, file)
"""
ADAM, SGD = "torch.optim.Adam(model.parameters(), lr=1e-2)", "torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)"


def start(folder, run, steps, intervention, step, until="", **values):
    plan = ProbePlan(folder=str(folder / f"{run}-plan"), intervention=intervention, step=step, values=values)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(folder / run), "--budget", "off"]
    environment = {**os.environ, ENV_END_AFTER: f"{steps},60{until}", ENV_PLAN: str(write_plan(plan))}
    forked.run([*command, "train.py"], cwd=folder, env=environment, check=True)


@pytest.mark.parametrize(
    ("forgotten", "optimizer", "found"),
    [
        ("nothing", ADAM, set()),
        pytest.param("epoch", ADAM, {("counter not restored", "doubtful")}, marks=pytest.mark.suite),
        (
            "moments",
            ADAM,
            {("optimizer's state not restored", "failed"), ("schedule not restored", "failed")},
        ),
        pytest.param("moments", SGD, {("optimizer's state not restored", "doubtful")}, marks=pytest.mark.suite),
        (
            "saving",
            ADAM,
            # and the learning rate, which lies in the optimizer's groups, with them
            {("optimizer's state not restored", "doubtful"), ("schedule not restored", "failed")},
        ),
        pytest.param("schedule", ADAM, {("schedule not restored", "failed")}, marks=pytest.mark.suite),
        pytest.param("weights", ADAM, {("weights not restored", "failed")}, marks=pytest.mark.suite),
    ],
)
@pytest.mark.parametrize("first_steps", [16, pytest.param(9, marks=pytest.mark.suite)])
def test_a_start_that_finds_its_checkpoint_goes_on_from_it(tmp_path, forgotten, optimizer, found, first_steps):
    script = SCRIPT.replace("FORGOTTEN", forgotten).replace("OPTIMIZER", optimizer)
    if optimizer == SGD:  # it has no counter, and a rate would tell
        script = script.replace("gamma=0.5", "gamma=1.0")
    (tmp_path / "train.py").write_text(script)
    start(tmp_path, "run", first_steps, "nothing", 0)
    kept, own = tmp_path / "kept", first_steps > 12
    with Trace(tmp_path / "run") as trace:
        saved = Saved.of(trace, tmp_path)
        hidden = sorted(saved.steps)
        start(tmp_path, "again", 14, "epoch-shortened", 6, keep=str(kept), looks=False, hidden=hidden)
        assert determinism(trace, tmp_path / "again", 6, hidden=True)[0][3].startswith("Two starts agree to the bit")
    assert list(saved.steps.values()) == [12] * own
    assert looked_for(kept, saved) == (own, True)
    assert saved.usable(read_asked(kept), first_steps - 1) is own
    there = (tmp_path / "last.pt").read_bytes() if own else None
    values = {} if own else {"kept": str(kept), "hidden": hidden}
    start(tmp_path, "loaded", 7, "epoch-shortened", 5, **values)
    before = tmp_path / ("run" if own else "again")
    facts = went_on(before, tmp_path / "again", tmp_path / "loaded", None if own else kept, tmp_path)
    assert {(name, outcome) for _, name, outcome, _ in facts if outcome != "passed"} == found, facts
    assert facts
    assert (tmp_path / "last.pt").exists() is own
    assert there is None or (tmp_path / "last.pt").read_bytes() == there


WITHOUT_LOADER = """\
import os, torch
from torch import nn
forgotten, file = "FORGOTTEN", "last.pt"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
step, best = 0, float("inf")
if os.path.isfile(file):
    state = torch.load(file)
    model.load_state_dict(state["model"])
    step = state["step"]
    if forgotten != "moments":
        optimizer.load_state_dict(state["optimizer"])
    if forgotten != "best":
        best = state["best"]
while step < 1000:
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 20 == 0:
        best = min(best, loss.item())
        kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "best": best}
        torch.save(kept | {}, file)
"""


LISTED = (
    (
        "if os.path.isfile(file):\n    state = torch.load(file)",
        "for file in sorted(FOUND)[-1:]:\n    state = torch.load(file)",
    ),
    (" | {}, file)", ' | {}, f"ckpt/last-{step}.pt")'),
    ("import os, torch", "import glob, os, pathlib, torch\nos.makedirs('ckpt', exist_ok=True)"),
)
"""The same script, which names its checkpoints by their steps and looks for the last of them."""


@pytest.mark.parametrize(
    ("forgotten", "found", "by"),
    [
        ("nothing", set(), None),
        pytest.param("best", {("state not restored", "doubtful")}, None, marks=pytest.mark.suite),
        pytest.param("moments", {("optimizer's state not restored", "failed")}, None, marks=pytest.mark.suite),
        ("best", {("state not restored", "doubtful")}, "glob.glob('ckpt/last-*.pt')"),
        pytest.param("nothing", set(), "map(str, pathlib.Path('ckpt').glob('*.pt'))", marks=pytest.mark.suite),
        ("moments", {("optimizer's state not restored", "failed")}, "['ckpt/' + name for name in os.listdir('ckpt')]"),
    ],
)
def test_a_start_without_a_loader_goes_on_to_its_first_checkpoint_and_the_next_from_there(
    tmp_path, forgotten, found, by
):
    script = WITHOUT_LOADER.replace("FORGOTTEN", forgotten)
    for old, new in LISTED if by else ():
        assert old in script
        script = script.replace(old, new.replace("FOUND", str(by)))
    (tmp_path / "train.py").write_text(script)
    kept = tmp_path / "kept"
    start(tmp_path, "again", 14, "epoch-shortened", 6, until=",saved", keep=str(kept), looks=False, hidden=[])
    with Trace(tmp_path / "again") as trace:
        assert trace.sql("SELECT count(*) FROM steps WHERE completed").item() == 23
    assert looked_for(kept, Saved({}, {})) == (False, True)
    start(tmp_path, "loaded", 7, "epoch-shortened", 5, kept=str(kept), hidden=[])
    facts = went_on(tmp_path / "again", tmp_path / "again", tmp_path / "loaded", kept, tmp_path)
    assert {(name, outcome) for _, name, outcome, _ in facts if outcome != "passed"} == found, facts
    assert facts
    assert saved_at(tmp_path / "again", tmp_path / "loaded", tmp_path) == 20
    assert not (tmp_path / "last.pt").exists()


def test_a_hidden_file_is_not_there_until_the_script_saves_it(tmp_path):
    path, other = tmp_path / "last.pt", tmp_path / "other.pt"
    torch.save({"a": 1}, path)
    torch.save({"a": 5}, other)
    with intervened("epoch-shortened", step=0, hidden=[str(path)]):
        assert not path.exists()
        assert not os.path.lexists(path)
        assert [p.name for p in tmp_path.iterdir()] == ["other.pt"]
        assert [e.name for e in os.scandir(tmp_path)] == ["other.pt"]
        assert list(tmp_path.glob("*.pt")) == [other]
        assert glob.glob("*.pt", root_dir=tmp_path) == ["other.pt"]  # noqa: PTH207 — as scripts do it
        for read in (torch.load, builtins.open, lambda p: Path(p).read_bytes()):
            with pytest.raises(FileNotFoundError):
                read(path)
        assert torch.load(other)["a"] == 5
        torch.save({"a": 2}, path)
        assert path.exists()
        assert torch.load(path)["a"] == 2
    assert torch.load(path)["a"] == 1


def test_probes_start_from_scratch_too(reruns_are_forks, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT.replace("OPTIMIZER", ADAM))
    torch.save({}, tmp_path / "last.pt")  # had it been read, the script would have raised
    values = {"hidden": [str(tmp_path / "last.pt")]}
    plan = ProbePlan(folder=str(tmp_path / "probes"), seconds=20.0, probes=["run-length", "repeatable"], values=values)
    assert rerun_script.probe(rerun_script.Script("train.py", folder=tmp_path), plan).wait(120) == 0
    report = read_report(tmp_path / "probes")
    assert report is not None
    assert report.ended == "done"
    assert {r.code: r.values.get("steps") for r in report.results} == {"run-length": 240, "same-bits": None}


def test_what_the_script_asks_for_in_vain_before_it_trains_is_kept(tmp_path):
    kept = tmp_path / "kept"
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], 0.1)
    with intervened("epoch-shortened", step=9, keep=str(kept), looks=False):
        assert not (tmp_path / "last.pt").exists()
        optimizer.step()
        assert not (tmp_path / "later.pt").exists()
        for name in ("last.pt", "later.pt", "unasked.pt"):
            torch.save({}, tmp_path / name)
    assert read_asked(kept) == {str(tmp_path / "last.pt")}
