"""A user's own rules and thresholds: in force where they are right, one clear error where they are not."""

from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import RuleError, Trace, diagnose, load_rules, rules_for
from firstfault.application import build_app
from typer.testing import CliRunner

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
        return {f.name: f.step for f in diagnose(trace, rules_for(run, **given)).causes}


def test_an_own_rule_judges_beside_ours(run: Path, tmp_path: Path) -> None:
    assert names(run, own=own_rule(tmp_path / "mine")) == {"loss-above-two": 2}


def test_a_threshold_of_the_current_folder_is_in_force_and_the_verdict_says_so(run: Path, tmp_path: Path) -> None:
    mine = own_rule(tmp_path / "mine")
    (tmp_path / "firstfault.toml").write_text("[rules.XX001]\nlimit = 3.5\n")

    with Trace(run) as trace:
        verdict = diagnose(trace, rules_for(run, mine))

    assert [f.step for f in verdict.causes] == [3]
    (change,) = verdict.changes
    assert (change.rule, change.parameter, change.value, change.default) == ("loss-above-two", "limit", 3.5, 2.0)
    assert change.file == str(tmp_path / "firstfault.toml")


@pytest.mark.parametrize(
    ("sought", "found"),
    [
        ('["steps: loss > $limit"]', {"loss-above-two": 2}),
        ('["steps: loss > 100 * $limit"]', {}),
        ('["steps: loss > $limit", "batches: field IS NOT NULL"]', {}),
    ],
)
def test_a_rule_stays_silent_where_the_rows_that_it_seeks_are_missing(
    run: Path, tmp_path: Path, sought: str, found: dict[str, int]
) -> None:
    text = OWN.replace("[params.limit]", f"seeks = {sought}\n[params.limit]")

    assert names(run, own=own_rule(tmp_path / "mine", text)) == found


@pytest.mark.parametrize(
    ("sought", "said"),
    [
        ('["steps loss > 2"]', "XX001_loss_above_two.sql: seeks 'steps loss > 2', which is no `table: condition`"),
        ('["steps: los > 2"]', 'XX001_loss_above_two.sql: Binder Error: Referenced column "los" not found'),
        ('["stebs: loss > 2"]', "XX001_loss_above_two.sql: Catalog Error: Table with name stebs does not exist"),
    ],
)
def test_what_a_rule_seeks_in_the_wrong_words_is_one_error_that_names_its_file(
    run: Path, tmp_path: Path, sought: str, said: str
) -> None:
    mine = own_rule(tmp_path / "mine", OWN.replace("[params.limit]", f"seeks = {sought}\n[params.limit]"))

    with pytest.raises(RuleError) as error:
        names(run, own=mine)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ['[rules]\noff = ["XX001"]\n', "[rules.XX001]\nlimit = 1e9\n", "[rules\n"])
def test_the_file_of_a_run_folder_is_not_in_force_and_the_verdict_says_so(
    run: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = own_rule(tmp_path / "mine")
    (run / "firstfault.toml").write_text(text)
    for here in (tmp_path, run, run / "steps"):
        monkeypatch.chdir(here)
        with Trace(run) as trace:
            verdict = diagnose(trace, rules_for(run, mine))
        assert [f.step for f in verdict.causes] == [2]
        assert verdict.changes == []
        assert any("came with the run" in n.why for n in verdict.not_evaluable)


def test_the_file_of_the_current_folder_counts_where_the_run_has_none(run: Path, tmp_path: Path) -> None:
    mine = own_rule(tmp_path / "mine")
    (tmp_path / "firstfault.toml").write_text('[rules]\noff = ["XX001"]\n')

    assert names(run, own=mine) == {}
    assert len(rules_for(run, mine).rules) == len(load_rules())


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
def test_a_wrong_setting_is_one_error_that_names_the_file(run: Path, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "firstfault.toml").write_text(text)

    with pytest.raises(RuleError, match=says) as error:
        rules_for(run)
    assert str(tmp_path / "firstfault.toml") in str(error.value)


def test_a_taken_name_a_broken_header_and_an_empty_folder_are_errors(run: Path, tmp_path: Path) -> None:
    taken = own_rule(tmp_path / "taken", OWN.replace("loss-above-two", "loss-spike"))
    with pytest.raises(RuleError, match="is taken"):
        rules_for(run, taken)
    broken = own_rule(tmp_path / "broken", OWN.replace('severity = "error"', 'severity = "loud"'))
    with pytest.raises(RuleError, match="XX001_loss_above_two"):
        rules_for(run, broken)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuleError, match="no rule in it"):
        rules_for(run, tmp_path / "empty")


CASES_OF_OWN = """
[[case]]
name = "a loss of three fires"
given.steps = [{ step = "0..2", loss = [1.0, 1.5, 3.0] }]
expect = [{ step = 2, value = 3.0 }]
says = ["The loss is 3"]

[[case]]
name = "a loss of one is silent"
given.steps = [{ step = "0..2", loss = 1.0 }]
expect = []
"""


def run_cases(folder: Path, cases: str | None) -> tuple[int, str]:
    if cases is not None:
        (folder / "XX001_loss_above_two.cases.toml").write_text(cases)
    done = CliRunner().invoke(build_app("rules"), ["rules", "--test", str(folder)])
    return done.exit_code, done.output


def test_the_cases_of_own_rules_are_run(tmp_path: Path) -> None:
    code, said = run_cases(own_rule(tmp_path / "mine"), CASES_OF_OWN)

    assert (code, said.count("ok ")) == (0, 2), said
    assert "2 cases hold" in said


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (CASES_OF_OWN.replace("step = 2, value", "step = 1, value"), "step is 2, expected 1"),
        (CASES_OF_OWN.replace("loss = 1.0", "loss = 7.0"), "should be silent, but fired"),
        (CASES_OF_OWN.replace("loss = 1.0", "los = 1.0"), "steps has no column los"),
        (CASES_OF_OWN.replace("given.steps", "given.stops"), "there is no table 'stops'"),
        (None, "needs a case that fires and one that stays silent"),
    ],
)
def test_a_case_that_does_not_hold_is_said_and_fails(tmp_path: Path, cases: str | None, said: str) -> None:
    code, output = run_cases(own_rule(tmp_path / "mine"), cases)

    assert code == 1
    assert said in output


def test_a_file_of_cases_that_is_no_toml_is_one_clear_error(tmp_path: Path) -> None:
    code, output = run_cases(own_rule(tmp_path / "mine"), "[[case")

    assert code == 2
    assert "XX001_loss_above_two.cases.toml: cannot be read" in output
    assert "Traceback" not in output
