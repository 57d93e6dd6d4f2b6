"""A gradient of torch.autograd.grad that enters the loss without a graph is read in the source, and named."""

import ast
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.slips import slips_of

FORCES = """
def step(model, loader, optimizer):
    for x, energy, force in loader:
        x.requires_grad_(True)
        made = model(x)
        forces = -torch.autograd.grad(made.sum(), x{how})[0]
        {uses}
        energy_loss = F.mse_loss(made, energy)
        loss = energy_loss + 0.1 * force_loss
        loss.backward()
        optimizer.step()
"""

_USES = "force_loss = mse(forces, force).sum(dim=1).mean()"


@pytest.mark.parametrize(
    ("how", "uses", "found"),
    [
        ("", _USES, True),
        (", retain_graph=True", _USES, True),
        (", create_graph=False", "force_loss = (forces - force).square().mean()", True),
        ("", "part = F.l1_loss(forces, force)\n        force_loss = part / x.shape[0]", True),
        ("", "part = mse(forces, force)\n        force_loss = self.lambda_f * part", True),
        ("", "part = mse(forces, force)\n        force_loss = self.scale * part", False),  # it may be trained
        (", create_graph=True", _USES, False),
        (", create_graph=training", _USES, False),
        (", **options", _USES, False),
        ("", "force_loss = F.mse_loss(forces * model.scale, force)", False),  # a weight beside it
        ("", "force_loss = F.mse_loss(model(forces), force)", False),
        ("", "force_loss = F.mse_loss(made, forces)", False),  # a target for the model
        ("", "forces.requires_grad_()\n        force_loss = forces.square().mean()", False),
    ],
)
def test_a_gradient_without_a_graph_that_is_added_to_the_loss_is_found(how: str, uses: str, found: bool) -> None:
    text = FORCES.replace("{how}", how).replace("{uses}", uses)
    terms = slips_of(ast.parse(text), text).detached
    wanted = [("step", "force_loss", "no_graph_created", f"torch.autograd.grad(made.sum(), x{how})")] if found else []
    assert [(t.function, t.term, t.reason, t.made) for t in terms] == wanted


PENALTY = """
from torch.autograd import grad

def penalty(critic, x):
    x = x.detach().requires_grad_(True)
    gradients = grad(outputs=critic(x).sum(), inputs=x{how})[0]
    return ((gradients.view(len(x), -1).norm(2, dim=1) - 1) ** 2).mean()

def train(critic, real, fake, optimizer):
    loss = critic(fake).mean() - critic(real).mean()
    {added}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("how", "added", "found"),
    [
        ("", "loss += 10 * penalty(critic, real)", "penalty"),
        ("", "gp = penalty(critic, real)\n    loss = critic(fake).mean() + 10 * gp", "gp"),
        (", create_graph=True", "loss += 10 * penalty(critic, real)", None),
        ("", "print(penalty(critic, real))", None),
    ],
)
def test_a_penalty_of_a_function_that_gives_no_graph_is_found(how: str, added: str, found: str | None) -> None:
    text = PENALTY.replace("{how}", how).replace("{added}", added)
    assert [t.term for t in slips_of(ast.parse(text), text).detached] == ([found] if found else [])


def test_a_gradient_without_a_graph_is_the_named_cause(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(20):
    x = torch.randn(16, 4, requires_grad=True)
    made = model(x)
    slope = torch.autograd.grad(made.sum(), x, retain_graph=True)[0]
    slope_loss = (slope - 1).square().mean()
    loss = nn.functional.mse_loss(made, x.sum(1, keepdim=True).detach()) + slope_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(tmp_path / "run"), str(script)])
    with Trace(tmp_path / "run") as trace:
        first = diagnose(trace).causes[0]
    assert first.name == "loss-term-without-effect"
    assert "slope_loss has no graph: torch.autograd.grad(made.sum(), x, retain_graph=True)" in first.message
    assert "create_graph=True" in first.fix


@pytest.mark.parametrize(
    ("chosen", "loss", "found"),
    [
        ("torch.from_numpy(out.data.numpy()[hard])", "TripletMarginLoss(1.0)(chosen, chosen)", True),
        ("torch.tensor(out.detach().cpu().numpy()[hard])", "criterion(chosen, chosen)", True),
        ("torch.from_numpy(out.data.numpy()[hard])", "criterion(out, chosen)", False),  # a target
        ("torch.from_numpy(table[hard])", "criterion(chosen, chosen)", False),
        ("out[hard]", "criterion(chosen, chosen)", False),
    ],
)
def test_a_term_of_what_went_through_numpy_has_no_graph(chosen, loss, found):
    text = f"""
def train(model, loader, optimizer, table):
    for x, labels, hard in loader:
        out = model(x)
        chosen = {chosen}
        triplet_loss = {loss}
        class_loss = cross_entropy(model.classify(x), labels)
        loss = class_loss + triplet_loss
        loss.backward()
        optimizer.step()
"""
    terms = slips_of(ast.parse(text), text).detached
    assert [(t.term, t.reason, t.made) for t in terms] == ([("triplet_loss", "cut", chosen)] if found else [])
