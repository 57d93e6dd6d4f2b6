"""`firstfault sql` and `firstfault rules` as a user meets them."""

import json
from typing import Any

import pytest
import typer
from firstfault.analyzer import load_rules
from firstfault.reports.commands.sql_and_rules import register
from typer.testing import CliRunner


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    register(app)
    return app


@pytest.fixture
def run(write_run: Any) -> str:
    rows = [{"step": i, "loss": [1.0, float("nan")][i % 2]} for i in range(4)]
    return str(write_run(steps=rows, modules=[{"module_id": 0, "module": "[red]层[/red]", "class_name": "Net"}]))


def test_a_query_prints_a_table_with_names_unharmed(app: typer.Typer, run: str) -> None:
    result = CliRunner().invoke(app, ["sql", run, "SELECT module FROM modules"])
    assert result.exit_code == 0
    assert "[red]层[/red]" in result.stdout


def test_json_is_one_valid_object_per_row(app: typer.Typer, run: str) -> None:
    result = CliRunner().invoke(app, ["sql", run, "SELECT step, loss FROM steps ORDER BY step", "--json"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows[:2] == [{"step": 0, "loss": 1.0}, {"step": 1, "loss": "nan"}]


def test_csv_has_a_header_and_every_row(app: typer.Typer, run: str) -> None:
    result = CliRunner().invoke(app, ["sql", run, "SELECT step, [step, 1] AS pair FROM steps ORDER BY step", "--csv"])
    assert result.stdout.splitlines()[:2] == ["step,pair", '0,"[0, 1]"']
    assert len(result.stdout.splitlines()) == 5


def test_a_prompt_answers_statement_after_statement_and_survives_a_wrong_one(app: typer.Typer, run: str) -> None:
    typed = "SELECT count(*) AS n\nFROM steps;\nSELECT nonsense;\nSELECT 7 AS seven;\n"
    result = CliRunner().invoke(app, ["sql", run, "--csv"], input=typed)
    assert result.exit_code == 0
    assert result.stdout.split() == ["n", "4", "seven", "7"]
    assert "nonsense" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/no/such/run", "SELECT 1"], "/no/such/run: no such folder"),
        (["RUN", "SELECT nonsense FROM steps"], "nonsense"),
        (["RUN", "SELECT 1", "--csv", "--json"], "not both"),
    ],
)
def test_an_error_is_two_lines_on_stderr_and_status_two(
    app: typer.Typer, run: str, arguments: list[str], says: str
) -> None:
    result = CliRunner().invoke(app, ["sql", *(run if a == "RUN" else a for a in arguments)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.splitlines()) <= 2


def test_the_list_of_rules_names_every_rule(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["rules"], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    assert all(r.header.code in result.stdout and r.header.name in result.stdout for r in load_rules())


@pytest.mark.parametrize("key", ["NU004", "nu004", "fully-masked-attention-row"])
def test_a_rule_is_explained_by_code_or_name(app: typer.Typer, key: str) -> None:
    result = CliRunner().invoke(app, ["rules", key])
    assert result.exit_code == 0
    assert "What:" in result.stdout
    assert "SELECT" in result.stdout
    assert "$sane" in result.stdout


def test_an_unknown_rule_is_an_error(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["rules", "XX999"])
    assert result.exit_code == 2
    assert "no rule is called 'XX999'" in result.stderr
