"""`firstfault rules` as a user meets it."""

import json

import pytest
import typer
from firstfault.analyzer import load_rules
from firstfault.application import build_app
from typer.testing import CliRunner


@pytest.fixture
def app() -> typer.Typer:
    return build_app("rules")


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


def test_the_rules_are_told_to_machines(app: typer.Typer) -> None:
    told = json.loads(CliRunner().invoke(app, ["rules", "--json"]).stdout)
    assert [rule["code"] for rule in told] == [r.header.code for r in load_rules()]
    one = json.loads(CliRunner().invoke(app, ["rules", "NU004", "--json"]).stdout)
    assert (one["name"], one["layer"]) == ("fully-masked-attention-row", "numerics")
    assert "SELECT" in one["sql"]
