"""Scripts that update their weights without an optimizer: what is trained has its name, and each gradient one row a step."""

import pytest
import torch
import torch.nn.functional as F
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn
from torch.func import grad, grad_and_value, vmap

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

first_weight = torch.zeros(3, 4)
second_weight = torch.zeros(4, 1)


def gradient_rows(run):
    with Trace(run) as trace:
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []
        rows = trace.rows(
            "SELECT tensor_name, step, sum_sq FROM tensor_stats JOIN tensors USING (tensor_id) WHERE kind = 'gradient'"
        )
        steps = trace.rows("SELECT step, grad_norm FROM steps WHERE completed ORDER BY step")
    return rows, steps


def test_bare_tensors_are_named_after_their_global_variables(tmp_path):
    weights = [first_weight, second_weight]
    norms = []
    with Recorder(tmp_path / "run"):
        for weight in weights:
            nn.init.normal_(weight).requires_grad_()
        for _ in range(6):
            (torch.ones(5, 3) @ first_weight @ second_weight - 1).square().mean().backward()
            norms.append(sum(w.grad.square().sum().item() for w in weights) ** 0.5)
            with torch.no_grad():
                for weight in weights:
                    weight.sub_(0.01 * weight.grad)
                    weight.grad = None
    rows, steps = gradient_rows(tmp_path / "run")
    assert {row["tensor_name"] for row in rows} == {"first_weight", "second_weight"}
    assert len(rows) == 2 * 6
    assert [row["step"] for row in steps] == list(range(6))
    torch.testing.assert_close([row["grad_norm"] for row in steps], norms)


def test_gradients_that_are_returned_are_those_of_the_model(tmp_path):
    model = nn.Linear(3, 2)
    wanted = {}
    with Recorder(tmp_path / "run"):
        for step in range(6):
            x = torch.randn(8, 3, requires_grad=True)
            loss = F.mse_loss(model(x), torch.zeros(8, 2))
            torch.autograd.grad(loss, x, retain_graph=True)  # with respect to the data: no iteration of its own
            gradients = torch.autograd.grad(loss, model.parameters())
            wanted |= {
                (name, step): g.square().sum().item() for name, g in zip(("weight", "bias"), gradients, strict=True)
            }
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter.sub_(0.1 * gradient)
    rows, steps = gradient_rows(tmp_path / "run")
    assert [row["step"] for row in steps] == list(range(6))
    found = {(row["tensor_name"], row["step"]): row["sum_sq"] for row in rows}
    assert len(rows) == len(found)
    torch.testing.assert_close(found, wanted)


def test_where_an_optimizer_exists_derivatives_are_part_of_the_loss(tmp_path):
    model = nn.Linear(3, 2)
    with Recorder(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            inner = torch.autograd.grad(model(torch.randn(8, 3)).square().mean(), model.parameters(), create_graph=True)
            sum(g.square().sum() for g in inner).backward()
            torch.autograd.grad(model(torch.randn(8, 3)).mean(), model.parameters())  # looked at, not used
            optimizer.step()
    _, steps = gradient_rows(tmp_path / "run")
    assert [row["step"] for row in steps] == list(range(4))


def test_an_ensemble_that_vmap_trains_is_one_training(tmp_path):
    def loss(weights, x, y):
        at = vmap(grad(lambda x_: (x_ @ weights["w"]).sum()))(x)  # of the output by the data: no step of its own
        return (x @ weights["w"] + weights["b"] - y).square().mean() + at.square().mean()

    weights = {"w": torch.ones(5, 3), "b": torch.zeros(5, 1)}
    x, y = torch.randn(5, 8, 3), torch.randn(5, 8)
    losses, norms = [], []
    with Recorder(tmp_path / "run"):
        for _ in range(6):
            gradients, members = vmap(grad_and_value(loss))(weights, x, y)
            losses.append(members.mean().item())
            norms.append(sum(g.square().sum().item() for g in gradients.values()) ** 0.5)
            weights = {name: w - 0.01 * gradients[name] for name, w in weights.items()}
    rows, steps = gradient_rows(tmp_path / "run")
    assert len(rows) == 2 * 6
    torch.testing.assert_close([row["grad_norm"] for row in steps], norms)
    with Trace(tmp_path / "run") as trace:
        found = trace.rows("SELECT loss FROM steps ORDER BY step")
    torch.testing.assert_close([row["loss"] for row in found], losses)
