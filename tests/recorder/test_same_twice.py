"""Weights that are subtracted from themselves and derivatives that are taken twice are read in the source, and named."""

import ast
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.slips import slips_of

PROXIMAL = """
class Client:
    def fit(self, model, loader):
        {kept}
        for x, y in loader:
            loss = criterion(model(x), y)
            {loop}
            loss.backward()
"""
_ZIP = "for w, w_t in zip(model.parameters(), kept): loss = loss + (w - w_t).square().sum()"


@pytest.mark.parametrize(
    ("kept", "loop", "found"),
    [
        ("kept = list(model.parameters())", _ZIP, "w - w_t"),
        ("kept = [p.detach() for p in model.parameters()]", _ZIP, "w - w_t"),
        (
            "kept = [p.data for p in model.parameters()]",
            _ZIP.replace("w - w_t", "w.data - w_t.data"),
            "w.data - w_t.data",
        ),
        (
            "kept = tuple(model.parameters())",
            "loss += sum((a - b).norm() for a, b in zip(kept, model.parameters()))",
            "a - b",
        ),
        (
            "kept = dict(model.named_parameters())",
            "for n, p in model.named_parameters(): loss = loss + (p - kept[n]).square().sum()",
            "p - kept[n]",
        ),
        (
            "kept = {n: p.detach() for n, p in model.named_parameters()}",
            "for n, p in model.named_parameters(): loss = loss + (kept[n] - p).square().sum()",
            "kept[n] - p",
        ),
        ("kept = [p.detach().clone() for p in model.parameters()]", _ZIP, None),
        ("kept = copy.deepcopy(list(model.parameters()))", _ZIP, None),
        ("kept = list(teacher.parameters())", _ZIP, None),
        ("kept = list(model.parameters()); model = copy.deepcopy(model)", _ZIP, None),
        ("kept = list(model.parameters()); kept = [k.clone() for k in kept]", _ZIP, None),
        ("kept = list(model.parameters())", _ZIP.replace("w - w_t", "w - mean"), None),
    ],
)
def test_weights_less_those_that_are_kept_by_reference_are_found(kept: str, loop: str, found: str | None) -> None:
    text = PROXIMAL.replace("{kept}", kept).replace("{loop}", loop)
    terms = [t for t in slips_of(ast.parse(text), text).detached if t.reason == "own_difference"]
    assert [(t.function, t.text) for t in terms] == ([("fit", found)] if found else [])


HELD = """
class Client:
    def __init__(self, model):
        self.model = model
        self.start = {kept}
    def penalty(self):
        return sum((w - s).square().sum() for w, s in zip(self.model.parameters(), self.start))
"""


@pytest.mark.parametrize(
    ("kept", "found"),
    [("list(self.model.parameters())", 1), ("[p.clone() for p in self.model.parameters()]", 0), ("None", 0)],
)
def test_so_are_those_that_an_object_holds(kept: str, found: int) -> None:
    text = HELD.replace("{kept}", kept)
    assert len(slips_of(ast.parse(text), text).detached) == found


EQUATION = """
def residual(model, x, t):
    u = model(x, t)
    u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    {between}
    {second} = torch.autograd.grad({what}, x, torch.ones_like(u_x), create_graph=True)[0]
    return u_x - {second}
"""


@pytest.mark.parametrize(
    ("second", "what", "between", "found"),
    [
        ("u_xx", "u", "pass", True),
        ("d2u", "u", "pass", True),
        ("u_xx", "u_x", "pass", False),
        ("u_xx", "u", "u = model(x, t + 1)", False),
        ("again", "u", "pass", False),
        ("grad_full", "u", "pass", False),
    ],
)
def test_a_second_derivative_that_is_the_first_again_is_found(
    second: str, what: str, between: str, found: bool
) -> None:
    text = EQUATION.replace("{second}", second).replace("{what}", what).replace("{between}", between)
    slips = slips_of(ast.parse(text), text).derivatives
    assert [(s.function, s.target, s.earlier, s.output) for s in slips] == [("residual", second, "u_x", "u")] * found


def test_gradients_that_are_numbered_are_no_second_derivatives() -> None:
    text = (
        EQUATION.replace("u_x = ", "g1 = ")
        .replace("{second}", "g2")
        .replace("{what}", "u")
        .replace("{between}", "pass")
    )
    assert slips_of(ast.parse(text), text).derivatives == ()


SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)

def fit():
    start = {kept}
    for step in range(12):
        x = torch.rand(32, 1, requires_grad=True)
        u = model(x)
        u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        u_xx = torch.autograd.grad({what}, x, torch.ones_like(u), create_graph=True)[0]
        loss = (u_xx + u - 1).square().mean()
        for p, p_0 in zip(model.parameters(), start):
            loss = loss + 0.1 * (p - p_0).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

fit()
"""


@pytest.mark.parametrize(
    ("kept", "what", "named"),
    [
        ("list(model.parameters())", "u", {"derivative-repeated", "loss-term-without-effect"}),
        ("[p.detach().clone() for p in model.parameters()]", "u_x", set()),
    ],
)
def test_both_are_named_in_a_run(tmp_path: Path, kept: str, what: str, named: set[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("{kept}", kept).replace("{what}", what))
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", "run", "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(tmp_path / "run") as trace:
        assert {c.name for c in diagnose(trace).causes if c.severity != "warning"} == named
