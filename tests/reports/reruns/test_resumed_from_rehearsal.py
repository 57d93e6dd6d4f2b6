"""A start from the checkpoint of a rehearsed epoch: what goes on as it was, and what begins anew."""

import os
import sys

import forked
import pytest
from firstfault.reports.reruns.preflight_resume import resumed
from firstfault.reports.reruns.rerun_script import write_plan
from firstfault.schemas.files.probe_report import ENV_END_AFTER, ENV_PLAN, ProbePlan
from firstfault.schemas.files.rehearsed import not_saved_otherwise

SCRIPT = """\
import copy, os, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
forgotten, file, resume = sys.argv[1], "out/last.pt", sys.argv[2:]
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
parts = {"weights": model, "moments": optimizer, "schedule": scheduler, "average": average}
x = torch.randn(96, 4)
drawn = torch.Generator().manual_seed(1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True, generator=drawn)
start = 0
if resume:
    assert os.path.isfile(file), "no checkpoint"
    state = torch.load(file)
    start = state["epoch"] + 1
    for name, part in parts.items():
        if name != forgotten:
            part.load_state_dict(state[name])
    if forgotten != "data":
        drawn.set_state(state["drawn"])
for epoch in range(start, 20):
    for inputs, targets in loader:
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters()):
                mean.lerp_(weight, 0.1)
    scheduler.step()
    os.makedirs("out", exist_ok=True)
    state = {name: part.state_dict() for name, part in parts.items()}
    torch.save(state | {"epoch": epoch, "drawn": drawn.get_state()}, file)
"""


def start(folder, run, script, steps, plan):
    (folder / script).write_text(SCRIPT)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(folder / run), "--budget", "off"]
    environment = {**os.environ, ENV_END_AFTER: f"{steps},60", ENV_PLAN: str(write_plan(plan))}
    return lambda *args: forked.run([*command, script, *args], cwd=folder, env=environment, check=True)


@pytest.mark.parametrize(
    ("forgotten", "found"),
    [
        ("nothing", [("resume", "passed")]),
        pytest.param("data", [("resume", "passed")], marks=pytest.mark.suite),
        pytest.param("weights", [("weights not restored", "failed")], marks=pytest.mark.suite),
        pytest.param("schedule", [("schedule not restored", "failed")], marks=pytest.mark.suite),
        ("moments", [("optimizer's state not restored", "failed")]),
        ("average", [("copy not restored", "failed")]),
    ],
)
def test_what_a_start_from_the_rehearsed_checkpoint_does_not_restore_is_named(tmp_path, forgotten, found):
    kept = tmp_path / "kept"
    ending = ProbePlan(folder=str(tmp_path / "a"), intervention="epoch-shortened", step=6, values={"keep": str(kept)})
    start(tmp_path, "again", "train.py", 10, ending)(forgotten)
    assert [os.path.relpath(path, tmp_path) for path in not_saved_otherwise(kept)] == ["out/last.pt"]
    back = ProbePlan(folder=str(tmp_path / "b"), intervention="rehearsed-checkpoints", values={"kept": str(kept)})
    start(tmp_path, "loaded", "train.py", 4, back)(forgotten, "resume")
    facts = resumed(tmp_path / "again", tmp_path / "loaded", 6)
    assert {(name, outcome) for _, name, outcome, _ in facts} >= set(found), facts
    assert {outcome for *_, outcome, _ in facts} == {found[0][1]}, facts
    assert ("Its data go on too" in facts[0][3]) is (forgotten == "nothing")
    assert not (tmp_path / "out" / "last.pt").exists()
