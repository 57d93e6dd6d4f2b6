"""Signs that a proof looks at, and whole proofs: the true cause confirmed, a planted one refuted, nothing when healthy."""

import sys
from pathlib import Path

import firstfault
import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.reports.panels.proof import proof_lines, proof_panel, proof_rows
from firstfault.reports.reruns import prove as proving
from firstfault.reports.reruns.prove import Prover, fixes, prove
from firstfault.reports.reruns.prove_signs import Sign, is_gone, sign_of
from firstfault.schemas.files.proof import Proof, Tried, read_proof, write_proof

SCRIPT = Path(firstfault.__file__).parent / "reports" / "demo_script" / "train_gpt.py"


def losses(run, values, **columns):
    for step, value in enumerate(values):
        run.step(step, loss=value, **columns)
    return run.write()


def test_a_loss_that_is_lost_is_a_sign_that_goes_away_where_it_stays_finite(run_folder):
    with Trace(losses(run_folder(), [1.0] * 8 + [float("nan")] * 4)) as trace:
        sign = sign_of(trace, 8)
    assert (sign.kind, sign.step) == ("nonfinite", 8)
    with Trace(losses(run_folder(), [1.0] * 12)) as trace:
        assert is_gone(sign, trace, last=11)[0] is True
    with Trace(losses(run_folder(), [1.0] * 9 + [float("nan")])) as trace:
        assert is_gone(sign, trace, last=9)[0] is False


def test_a_jump_is_measured_from_the_median_before_it(run_folder):
    usual = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.0]
    with Trace(losses(run_folder(), [*usual, 9.0, 8.0, 7.0])) as trace:
        sign = sign_of(trace, 8)
    assert (sign.kind, sign.step, sign.value) == ("jump", 8, pytest.approx(8.0))
    with Trace(losses(run_folder(), [*usual, 1.1, 1.0, 1.0])) as trace:
        assert is_gone(sign, trace, last=10)[0] is True
    with Trace(losses(run_folder(), [*usual, 8.0, 7.0, 6.0])) as trace:
        assert is_gone(sign, trace, last=10)[0] is False


def test_a_jump_is_seen_in_a_loss_that_falls_and_in_the_gradients(run_folder):
    falling = [6.0, 5.2, 4.6, 4.1, 3.8, 3.5, 3.2, 3.1, 3.0, 2.9]
    with Trace(losses(run_folder(), [*falling, 5.0, 2.9, 2.8])) as trace:
        assert sign_of(trace, 10).kind == "jump"
    run = run_folder()
    for step in range(14):
        run.step(step, loss=3.0 - 0.1 * step, grad_norm=23.0 if step == 10 else 1.0 + 0.1 * (step % 3))
    with Trace(run.write()) as trace:
        sign = sign_of(trace, 10)
    assert (sign.kind, round(sign.value)) == ("gradient", 19)
    with Trace(losses(run_folder(), falling)) as trace:
        assert sign_of(trace, 8).kind == "learning"


def test_a_healthy_run_has_no_sign_but_what_it_has_learnt(run_folder):
    with Trace(losses(run_folder(), [1.0 - 0.05 * i for i in range(12)])) as trace:
        assert sign_of(trace, 8).kind == "learning"


def test_a_loss_that_falls_somewhat_faster_proves_nothing(run_folder):
    flat = [1.0 - 0.01 * i for i in range(12)]
    with Trace(losses(run_folder(), flat)) as trace:
        sign = sign_of(trace, 0, "learning")
    for faster, gone in ((0.06, True), (0.013, None), (0.005, False)):
        with Trace(losses(run_folder(), [1.0 - faster * i for i in range(12)])) as trace:
            assert is_gone(sign, trace, last=11)[0] is gone


def test_a_rerun_that_ends_before_the_place_says_nothing(run_folder):
    with Trace(losses(run_folder(), [1.0] * 8 + [float("nan")] * 4)) as trace:
        sign = sign_of(trace, 8)
    with Trace(losses(run_folder(), [1.0] * 3)) as trace:
        assert is_gone(sign, trace, last=11)[0] is None


def norms(run, values, loss=1.0):
    for step, value in enumerate(values):
        run.step(step, loss=loss, grad_norm=value)
    return run.write()


def test_a_batch_that_teaches_nothing_is_a_sign_that_goes_away_with_its_gradients(run_folder):
    with Trace(norms(run_folder("bad"), [*[1.0, 1.2] * 6, 0.0, 1.0, 1.1])) as trace:
        sign = sign_of(trace, 12)
    assert (sign.kind, sign.step) == ("dip", 12)
    for there, gone in ((1.1, True), (0.01, False)):
        with Trace(norms(run_folder(str(there)), [*[1.0, 1.2] * 6, there, 1.0, 1.1])) as trace:
            assert is_gone(sign, trace, last=14)[0] is gone


def test_gradients_of_the_last_third_are_compared_with_those_of_the_run(run_folder):
    with Trace(norms(run_folder("bad"), [float(i) for i in range(30)])) as trace:
        sign = sign_of(trace, 5, "size")
    assert sign.value == 24.5
    for size, gone in ((8.0, True), (18.0, None), (24.0, False)):
        with Trace(norms(run_folder(str(size)), [size] * 30)) as trace:
            assert is_gone(sign, trace, last=29)[0] is gone


def test_a_loss_that_moves_away_from_zero_is_told_from_one_that_comes_near(run_folder):
    with Trace(losses(run_folder("bad"), [-2.0 - i for i in range(18)])) as trace:
        sign = sign_of(trace, 0, "away")
    assert sign.value == pytest.approx(18 / 3)
    for by, gone in ((0.1, True), (-1.0, False), (9.0, None)):
        with Trace(losses(run_folder(str(by)), [-2.0 + by * i for i in range(18)])) as trace:
            assert is_gone(sign, trace, last=17)[0] is gone


def weights(run, kind, moving, zeros=0):
    """Three tensors, of which some move, and updates with elements that stay as they are."""
    for step in range(12):
        run.step(step, loss=1.0)
        for i in range(3):
            value = float(step if i < moving else 1)
            run.add(
                "tensor_stats", step=step, seq=i, tensor_id=i, numel=10, sum=value, sum_sq=value, microbatch=0, phase=3
            )
            run.add(
                "tensor_stats", step=step, seq=9, tensor_id=10 + i, numel=10, zero_count=zeros, microbatch=0, phase=3
            )
    for i in range(3):
        run.add("tensors", tensor_id=i, tensor_name=f"a{i}", kind=kind)
        run.add("tensors", tensor_id=10 + i, tensor_name=f"a{i}", kind="update")
    return run.write()


def test_what_does_not_move_is_counted_until_it_moves(run_folder):
    kind = "parameter"
    with Trace(weights(run_folder("bad"), kind, 1)) as trace:
        sign = sign_of(trace, 0, "still")
    assert sign.value == 2
    for moving, gone in ((3, True), (1, False)):
        with Trace(weights(run_folder(f"m{moving}"), kind, moving)) as trace:
            assert is_gone(sign, trace, last=11)[0] is gone
    with Trace(weights(run_folder("healthy"), kind, 3)) as trace:
        assert sign_of(trace, 0, "still").value is None


def test_weights_that_steps_leave_as_they_are_are_a_share(run_folder):
    with Trace(weights(run_folder("bad"), "parameter", 3, zeros=9)) as trace:
        sign = sign_of(trace, 0, "unchanged")
    assert sign.value == pytest.approx(0.9)
    for zeros, gone in ((1, True), (9, False)):
        with Trace(weights(run_folder(f"z{zeros}"), "parameter", 3, zeros=zeros)) as trace:
            assert is_gone(sign, trace, last=11)[0] is gone


def test_gradients_that_are_zero_are_a_share(run_folder):
    runs = {}
    for zeros in (9, 1, 7):
        run = runs[zeros] = run_folder(f"z{zeros}")
        for step in range(12):
            run.step(step, loss=1.0)
            run.add("tensor_stats", step=step, seq=1, tensor_id=0, numel=10, zero_count=zeros, microbatch=0, phase=3)
        run.add("tensors", tensor_id=0, tensor_name="a", kind="gradient")
        run.write()
    with Trace(runs[9].path) as trace:
        sign = sign_of(trace, 0, "zeros")
    assert sign.value == pytest.approx(0.9)
    for zeros, gone in ((1, True), (9, False), (7, None)):
        with Trace(runs[zeros].path) as trace:
            assert is_gone(sign, trace, last=11)[0] is gone


@pytest.mark.parametrize(
    ("name", "gone", "result"),
    [
        ("lr-spike", [False], False),
        ("lr-spike", [None], None),
        ("lr-spike", [True], True),
        ("nonfinite-input", [False, None], None),
        ("norm-overflow", [False, False], None),
        ("norm-overflow", [False, True], True),
    ],
)
def test_what_is_in_between_or_one_way_of_several_refutes_nothing(monkeypatch, broken_run, name, gone, result):
    monkeypatch.setattr(proving, "script_of", lambda trace: None)
    prover = Prover(broken_run.write(), 60, lambda _: None)
    outcomes = iter(gone)
    monkeypatch.setattr(
        prover,
        "_try",
        lambda n, sign, step: Tried(intervention=n, step=step, sign=sign.kind, value=None, gone=next(outcomes)),
    )
    finding = prover._candidates(name)[0]
    assert prover._judge(finding, fixes()[name], Sign("nonfinite", 30, 1.0)) is result


def test_only_what_comes_after_a_snapshot_is_looked_at(run_folder):
    with Trace(losses(run_folder("bad"), [1.0] * 20 + [float("nan")] * 4)) as trace:
        sign = sign_of(trace, 20)
    with Trace(losses(run_folder("again"), [float("nan")] * 2 + [1.0] * 22)) as trace:
        assert is_gone(sign, trace, last=23)[0] is False
        assert is_gone(sign, trace, last=23, since=1)[0] is True


def test_a_refuted_cause_gives_way_to_the_next(broken_run):
    run = broken_run.write()
    with Trace(run) as trace:
        causes = [c.name for c in diagnose(trace).causes]
        write_proof(run, Proof(reproduced=True, sign="nonfinite", step=30, value=1.0, proven={causes[0]: "refuted"}))
        after = diagnose(trace).causes
    assert [c.proof for c in after if c.name == causes[0]] == ["refuted"]
    assert after[-1].name == causes[0]


def test_the_report_shows_what_was_tried(broken_run):
    run = broken_run.write()
    tried = [
        Tried(intervention="nothing", step=0, sign="nonfinite", value=3.0, gone=False),
        Tried(intervention="batch-replaced", step=30, sign="nonfinite", value=None, gone=True, values={"samples": [5]}),
    ]
    proof = Proof(
        reproduced=True, sign="nonfinite", step=30, value=3.0, tried=tried, proven={"x": "confirmed"}, smallest=[5]
    )
    write_proof(run, proof)
    with Trace(run) as trace:
        panel = proof_panel(trace, 0, None, None)
    assert panel is not None
    assert panel.facts == [("x", "confirmed")]
    assert proof_rows(proof)[1] == ["batch-replaced [5]", "30", "nonfinite", "gone"]
    assert "samples of the batch: 5" in " ".join(proof_lines(proof))


def test_every_cause_that_has_interventions_has_one_that_confirms_it():
    assert len(fixes()) >= 30
    assert all(fix.confirm for fix in fixes().values())


def demo(folder: Path, fault: str) -> Path:
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(folder / fault), str(SCRIPT)]
    command += ["--fault", fault, "--fault-step", "24", "--steps", "30"]
    forked.run(command)
    return folder / fault


SMALL = """
import sys, torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(480, 8)
y = x[:, :1] * 2
if len(sys.argv) > 1:
    x[int(sys.argv[1])] = 1e6
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for i in range(0, 480, 16):
    loss = nn.functional.mse_loss(model(x[i : i + 16]), y[i : i + 16])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def small(folder: Path, *args: str) -> Path:
    """A recorded run of the small script; with an argument this sample is an outlier."""
    (folder / "train.py").write_text(SMALL)
    run = folder / "run"
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, folder / "train.py", *args])
    return run


@pytest.mark.suite
@pytest.mark.slow
def test_the_cause_of_the_demo_is_confirmed(reruns_are_forks, tmp_path):
    assert prove(demo(tmp_path, "outlier-batch"))[0].proven == {"outlier-batch": "confirmed"}


def test_the_true_cause_is_confirmed(reruns_are_forks, tmp_path):
    run = small(tmp_path, "390")
    proof, _ = prove(run)
    assert proof.reproduced is True
    assert proof.proven == {"outlier-batch": "confirmed"}
    assert read_proof(run) == proof
    with Trace(run) as trace:
        assert diagnose(trace).causes[0].proof == "confirmed"


@pytest.mark.suite
@pytest.mark.slow
def test_a_planted_cause_is_refuted(reruns_are_forks, tmp_path):
    assert prove(demo(tmp_path, "outlier-batch"), "lr-spike")[0].proven == {"lr-spike": "refuted"}


def test_nothing_is_confirmed_of_a_healthy_run(reruns_are_forks, tmp_path):
    assert prove(small(tmp_path))[0].proven == {}


@pytest.mark.suite
@pytest.mark.slow
def test_nor_of_the_healthy_demo(reruns_are_forks, tmp_path):
    assert prove(demo(tmp_path, "none"))[0].proven == {}


@pytest.mark.suite
@pytest.mark.slow
def test_nor_is_a_cause_that_was_planted_in_it(reruns_are_forks, tmp_path):
    assert "confirmed" not in prove(demo(tmp_path, "none"), "lr-spike")[0].proven.values()
