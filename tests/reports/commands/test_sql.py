"""`firstfault sql` as a user meets it."""

import json
import math
from typing import Any

import pytest
import typer
from firstfault.application import build_app
from typer.testing import CliRunner


@pytest.fixture
def app() -> typer.Typer:
    return build_app("sql")


@pytest.fixture
def run(run_folder: Any) -> str:
    folder = run_folder()
    for step in range(4):
        folder.step(step, loss=[1.0, math.nan][step % 2])
    folder.add("modules", module_id=0, module="[red]层[/red]", class_name="Net")
    return str(folder.write())


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
