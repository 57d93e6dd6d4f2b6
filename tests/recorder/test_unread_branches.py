"""Modules whose results end in a variable that nothing reads are told, and named where no gradient comes to them."""

import ast
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.slips import slips_of


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x_ = self.a(x)\n        return x", [("x_", ("a",), "x")]),
        ("h = self.a(x)\n        y = torch.cat([h, self.b(h)], 1)\n        return x, h", [("y", ("a", "b"), "x")]),
        ("h, _ = self.a(x)\n        y = h * 2\n        return self.b(x)", [("y", ("a",), "")]),
        ("if self.on:\n            y = self.a(x)\n            return x\n        return x", [("y", ("a",), "x")]),
        ("y = self.a(x)\n        return y", []),
        ("y = self.a(x)\n        return x + y", []),
        ("y = x * 2\n        return x", []),  # of no module
        ("_ = self.a(x)\n        return x", []),  # said to be unread
        ("a, b = self.a(x)\n        return b", []),
        ("y = self.a(x)\n        return self.b(locals()['y'])", []),
        ("y = self.a(x)\n        del y\n        return x", []),
    ],
)
def test_a_variable_of_modules_that_nothing_reads_is_found(
    body: str, found: list[tuple[str, tuple[str, ...], str]]
) -> None:
    text = f"class Net(nn.Module):\n    def forward(self, x):\n        {body}\n"
    told = slips_of(ast.parse(text), text).branches
    assert [(t.target, t.attributes, t.untouched) for t in told] == found


def _causes(tmp_path: Path, returned: str) -> list[tuple[str, str | None, str]]:
    script = tmp_path / "script.py"
    script.write_text(f"""
import torch
from torch import nn

class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        shift = self.after(torch.tanh(self.before(x)))
        y = x + shift
        return {returned}

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), Shift(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(20):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
""")
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run"), str(script)])
    with Trace(tmp_path / "run") as trace:
        return [(c.name, c.module, c.message) for c in diagnose(trace).causes]


def test_modules_without_effect_are_the_named_cause(tmp_path: Path) -> None:
    name, module, message = _causes(tmp_path, "x")[0]
    assert (name, module) == ("result-discarded", "1.before")
    assert "nothing reads y after y = x + shift, and the forward returns its argument x" in message
    assert "1.after, 1.before" in message


def test_modules_whose_result_goes_on_are_healthy(tmp_path: Path) -> None:
    assert [c for c in _causes(tmp_path, "y") if c[0] == "result-discarded"] == []
