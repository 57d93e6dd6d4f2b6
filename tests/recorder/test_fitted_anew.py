"""What is fitted on the data of an evaluation is found in the source; what is fitted once is not."""

import ast
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.slips import slips_of

_OWN = """
def standardize(x):
    {body}
a = standardize(x_train)
b = standardize({given})
"""


def _found(text: str) -> list[str]:
    return [slip.text for slip in slips_of(ast.parse(text), text).fitted]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s = StandardScaler()\na = s.fit_transform(x_train)\nb = s.fit_transform(x_test)", "s.fit_transform(x_test)"),
        ("s = Scaler()\ns.fit(train)\nt = Scaler()\nt.fit(test[:, 1:].reshape(-1))", "t.fit(test[:, 1:].reshape(-1))"),
        ("a = MyScaler().fit_transform(tr)\nb = MyScaler().fit_transform(X_val)", "MyScaler().fit_transform(X_val)"),
        ("s = StandardScaler()\na = s.fit_transform(x_train)\nb = s.transform(x_test)", None),
        ("a = StandardScaler().fit_transform(x_train)\nb = MinMaxScaler().fit_transform(y_val)", None),
        ("model.fit(x_train)\nmodel.fit(x_val)", None),
        ("s = Scaler()\ns.fit(x_train)\ns.fit(train_val)", None),
        ("s = Scaler()\ns.fit(x_test)", None),
    ],
)
def test_a_scaler_that_is_fitted_on_the_evaluation_is_found(text: str, found: str | None) -> None:
    assert _found(text) == ([found] if found else [])


@pytest.mark.parametrize(
    ("body", "given", "found"),
    [
        ("return (x - x.mean(0)) / x.std(0)", "x_test", True),
        ("m, s = np.mean(x, axis=0), np.std(x, axis=0); return (x - m) / s", "torch.tensor(val.values)", True),
        ("return (x - x.min()) / (x.max() - x.min())", "x_valid[::2]", True),
        ("return (x - x.mean(1)) / x.std(1)", "x_test", False),
        ("print(x.mean(), x.std()); return x", "x_test", False),
        ("return (x - x.mean(0)) / x.std(0)", "x_other", False),
    ],
)
def test_so_are_statistics_that_a_function_takes_itself(body: str, given: str, found: bool) -> None:
    text = _OWN.replace("{body}", body).replace("{given}", given)
    assert _found(text) == ([f"standardize({given})"] if found else [])


def test_a_data_set_may_take_them_too() -> None:
    text = """
class Table(Dataset):
    def __init__(self, x, y):
        self.x = (x - x.mean(axis=0)) / x.std(axis=0)
train_set = Table(x_train, y_train)
test_set = Table(x_test, y_test)
"""
    assert _found(text) == ["Table(x_test, y_test)"]


SCRIPT = """
import torch
from torch import nn

def standardize(x):
    return (x - x.mean(0)) / x.std(0)

def main():
    torch.manual_seed(0)
    data = torch.randn(256, 8) * 3 + 1
    train, test = data[:192], data[192:]
    train, test = standardize(train), {test}
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(12):
        x = train[step * 16:step * 16 + 16]
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()

main()
"""


@pytest.mark.parametrize(
    ("test", "found"), [("standardize(test)", ["fitted-on-evaluation"]), ("(test - mean) / std", [])]
)
def test_what_runs_in_a_training_is_told(tmp_path: Path, test: str, found: list[str]) -> None:
    text = SCRIPT.replace("{test}", test)
    if not found:
        text = text.replace(
            "    train, test = standardize",
            "    mean, std = train.mean(0), train.std(0)\n    train, test = standardize",
        )
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", "run", "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(tmp_path / "run") as trace:
        assert [c.name for c in diagnose(trace).causes if c.name == "fitted-on-evaluation"] == found
