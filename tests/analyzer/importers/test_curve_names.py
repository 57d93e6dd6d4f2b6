"""A curve is known by the words of its name, whoever logged it; what is not known is asked for."""

import json
import math
import os
from pathlib import Path

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import Choices, import_files
from firstfault.analyzer.importers.curve_names import best_loss, is_evaluation, parts_of

LOSSES = (
    "loss", "lm loss", "Training Loss", "trainLoss", "reduced_train_loss", "train/CrossEntropyLoss", "nll_loss", "Loss/train",
    "loss_metrics/global_avg_loss", "Train/Samples/train_loss", "loss/train/total", "train_inner/loss", "run - train/loss",
)  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_a_training_is_known_by_its_words(name):
    assert parts_of(name).family == "loss"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("train/box_loss", "term"), ("loss_actor", "player"), ("loss_G", "player"), ("losses/value_loss", "player"),
        ("losses/approx_kl", "other"), ("losses/entropy", "other"), ("loss_metrics/global_max_loss", "other"),
        ("loss_scale", "loss_scale"), ("best_loss", "other"), ("val/loss", "other"), ("eval_loss", "other"),
        ("lr-AdamW", "lr"), ("lr/pg0", "lr"), ("optim/learning_rate_group0", "lr"), ("optim/total_grad_norm", "grad_norm"),
        ("train_gnorm", "grad_norm"), ("grad_norm/layer1.weight", "other"), ("loss_weight", "other"), ("reward", "other"),
    ],
)  # fmt: skip
def test_what_is_no_loss_of_its_own_is_told_apart(name, family):
    assert parts_of(name).family == family


def test_the_loss_of_most_points_counts_then_the_plainest():
    assert best_loss(["train_loss_epoch", "train_loss_step"], [3, 300]) == "train_loss_step"
    assert best_loss(["train/loss_ema", "train/loss"], [9, 9]) == "train/loss"
    assert best_loss(["val/loss", "accuracy"], [9, 9]) is None
    assert is_evaluation("eval_g0_loss")


def run_of(tmp_path: Path, text: str, name: str = "log.csv", choices: Choices | None = None) -> Trace:
    (tmp_path / name).write_text(text)
    import_files([tmp_path / name], tmp_path / "run", "0", choices=choices)
    return Trace(tmp_path / "run")


def test_losses_of_an_actor_and_a_critic_are_two(tmp_path):
    rows = "\n".join(f"{i},{5 + i % 3},{-i / 10}" for i in range(40))
    with run_of(tmp_path, f"step,loss_critic,loss_actor\n{rows}\n") as trace:
        found = trace.sql("SELECT optimizer_id, count(*), min(loss) FROM steps GROUP BY ALL ORDER BY ALL").rows()
        assert found == [(0, 40, 5.0), (1, 40, -3.9)]
        assert trace.sql("SELECT DISTINCT optimizers FROM optimizer_series").rows() == [(2,)]


def test_the_terms_of_a_detector_are_added_up_and_its_rates_are_groups(tmp_path):
    text = "epoch, train/box_loss, train/cls_loss, val/box_loss, lr/pg0, lr/pg1\n" + "".join(
        f"{i}, 1.5, 2.0, 1.6, 0.1, 0.2\n" for i in range(12)
    )
    with run_of(tmp_path, text) as trace:
        assert trace.sql("SELECT DISTINCT loss FROM steps").rows() == [(3.5,)]
        assert trace.sql("SELECT DISTINCT group_id, lr FROM param_groups ORDER BY 1").rows() == [(0, 0.1), (1, 0.2)]
        names = trace.sql("SELECT DISTINCT name FROM metrics ORDER BY 1")["name"].to_list()
        assert names == ["epoch", "train/box_loss", "train/cls_loss", "val/box_loss"]


def test_marks_of_an_unresolved_merge_are_left_out_and_said(tmp_path):
    text = "epoch,loss\n0,3\n<<<<<<< HEAD\n1,2\n=======\n1,2.5\n>>>>>>> 41feda3\n2,1\n"
    with run_of(tmp_path, text) as trace:
        assert trace.sql("SELECT step, loss FROM steps ORDER BY step").rows() == [(0, 3.0), (1, 2.5), (2, 1.0)]
        said = trace.sql("SELECT message FROM events WHERE event = 'lines-left-out'").item()
        assert said.startswith("3 lines of log.csv hold no number")


def test_options_name_the_columns(tmp_path):
    rows = "\n".join(f"{i},{100 - i},{0.1},{i * 2},{9 - i}" for i in range(9))
    choices = Choices(loss=("cost",), step="k", lr=("alpha",), metric=("held",))
    with run_of(tmp_path, f"n,cost,alpha,k,held\n{rows}\n", choices=choices) as trace:
        assert trace.sql("SELECT step, loss FROM steps ORDER BY step LIMIT 2").rows() == [(0, 100.0), (2, 99.0)]
        assert trace.sql("SELECT DISTINCT lr FROM param_groups").item() == 0.1
        assert trace.sql("SELECT DISTINCT name FROM metrics ORDER BY 1")["name"].to_list() == ["eval/held", "n"]


@pytest.mark.parametrize("choices", [Choices(loss=("cots",)), Choices(step="cots"), Choices(metric=("cots",))])
def test_an_option_that_no_column_answers_to_names_those_there_are(tmp_path, choices):
    with pytest.raises(ImportFileError, match=r"--\w+ cots: no file has this column; there are .*cost"):
        run_of(tmp_path, "step,cost\n1,2\n2,3\n", choices=choices)
    assert not (tmp_path / "run").exists()


def test_a_file_without_a_loss_says_what_it_has_and_what_to_type(tmp_path):
    rows = "\n".join(f"{i},{1 + i},0.5" for i in range(9))
    with run_of(tmp_path, f"step,cost,accuracy\n{rows}\n") as trace:
        said = trace.sql("SELECT message FROM events WHERE event = 'loss-not-found'").item()
        assert "accuracy, cost" in said
        assert "--loss" in said
        assert trace.sql("SELECT count(*) FROM steps").item() == 9
        assert diagnose(trace).verdict == "inconclusive"


def test_a_column_of_zeros_is_no_loss(tmp_path):
    rows = "\n".join(f"{i},0.0,{1 + i % 3}" for i in range(40))
    with run_of(tmp_path, f"step,loss,grad_norm\n{rows}\n") as trace:
        assert trace.sql("SELECT count(loss), count(grad_norm) FROM steps").row(0) == (0, 40)


def test_where_only_an_evaluation_was_logged_its_loss_is_judged(tmp_path):
    rows = "\n".join(f"{125 * i},{3 + 7 / (1 + i)}" for i in range(40))
    with run_of(tmp_path, f"step,val_loss\n{rows}\n") as trace:
        assert trace.sql("SELECT count(loss) FROM steps").item() == 40
        assert (
            "val_loss is judged" in trace.sql("SELECT message FROM events WHERE event = 'loss-from-evaluation'").item()
        )
        assert diagnose(trace).verdict == "healthy"


def test_a_run_without_times_has_the_time_of_its_file(tmp_path):
    (tmp_path / "log.csv").write_text("step,loss\n1,2\n2,1\n")
    os.utime(tmp_path / "log.csv", (1_500_000_000, 1_500_000_000))
    manifest = import_files([tmp_path / "log.csv"], tmp_path / "run", "0")
    assert manifest.started_ns == 1_500_000_000 * 10**9


def test_a_gradient_norm_that_is_nan_from_the_first_row_is_a_fault(tmp_path):
    rows = [{"step": 500 * i, "loss": 0.0, "grad_norm": math.nan} for i in range(1, 9)]
    with run_of(tmp_path, json.dumps({"log_history": rows}), "trainer_state.json") as trace:
        verdict = diagnose(trace)
        assert (verdict.causes[0].name, verdict.causes[0].step) == ("unexplained-nonfinite", 500)


def test_a_norm_that_was_never_measured_is_no_fault_of_a_loss_that_falls(tmp_path):
    rows = [{"step": i, "loss": 3.0 / (1 + i), "grad_norm": math.nan} for i in range(30)]
    with run_of(tmp_path, json.dumps({"log_history": rows}), "trainer_state.json") as trace:
        assert diagnose(trace).verdict == "healthy"


PUBLIC = Path(os.environ.get("FIRSTFAULT_REAL_FILES", "not-given")) / "curves"


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="FIRSTFAULT_REAL_FILES names no folder of real curves")
@pytest.mark.parametrize(
    ("name", "verdict", "cause", "step"),
    [
        ("rl_progress_nan_metric.csv", "anomalous", "nonfinite-metric", 1_592_000),
        ("trainer_state_sparse_logging_overfit.json", "anomalous", "overfit", 5600),
        ("trainer_state_b.json", "anomalous", "overfit", 401),
        ("trainer_state_qlora.json", "healthy", None, None),
        ("ultralytics_results.csv", "healthy", "overfit", 5),
    ],
)
def test_curves_of_public_runs_are_judged_as_a_person_reads_them(tmp_path, name, verdict, cause, step):
    import_files([PUBLIC / name], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        found = diagnose(trace)
    assert found.verdict == verdict
    assert [(c.name, c.step) for c in found.causes] == ([(cause, step)] if cause else [])
