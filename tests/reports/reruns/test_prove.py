"""Signs that a proof looks at, and whole proofs: the true cause confirmed, a planted one refuted, nothing when healthy."""

import sys
from pathlib import Path

import firstfault
import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.reports.panels.proof import proof_lines, proof_panel, proof_rows
from firstfault.reports.reruns import rerun_script
from firstfault.reports.reruns.prove import fixes, prove
from firstfault.reports.reruns.prove_signs import is_gone, sign_of
from firstfault.schemas.files.proof import Proof, Tried, read_proof, write_proof


@pytest.fixture
def reruns_are_forks(monkeypatch):
    """Starts of a script again are forks of a process with torch: what is proven does not depend on how it starts."""
    monkeypatch.setattr(
        rerun_script, "_start", lambda command, env, script: forked.Process(command, script.folder, env)
    )


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


@pytest.mark.slow
def test_the_true_cause_is_confirmed_and_a_planted_one_refuted(reruns_are_forks, tmp_path):
    run = demo(tmp_path, "outlier-batch")
    assert prove(run, "lr-spike")[0].proven == {"lr-spike": "refuted"}
    proof, _ = prove(run)
    assert proof.reproduced is True
    assert proof.proven == {"outlier-batch": "confirmed"}
    assert read_proof(run) == proof
    with Trace(run) as trace:
        assert diagnose(trace).causes[0].proof == "confirmed"


@pytest.mark.slow
def test_nothing_is_confirmed_of_a_healthy_run(reruns_are_forks, tmp_path):
    run = demo(tmp_path, "none")
    assert prove(run)[0].proven == {}
    assert "confirmed" not in prove(run, "lr-spike")[0].proven.values()
