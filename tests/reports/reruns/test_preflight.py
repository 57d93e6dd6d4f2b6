"""The answer of a preflight, its words and its page; and whole preflights of scripts with a fault and of their twins."""

import ast
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import firstfault
import forked
import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.language import speaking
from firstfault.reports.reruns.preflight import AREA_OF, AREAS, PROBES, Check, Preflight, _missing
from firstfault.reports.reruns.preflight import preflight as whole_preflight
from firstfault.reports.reruns.preflight_facts import cost, data, determinism, resume
from firstfault.reports.reruns.preflight_page import draw, render_preflight
from firstfault.reports.reruns.probe_words import SENTENCES, probe_sentence
from firstfault.reports.reruns.rerun_script import Script, probe, record
from firstfault.schemas import Phase
from firstfault.schemas.files.probe_report import Picture, ProbePlan, ProbeResult, read_report

ROOT = Path(firstfault.__file__).parent
SCRIPTS = Path(__file__).parents[1] / "preflight_scripts"
OUTCOMES = {"passed", "doubtful", "failed", "untried"}


def codes_of(file: Path) -> set[str]:
    """Strings with a hyphen that are given to result() or untried() as code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"result", "untried"}:
            for argument in node.args[1:3]:
                found |= {
                    c.value for c in ast.walk(argument) if isinstance(c, ast.Constant) and isinstance(c.value, str)
                }
    return found - OUTCOMES


def test_every_code_of_a_probe_has_its_sentence():
    codes = {code for file in (ROOT / "recorder" / "probes").glob("*.py") for code in codes_of(file)}
    assert len(codes) > 50
    assert codes <= set(SENTENCES)
    assert set(PROBES) <= set(AREA_OF)
    assert set(AREA_OF.values()) <= set(AREAS)


def test_a_sentence_is_filled_in_both_languages():
    found = ProbeResult(probe="dependence-sample", outcome="failed", code="sample-leaks")
    found.values = {"changed": 3, "samples": 8, "others": 7}
    assert probe_sentence(found) == "Changing sample 3 of 8 changed the outputs of 7 others: dimensions are mixed up."
    with speaking("zh"):
        assert "维度混淆" in probe_sentence(found)


def flight(broken_run, *outcomes, **kwargs):
    run = broken_run.write()
    with Trace(run) as trace:
        verdict = diagnose(trace)
    checks = [Check("learning", f"c{i}", outcome, f"<b>{outcome}</b>") for i, outcome in enumerate(outcomes)]
    return Preflight("train.py", run, 30, 12.0, checks, verdict, kwargs.get("pictures", []))


@pytest.mark.parametrize(
    ("outcomes", "answer"),
    [
        (["passed", "untried"], "go"),
        (["passed", "doubtful"], "doubtful"),
        (["doubtful", "failed", "passed"], "stop"),
    ],
)
def test_the_worst_check_is_the_answer(broken_run, outcomes, answer):
    assert flight(broken_run, *outcomes).answer == answer


def test_the_page_has_every_area_the_batch_and_no_markup_of_strangers(broken_run):
    picture = Picture(name="<i>x</i>", shape=[2, 1, 8, 8], dtype="float32", png=["AAAA"])
    html = render_preflight(flight(broken_run, "failed", pictures=[picture]))
    assert all(f'id="area-{i + 1}"' in html for i in range(len(AREAS)))
    assert "<b>failed" not in html
    assert "<i>x" not in html
    assert 'src="data:image/png;base64,AAAA"' in html
    with speaking("zh"):
        assert "不要就这样启动它" in render_preflight(flight(broken_run, "failed"))


def test_a_curve_of_learning_rates_is_drawn_over_their_logarithm():
    curve = [(10.0**i, float(i)) for i in range(-4, 1)]
    drawing = draw(Check("learning rate", "lr-range", "passed", "", curve))
    assert drawing is not None
    assert drawing.points.split()[1].startswith("80.0,")
    assert (drawing.left, drawing.right) == ("0.0001", "1")
    assert draw(Check("learning", "can-learn", "passed", "", curve[:2])) is None


def preflight(folder: Path, script: str, *args: str) -> tuple[int, dict]:
    return preflight_of(folder, SCRIPTS / script, *args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "fault", "check"),
    [
        ("images.py", "none", None),
        pytest.param("images.py", "view-mixes-samples", "dependence-sample", marks=pytest.mark.suite),
        pytest.param("sequences.py", "none", None, marks=pytest.mark.suite),
        pytest.param("sequences.py", "wrong-backward", "gradcheck", marks=pytest.mark.suite),
        pytest.param("language.py", "none", None, marks=pytest.mark.suite),
        ("language.py", "mask-forgotten", "dependence-future"),
        pytest.param("adversarial.py", "none", None, marks=pytest.mark.suite),
    ],
)
def test_a_script_with_a_fault_is_stopped_at_the_right_check_and_its_twin_may_go(tmp_path, script, fault, check):
    status, said = preflight(tmp_path, script, "--fault", fault)
    failed = {c["name"] for c in said["checks"] if c["outcome"] == "failed"}
    if check is None:
        assert (status, said["answer"], failed) == (0, "go", set())
    else:
        assert (status, said["answer"]) == (1, "stop")
        assert check in failed
    assert Path(said["page"]).exists()


TRAINING = """\
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.BatchNorm1d(8), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
step = 0
try:
    for _ in range(100):
        for x, y in DataLoader(data, 16, shuffle=True):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            step += 1
            if step == int(sys.argv[2]):
                torch.save([loss.detach(), *model.state_dict().values()], sys.argv[1])
except SystemExit:
    open(sys.argv[1] + ".ended", "w").close()
    raise
"""


@pytest.mark.slow
def test_the_scripts_own_steps_are_the_same_bits_and_it_is_ended_cleanly(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    plain = forked.run([sys.executable, str(script), str(tmp_path / "plain"), "9"], capture_output=True, check=False)
    assert plain.returncode == 0
    status, said = preflight_of(tmp_path, script, str(tmp_path / "flown"), "9")
    assert said["steps"] == 12
    assert status in {0, 3}
    assert (tmp_path / "flown.ended").exists()
    one, two = torch.load(tmp_path / "plain"), torch.load(tmp_path / "flown")
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def preflight_of(folder: Path, script: Path, *args: str) -> tuple[int, dict]:
    command = [sys.executable, "-m", "firstfault", "preflight", "--steps", "12", "--seconds", "30", "--json"]
    done = forked.run(
        [*command, "--out", str(folder / "out"), str(script), *args], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def seeded(run, seeded_: bool, last: float, **generators: int):
    run.add("ranks", world_size=1, seeded=seeded_, **generators)
    for step in range(6):
        run.step(step, loss=1.0 if step < 5 else last)
    return run.write()


@pytest.mark.parametrize(
    ("is_seeded", "last", "outcome", "words"),
    [
        (True, 1.0, "passed", "to the bit"),
        (True, 0.5, "doubtful", "something else draws"),
        (False, 0.5, "passed", "No seed is set"),
    ],
)
def test_two_starts_of_a_seeded_script_must_agree(run_folder, is_seeded, last, outcome, words):
    one, two = seeded(run_folder("one"), is_seeded, 1.0), seeded(run_folder("two"), is_seeded, last)
    with Trace(one) as trace:
        ((_, _, found, said),) = determinism(trace, two)
    assert found == outcome, said
    assert words in said


@pytest.mark.parametrize(("others", "outcome"), [((7, 8), "passed"), ((7, 7), "doubtful")])
def test_a_seed_that_does_not_reach_torch_is_doubted(run_folder, others, outcome):
    one, two = (seeded(run_folder(str(i)), False, 1.0 - i / 2, python_rng=n, numpy_rng=i) for i, n in enumerate(others))
    with Trace(one) as trace:
        ((_, _, found, said),) = determinism(trace, two)
    assert found == outcome, said
    assert ("seeds random, but not torch" in said) == (outcome == "doubtful")


RESUMED = """\
import os, sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
file, resume = sys.argv[1], sys.argv[2:]
if resume:
    state = torch.load(file)
    model.load_state_dict(state["model"])
    if resume[0] == "all":
        optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
for step in range(200):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step == 9 and not resume:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
        torch.save(state, file)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "outcome"), [("all", "passed"), ("weights", "failed"), ("gone", "untried")])
def test_a_second_start_that_leaves_the_optimizers_state_out_is_found(tmp_path, how, outcome):
    script = tmp_path / "train.py"
    script.write_text(RESUMED)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run"), str(script)]
    environment = {**os.environ, "FIRSTFAULT_END_AFTER": "12,60"}
    forked.run([*command, str(tmp_path / "c.pt")], capture_output=True, check=True, env=environment)
    command[command.index("--out") : command.index("--out") + 2] = ["--resume", str(tmp_path / "run")]
    if how == "gone":
        (tmp_path / "c.pt").unlink()
    forked.run([*command, str(tmp_path / "c.pt"), how], capture_output=True, check=how != "gone", env=environment)
    found = resume(tmp_path / "run")
    assert {outcome} == {f[2] for f in found}, found


SLOW_DATA = """\
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, i):
        time.sleep(float(sys.argv[1]))
        return torch.randn(4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in DataLoader(Rows(), batch_size=8):
    optimizer.zero_grad(); model(x).square().mean().backward(); optimizer.step()
"""


@pytest.mark.parametrize(("seconds", "doubted"), [("0.01", True), ("0", False)])
def test_steps_that_wait_for_their_data_are_doubted(tmp_path, seconds, doubted):
    script = tmp_path / "train.py"
    script.write_text(SLOW_DATA)
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
        str(script),
        seconds,
    ]
    forked.run(command, check=True)
    with Trace(tmp_path / "run") as trace:
        found = {name: outcome for _, name, outcome, _ in cost(trace, None)}
    assert found.get("waiting for data") == ("doubtful" if doubted else None)
    assert found["time"] == "passed"


@pytest.mark.parametrize(
    ("paths", "free", "removes", "outcome", "said"),
    [
        ("abc", 10**6, False, "doubtful", "5 of them in 50 steps take 5 MB"),
        ("abc", 10**9, False, "passed", "5 of them in 50 steps take 5 MB"),
        ("abc", 10**6, True, "passed", "if none is removed"),
        ("aaa", 10**6, False, "passed", "A checkpoint takes 1 MB."),
        (["az", "bz", "cz"], 10**6, False, "doubtful", "5 of them in 50 steps take 5 MB"),
        (["az", "z", "z"], 10**6, False, "passed", "A checkpoint takes 1 MB."),
    ],
)
def test_checkpoints_to_come_are_held_against_the_free_disk(
    run_folder, monkeypatch, paths, free, removes, outcome, said
):
    run = run_folder()
    for step in range(30):
        run.step(step, loss=1.0)
    for i, saved in enumerate(paths):
        for path in saved:
            run.add("checkpoints", step=10 * i + 9, action="saved", path=path, bytes=10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    read = ProbeResult(
        probe="run-length", outcome="passed", code="run-length", values={"steps": 50, "removes": removes}
    )
    with Trace(run.write()) as trace:
        found = {name: (outcome, words) for _, name, outcome, words in cost(trace, None, read)}
    assert found["checkpoints"][0] == outcome
    assert said in found["checkpoints"][1]


@pytest.mark.parametrize(
    ("paths", "outcome"),
    [(("1.pt", "2.pt"), "doubtful"), (("last.pt", "last.pt"), None), (("1.pt",), None)],
)
def test_a_file_for_each_epoch_is_held_against_the_free_disk_where_ends_were_rehearsed(
    run_folder, monkeypatch, paths, outcome
):
    first, again = run_folder("first"), run_folder("again")
    for run in (first, again):
        for step in range(12):
            run.step(step, loss=1.0)
            run.add("batches", step=step, seq=0, phase=0, loader_id=0, loader_batches=40)
    for i, path in enumerate(paths):
        again.add("checkpoints", step=6 + 4 * i, action="saved", path=path, bytes=10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**8))
    read = ProbeResult(probe="run-length", outcome="passed", code="run-length", values={"steps": 4000})
    second = again.write()
    with Trace(first.write()) as trace:
        found = {name: (outcome, words) for _, name, outcome, words in cost(trace, None, read, second)}
    assert found.get("checkpoints", (None, ""))[0] == outcome
    if outcome:
        assert "100 of them in 4000 steps" in found["checkpoints"][1]


@pytest.mark.parametrize(("second", "outcome"), [("a0", "doubtful"), ("a1", None)])
def test_workers_that_begin_each_epoch_alike_are_a_question_before_a_long_run(run_folder, second, outcome):
    run = run_folder()
    for step in range(16):
        run.step(step, loss=1.0)
        place = {"loader_id": 0, "epoch": step // 8, "batch_index": step % 8}
        run.add("batches", step=step, seq=1, phase=int(Phase.DATA), field="0", shape=[8, 4], fingerprint=step, **place)
    for epoch, before in enumerate(["a0", second]):
        fact = {"loader_id": 0, "epoch": epoch, "worker": 0, "samples": 8, "generator": "numpy.random"}
        detail = json.dumps(fact | {"before": before, "after": "b" + before})
        run.add("events", step=8 * epoch, event="worker-randomness", message="-", detail=detail)
    with Trace(run.write()) as trace:
        found = {name: outcome for _, name, outcome, _ in data(trace, diagnose(trace))}
    assert found.get("identical-worker-randomness") == outcome


ENDLESS = """\
import sys, time, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000000):
    model.zero_grad()
    nn.functional.mse_loss(model(torch.ones(8, 4)), torch.ones(8, 1)).backward()
    if sys.argv[1] == "by-hand":
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
        time.sleep(0.05)
        continue
    optimizer.step()
    if step == 4:
        with torch.no_grad():
            while True:
                model(torch.ones(8, 4))
                time.sleep(0.01)
"""


@pytest.mark.parametrize(("how", "ended"), [("by-hand", "no-loop"), ("evaluates", "time")])
def test_a_probed_process_ends_when_its_time_is_over_whatever_the_script_does(reruns_are_forks, tmp_path, how, ended):
    script = tmp_path / "train.py"
    script.write_text(ENDLESS)
    plan = ProbePlan(folder=str(tmp_path / "probes"), seconds=2.0, probes=["can-learn"])
    process = probe(Script(str(script), (how,)), plan)
    try:
        assert process.wait(120) == 0
    finally:
        process.kill()
    report = read_report(tmp_path / "probes")
    assert report is not None
    assert report.ended == ended


TENSORS = """\
import torch
torch.manual_seed(0)
weight = torch.zeros(4, 1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
for step in range(500):
    optimizer.zero_grad()
    (torch.ones(8, 4) @ weight - 1).square().mean().backward()
    optimizer.step()
    schedule.step()
"""


def test_of_tensors_that_train_without_a_module_loops_and_schedules_are_read(reruns_are_forks, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TENSORS)
    values = {"schedule_by_step": True}
    plan = ProbePlan(folder=str(tmp_path / "probes"), probes=["run-length", "schedule", "can-learn"], values=values)
    assert probe(Script(str(script)), plan).wait(120) == 0
    report = read_report(tmp_path / "probes")
    assert report is not None
    assert report.ended == "no-module"
    found = {r.probe: r for r in report.results}
    assert found.keys() == {"run-length", "schedule"}
    assert found["run-length"].values["steps"] == 500
    assert found["schedule"].outcome == "doubtful"  # it rises again ten times
    assert "nn.Module" in _missing("learning", report).words


def test_a_recording_ends_within_an_evaluation_when_its_time_is_over(reruns_are_forks, tmp_path):
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(ENDLESS)
    process = record(Script(str(script), ("evaluates",)), run, steps=30, seconds=2.0)
    try:
        assert process.wait(120) == 0
    finally:
        process.kill()
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) AS n FROM events WHERE event = 'ended-early'").item() == 1
        assert trace.sql("SELECT max(step) AS s FROM steps WHERE completed").item() == 4


def test_steps_too_slow_for_a_trial_are_not_tried_and_the_answer_says_so(reruns_are_forks, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(
        "import time, torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "for _ in range(100):\n    optimizer.zero_grad()\n    loss = model(torch.randn(8, 4)).square().mean()\n"
        "    loss.backward()\n    time.sleep(1.2)\n    optimizer.step()\n",
        "utf-8",
    )
    found = whole_preflight(Script(str(script)), tmp_path / "flight", steps=30, seconds=2.0)
    assert 1 <= found.steps <= 3
    assert found.seconds < 15
    assert {c.outcome for c in found.of("learning")} == {"untried"}
    assert "give more --seconds" in found.of("learning")[0].words
    assert found.answer == "doubtful"
