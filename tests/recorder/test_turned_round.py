"""Limits, best values and averages that are the wrong way round are read in the source; those that are right are not."""

import ast
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.slips import slips_of

LIMITS = """
def train(model, loader, {defaults}):
    {first}
    for x in loader:
        step(model, x)
        {loop}
"""


def _found(text: str) -> list[tuple[str, str]]:
    return [(t.reason, t.text) for t in slips_of(ast.parse(text), text).turned]


@pytest.mark.parametrize(
    ("first", "loop", "found"),
    [
        ("beta = 0.0", "beta = max(1.0, beta + 0.01)", "limit"),
        ("beta = 0.0", "beta = max(beta + anneal, 1.0)", "limit"),
        ("beta, top = 0.0, 1.0", "beta = max(1.0, anneal + beta)", "limit"),
        ("eps = 1.0", "eps = min(0.05, eps - 0.001)", "limit"),
        ("args.beta = 0", "args.beta = max(1, args.beta + 0.1)", "limit"),
        ("beta = 0.0", "beta = min(1.0, beta + 0.01)", None),
        ("eps = 1.0", "eps = max(0.05, eps - 0.001)", None),
        ("beta = load()", "beta = max(1.0, beta + 0.01)", None),
        ("beta = 0.0", "beta = max(1.0, other + 0.01)", None),
        ("beta = 2.0", "beta = max(1.0, beta + noise)", None),
        ("best = -float('inf')", "best = max(1.0, best)", None),
        ("level = -1", "level = max(0, level + 1)", None),
        ("alpha = 0.0", "alpha = max(0.1, alpha + gradient)", None),
    ],
)
def test_a_limit_from_the_wrong_side_is_found(first: str, loop: str, found: str | None) -> None:
    text = LIMITS.replace("{defaults}", "other=0").replace("{first}", first).replace("{loop}", loop)
    assert _found(text) == ([(found, loop)] if found else [])


def test_a_limit_may_be_that_of_a_class_or_of_an_argument() -> None:
    text = """
class Schedule:
    def __init__(self, anneal):
        self.beta = 0.0
        self.beta_max = 1.0
        self.anneal = anneal
    def step(self):
        self.beta = max(self.beta_max, self.beta + self.anneal)

def train(loader, weight=0.0):
    for x in loader:
        weight = max(0.5, weight + 0.1)
"""
    assert [reason for reason, _ in _found(text)] == ["limit", "limit"]


@pytest.mark.parametrize(
    ("first", "test", "kept", "found"),
    [
        ("best = float('inf')", "val_loss > best", "val_loss", "never"),
        ("best = np.inf", "val_loss - 1e-4 >= best", "val_loss", "never"),
        ("best = -np.inf", "best > val", "val", "never"),
        ("best = -1e9", "val < best - 1e-3", "val", "never"),
        ("best = float('inf')", "epoch > 3 and val_loss > best", "val_loss", "never"),
        ("best_acc = 0.0", "acc < best_acc", "acc", "worst"),
        ("best_loss = 0.0", "val_loss > best_loss", "val_loss", "worst"),
        ("best_mae = None", "best_mae < mae.item()", "mae", "worst"),
        ("best = float('inf')", "val_loss < best", "val_loss", None),
        ("best_acc = 0", "acc > best_acc", "acc", None),
        ("best_score = 1e9", "score < best_score", "score", None),
        ("best_loss_acc = 0", "acc < best_loss_acc", "acc", None),
        ("worst_loss = -np.inf", "val_loss > worst_loss", "val_loss", None),
        ("best_acc = 0.0", "acc < best_acc", "other", None),
        ("best = load()", "val > best", "val", None),
    ],
)
def test_a_best_that_is_never_or_wrongly_chosen_is_found(first: str, test: str, kept: str, found: str | None) -> None:
    name = next(
        n
        for n in ("best_loss_acc", "best_score", "worst_loss", "best_acc", "best_loss", "best_mae", "best")
        if n in test
    )
    text = f"""
def train(model, loader):
    {first}
    for epoch in range(9):
        val_loss, acc, mae, val, score, other = validate(model, loader)
        if {test}:
            {name} = {kept}
            torch.save(model.state_dict(), "best.pt")
"""
    assert [reason for reason, _ in _found(text)] == ([found] if found else [])


def test_a_best_that_something_else_sets_is_left_alone() -> None:
    text = """
def train(model, loader):
    best = float("inf")
    for epoch in range(9):
        if epoch % 3 == 0:
            best = 0.0
        if val(model) > best:
            best = val(model)
        acc = validate(model)
        if acc > best:
            best = acc
"""
    assert _found(text) == []


def test_a_value_that_follows_either_way_is_no_best() -> None:
    text = """
def train(model, loader):
    previous = float("inf")
    for epoch in range(9):
        loss = val(model)
        if loss > previous:
            worse += 1
            previous = loss
        else:
            previous = loss
"""
    assert _found(text) == []


def test_the_greatest_loss_of_an_attack_is_meant() -> None:
    text = """
def attack(model, x, y):
    best_loss = 0.0
    for restart in range(5):
        loss = criterion(model(x + perturb(x)), y)
        if loss > best_loss:
            best_loss = loss
            torch.save(x, "best.pt")
"""
    assert _found(text) == []
    assert _found(text.replace("attack", "train").replace("perturb", "shift")) == [("worst", "loss > best_loss")]


def test_weights_of_losses_are_no_average_of_weights() -> None:
    text = """
def step(alpha=0.1):
    loss = alpha * target_loss + (1 - alpha) * hard
    total = alpha * target + (1 - alpha) * semantic
    moving_loss = alpha * moving_loss + (1 - alpha) * last
    target = alpha * target + (1 - alpha) * online
"""
    assert _found(text) == [("average", "alpha * target + (1 - alpha) * online")]


def test_patience_that_counts_where_it_gets_better_is_found() -> None:
    text = """
class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.counter, self.best_loss = patience, 0, None
    def __call__(self, val_loss):
        if self.best_loss is None:
            self.best_loss = val_loss
        elif val_loss < self.best_loss:
            self.counter += 1
        else:
            self.best_loss = val_loss
            self.counter = 0
"""
    assert _found(text) == [("worst", "val_loss < self.best_loss")]
    assert _found(text.replace("val_loss < self.best_loss", "val_loss > self.best_loss")) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("best_acc = min(acc, best_acc)", "worst"),
        ("best_loss = max(best_loss, val_loss)", "worst"),
        ("best_acc = max(acc, best_acc)", None),
        ("best_loss = min(best_loss, val_loss)", None),
        ("best = min(acc, other)", None),
    ],
)
def test_the_least_of_a_measure_is_no_best(line: str, found: str | None) -> None:
    text = f"def train(model):\n    for epoch in range(9):\n        {line}\n"
    assert [reason for reason, _ in _found(text)] == ([found] if found else [])


@pytest.mark.parametrize(
    ("tau", "sum_", "found"),
    [
        (0.005, "tau * target.data + (1.0 - tau) * param.data", True),
        (0.005, "target.data * tau + param.data * (1 - tau)", True),
        (0.995, "tau * param.data + (1 - tau) * target.data", True),
        (0.005, "tau * param.data + (1.0 - tau) * target.data", False),
        (0.995, "tau * target.data + (1.0 - tau) * param.data", False),
        (0.5, "tau * target.data + (1.0 - tau) * param.data", False),
        (0.005, "tau * left.data + (1.0 - tau) * right.data", False),
        (0.005, "tau * target.data + (1.0 - rho) * param.data", False),
    ],
)
def test_an_average_that_keeps_next_to_nothing_is_found(tau: float, sum_: str, found: bool) -> None:
    text = f"""
def soft_update(online, target_net, tau={tau}):
    for param, target in zip(online.parameters(), target_net.parameters()):
        target.data.copy_({sum_})
"""
    assert _found(text) == ([("average", sum_)] if found else [])


SCRIPT = """
import torch
from torch import nn

class Stopper:
    def __init__(self):
        self.best_loss = float("inf")
    def __call__(self, loss):
        if loss {sign} self.best_loss:
            self.best_loss = loss

def unused(loss):
    best = float("inf")
    if loss > best:
        best = loss

def main():
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    stopper = Stopper()
    for step in range(12):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        stopper(loss.item())

main()
"""


@pytest.mark.parametrize(("sign", "found"), [(">", ["direction-reversed"]), ("<", [])])
def test_what_runs_in_a_training_is_named(tmp_path: Path, sign: str, found: list[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("{sign}", sign))
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", "run", "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(tmp_path / "run") as trace:
        assert [c.name for c in diagnose(trace).causes if c.severity != "warning"] == found
