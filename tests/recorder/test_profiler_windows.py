"""Profiler windows: nothing changes for the training, every step asked for is there, the script's profiler goes first."""

import json
import subprocess
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.recorder.storage import profiler_traces as profiler_files
from firstfault.schemas import Phase
from firstfault.schemas.files.layout import PROFILES, parts, profile_path

STYLES = Path(__file__).parent / "scripts" / "styles.py"

SLOWED_BY_WINDOWS = """
import sys, time, torch
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
slow = 0
for step in range(150):
    opt.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    profiled = torch._C._autograd._profiler_enabled()
    opt.step()
    time.sleep(0.2 if slow > 0 else 0.02)
    slow = 4 * int(sys.argv[1]) if profiled else slow - 1
"""

USES_ITS_OWN = """
import torch
from torch.profiler import ProfilerActivity, profile, schedule
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
def step():
    opt.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    opt.step()
outer = torch.profiler.record_function("begun under one profiler, ended under another")
for i in range(6):
    step()
    if i == 2:
        outer.__enter__()
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2), acc_events=True) as p:
    for _ in range(6):
        step()
        p.step()
        if _ == 3:
            outer.__exit__(None, None, None)
print(len([e for e in p.events() if e.name == "aten::addmm"]))
for _ in range(6):
    step()
"""


def record(run: Path, *arguments: object, script: Path = STYLES) -> subprocess.CompletedProcess[str]:
    options = arguments[:-1] if script is STYLES else arguments
    last = [str(arguments[-1])] if script is STYLES else []
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--quiet",
        "--out",
        str(run),
        *map(str, options),
        str(script),
        *last,
    ]
    return forked.run(command, capture_output=True, text=True, check=True)


def rows(run: Path, table: str) -> list[dict]:
    return [row for part in parts(run, table) for row in pq.read_table(part.path).to_pylist()]


@pytest.mark.parametrize(
    "style",
    [
        "plain",
        *(
            pytest.param(s, marks=pytest.mark.suite)
            for s in ("gan", "lbfgs", "checkpointed", "step_in_backward", "by_hand")
        ),
    ],
)
def test_a_training_that_is_profiled_all_the_time_computes_the_same(style: str, tmp_path: Path) -> None:
    plain = forked.run([sys.executable, STYLES, style], capture_output=True, text=True, check=True)
    run = tmp_path / "run"

    recorded = record(run, "--profile", "every=2", style)

    assert recorded.stdout == plain.stdout
    assert recorded.stderr == plain.stderr
    assert [row["message"] for row in rows(run, "events") if row["event"] == "recorder-fault"] == []
    steps = int(plain.stdout.split()[-1])
    profiled = {row["step"] for row in rows(run, "profiler_events")}
    assert profiled == set(range(2, steps, 2))
    assert list((run / PROFILES).glob("*/*")) == []


def test_operators_know_their_phase_and_module(tmp_path: Path) -> None:
    record(run := tmp_path / "run", "--profile", "3:5", "plain")

    events = rows(run, "profiler_events")
    assert {row["step"] for row in events} == {3, 4}
    linear = {row["module_id"] for row in rows(run, "modules") if row["class_name"] == "Linear"}
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        products = [r for r in events if r["name"] in {"aten::addmm", "aten::mm"} and r["phase"] == phase]
        assert products
        assert {row["module_id"] for row in products} <= linear
    assert any(row["phase"] == Phase.OPTIMIZER and row["cat"] == "cpu_op" for row in events)
    assert all(row["module_id"] is None for row in events if row["cat"] == "recorder")
    assert all(0 <= row["self_ns"] <= row["dur_ns"] for row in events if row["dur_ns"] is not None)


FUNCTIONS = """
import cProfile, sys, torch
from torch import nn
from dataclasses import dataclass

class Ranked(nn.Module):
    def forward(self, x):
        return self.shift(x) + x.sort().values

    def shift(self, x):
        return nn.functional.softplus(x)

model = nn.Sequential(nn.Linear(4, 4), Ranked())
opt = torch.optim.SGD(model.parameters(), 0.1)

def train(x):
    opt.zero_grad()
    model(x).square().mean().backward()
    opt.step()

profile = cProfile.Profile()
if sys.argv[1:]:
    profile.enable()
for _ in range(8):
    train(torch.ones(8, 4))
if sys.argv[1:]:
    profile.disable()
    print(sum(entry.callcount for entry in profile.getstats() if getattr(entry.code, "co_name", "") == "train"))
"""


@pytest.mark.suite
def test_with_stacks_operators_know_the_function_of_the_script_that_called_them(tmp_path: Path) -> None:
    script = tmp_path / "ranked.py"
    script.write_text(FUNCTIONS)

    record(run := tmp_path / "run", "--profile", "3:5,stacks", script=script)

    events = rows(run, "profiler_events")
    callers = {
        (row["name"], row["source"]) for row in events if row["cat"] == "cpu_op" and row["phase"] == Phase.FORWARD
    }
    assert {("aten::sort", "ranked.py(7): forward"), ("aten::softplus", "ranked.py(10): shift")} <= callers
    assert {source for name, source in callers if name == "aten::addmm"} == {"ranked.py(16): train"}
    shown = {row["module_id"]: row["class_name"] for row in rows(run, "modules")}
    assert {shown.get(row["module_id"]) for row in events if row["name"] == "aten::sort"} == {"Ranked"}
    assert any(row["cat"] == "python_function" for row in events)


@pytest.mark.suite
def test_with_stacks_a_profile_function_of_the_script_stays_in_place(tmp_path: Path) -> None:
    script = tmp_path / "ranked.py"
    script.write_text(FUNCTIONS)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run")]

    done = forked.run(
        [*command, "--profile", "every=2,stacks", str(script), "counted"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "8\n"
    events = rows(tmp_path / "run", "profiler_events")
    assert events
    assert {row["source"] for row in events} == {None}


def test_the_profiler_of_the_script_goes_first(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(USES_ITS_OWN)
    plain = forked.run([sys.executable, script], capture_output=True, text=True, check=True)

    recorded = record(run := tmp_path / "run", "--profile", "every=1", script=script)

    assert recorded.stdout == plain.stdout
    assert {row["step"] for row in rows(run, "profiler_events")} == {1, 2, 3, 4, 5}
    assert "profile-left-out" in {row["event"] for row in rows(run, "events")}


def test_a_run_too_short_for_its_budget_has_no_window(tmp_path: Path) -> None:
    record(run := tmp_path / "run", "--profile", "auto", "plain")

    assert rows(run, "profiler_events") == []


@pytest.mark.suite  # counts windows that the time decides: on a busy machine there may be too few
def test_windows_that_slow_the_steps_after_them_come_more_seldom(tmp_path: Path) -> None:
    script = tmp_path / "slowed.py"
    script.write_text(SLOWED_BY_WINDOWS)

    windows = []
    for slowed in (0, 1):
        command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--profile", "auto", "--out"]
        run = tmp_path / str(slowed)
        forked.run([*command, str(run), str(script), str(slowed)], check=True, capture_output=True)
        windows.append(sum(row["event"] == "profiled" for row in rows(run, "events")))

    assert windows[0] >= 2
    assert windows[1] == 1


def test_a_window_that_was_cut_off_is_removed_and_said(tmp_path: Path) -> None:
    path = profile_path(tmp_path, 0, 3)
    path.parent.mkdir(parents=True)
    facts = profiler_files.WindowFacts(rank=0, window=3, steps=[(7, 100)], began_ns=0, tail_ns=100)
    path.with_suffix(".window").write_text(json.dumps({k: getattr(facts, k) for k in facts.__struct_fields__}))
    path.write_text('{"baseTimeNanoseconds": 0, "traceEvents": [{"ph": "X", "na')
    told = []

    profiler_files.convert(tmp_path, told.append)

    assert [(t.facts.window, t.events) for t in told] == [(3, 0)]
    assert list(path.parent.iterdir()) == []


def test_what_cannot_be_true_is_left_out_and_counted() -> None:
    def event(name: str, ts: float, dur: float) -> dict:
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}

    events = [event("whole", 10, 50), event("overlaps", 40, 90), event("before", -9e6, 1), event("backwards", 20, -3)]
    trace = profiler_files.decode(json.dumps({"baseTimeNanoseconds": 0, "traceEvents": events}).encode())
    facts = profiler_files.WindowFacts(rank=0, window=0, steps=[(4, 200_000)], began_ns=0, tail_ns=200_000)

    kept, dropped = profiler_files.rows_of(trace, facts)

    assert [row["name"] for row in kept] == ["whole"]
    assert dropped == 3
