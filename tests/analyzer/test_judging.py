"""A user's own rules and thresholds: in force where they are right, one clear error where they are not."""

from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import RuleError, Trace, diagnose, judging, load_rules

OWN = """/*
code = "XX001"
name = "loss-above-two"
severity = "error"
phase = "loss"
signal = "loss"
message = "The loss is {value} at step {step}."
fix = "Lower it."
[params.limit]
value = 2.0
doc = "Limit."
[needs]
columns = ["steps.loss"]
[doc]
what = "A loss above two."
why = "We do not want it."
not_this = "A loss below."
source = "Ourselves."
*/
SELECT step, rank, loss AS value FROM steps WHERE loss > $limit ORDER BY step
"""


@pytest.fixture
def run(write_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_run(steps=[{"step": i, "loss": 1.0 + i, "grad_norm": 1.0} for i in range(5)])


def own_rule(folder: Path, text: str = OWN) -> Path:
    folder.mkdir()
    (folder / "XX001_loss_above_two.sql").write_text(text)
    return folder


def names(run: Path, **given: Any) -> dict[str, int]:
    with Trace(run) as trace:
        return {f.name: f.step for f in diagnose(trace, judging(run, **given)).causes}


def test_an_own_rule_judges_beside_ours(run: Path, tmp_path: Path) -> None:
    assert names(run, own=own_rule(tmp_path / "mine")) == {"loss-above-two": 2}


def test_a_threshold_of_the_run_folder_is_in_force_and_the_verdict_says_so(run: Path, tmp_path: Path) -> None:
    mine = own_rule(tmp_path / "mine")
    (run / "firstfault.toml").write_text("[rules.XX001]\nlimit = 3.5\n")

    with Trace(run) as trace:
        verdict = diagnose(trace, judging(run, mine))

    assert [f.step for f in verdict.causes] == [3]
    (change,) = verdict.changes
    assert (change.rule, change.parameter, change.value, change.default) == ("loss-above-two", "limit", 3.5, 2.0)
    assert change.file == str(run / "firstfault.toml")


def test_the_file_of_the_current_folder_counts_where_the_run_has_none(run: Path, tmp_path: Path) -> None:
    mine = own_rule(tmp_path / "mine")
    (tmp_path / "firstfault.toml").write_text('[rules]\noff = ["XX001"]\n')

    assert names(run, own=mine) == {}
    assert len(judging(run, mine).rules) == len(load_rules())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[rules.NO999]\nx = 1\n", "no rule is called 'NO999'"),
        ("[rules.OP004]\nnonsense = 1\n", "has no parameter 'nonsense'"),
        ('[rules.OP004]\nratio = "much"\n', "must be like 0.1"),
        ("[rules]\noff = 3\n", "must be a list"),
        ("[rules\n", "cannot be read"),
    ],
)
def test_a_wrong_setting_is_one_error_that_names_the_file(run: Path, text: str, says: str) -> None:
    (run / "firstfault.toml").write_text(text)

    with pytest.raises(RuleError, match=says) as error:
        judging(run)
    assert str(run / "firstfault.toml") in str(error.value)


def test_a_taken_name_a_broken_header_and_an_empty_folder_are_errors(run: Path, tmp_path: Path) -> None:
    taken = own_rule(tmp_path / "taken", OWN.replace("loss-above-two", "loss-spike"))
    with pytest.raises(RuleError, match="is taken"):
        judging(run, taken)
    broken = own_rule(tmp_path / "broken", OWN.replace('severity = "error"', 'severity = "loud"'))
    with pytest.raises(RuleError, match="XX001_loss_above_two"):
        judging(run, broken)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuleError, match="no rule in it"):
        judging(run, tmp_path / "empty")
