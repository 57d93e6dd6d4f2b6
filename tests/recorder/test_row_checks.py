"""A column or table that is not declared raises in tests, and is an event in the field."""

import ast
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from firstfault.recorder.attach import current
from firstfault.recorder.session import row_checks, session
from firstfault.recorder.session.row_checks import RowError
from firstfault.schemas import TABLES
from torch import nn

RECORDER = Path(session.__file__).parents[1]


def train(run: Path, listener) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(run, model=model):
        attachment = current()
        attachment.session.signals.row_ends.connect("misspelt", lambda: listener(attachment.session))
        try:
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
        except RowError:
            attachment.detach()  # the end of a recording that raises has taken nothing out of torch
            raise


def misspelt_column(session):
    session.rows.add("probes", modul_id=3)


def misspelt_table(session):
    session.rows.add("probez", module_id=3)


def misspelt_fact(session):
    session.step_row.facts["grad_nrom"] = 1.0


def overruled_fact(session):
    session.step_row.facts["loss"] = 1.0


def misspelt_later(session):
    row = session.rows.add("probes", module_id=3, probe="p")
    row["scalee"] = 2.0


LISTENERS = (misspelt_column, misspelt_table, misspelt_fact, overruled_fact, misspelt_later)


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_row_that_does_not_fit_raises_in_tests(listener, tmp_path: Path):
    with pytest.raises(RowError):
        train(tmp_path / "run", listener)


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_row_that_does_not_fit_is_an_event_in_the_field_and_loses_no_step(listener, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(row_checks, "STRICT", False)
    train(tmp_path / "run", listener)

    trace = Trace(tmp_path / "run")
    assert trace.sql("SELECT step FROM steps WHERE isfinite(loss) ORDER BY step")["step"].to_list() == [0, 1, 2]
    faults = trace.sql("SELECT message FROM events WHERE event = 'recorder-fault'")["message"].to_list()
    assert len(faults) == 1, faults


def test_strictness_is_what_the_tests_run_under():
    assert row_checks.STRICT


def test_every_row_that_the_recorder_writes_by_name_has_declared_columns():
    wrong, seen = [], 0
    for file in RECORDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add"):
                continue
            if not (node.args and isinstance(node.args[0], ast.Constant) and node.keywords):
                continue
            table = TABLES.get(node.args[0].value)
            names = {k.arg for k in node.keywords if k.arg}
            seen += len(names)
            if table is None or not names <= set(table.column_names):
                wrong.append((file.name, node.lineno, node.args[0].value, names))
    assert wrong == []
    assert seen > 100, "the calls were not found: this test shows nothing"
