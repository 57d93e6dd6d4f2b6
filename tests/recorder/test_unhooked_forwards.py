"""Forwards of which nothing is measured run without hooks of modules, and nothing is lost by it."""

import copy
import pickle

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn
from torch.nn.modules import module as nn_module

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

EVERY = 1000
FIRST_QUIET = 3
SAVED = """SELECT step, module FROM tensor_stats JOIN tensors USING (tensor_id) JOIN modules USING (module_id)
    WHERE tensor_name LIKE '%:saved'"""


class Watched(nn.Module):
    """A layer that counts the global hooks in place while it runs, and does what a test puts into it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.hooks: list[int] = []
        self.act = lambda x: x

    def forward(self, x):
        self.hooks.append(len(nn_module._global_forward_hooks) + len(nn_module._global_forward_pre_hooks))
        return self.act(self.inner(x)).relu()


def network() -> tuple[nn.Module, Watched, torch.optim.Optimizer]:
    torch.manual_seed(0)
    layer = Watched()
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Sequential(layer, nn.Dropout(0.2)), nn.Linear(6, 1))
    return model, layer, torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer, steps, x=None):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 6) if x is None else x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def rows(run, sql):
    with Trace(run) as trace:
        return trace.sql(sql).rows()  # of polars: tuples


def test_the_hooks_are_out_inside_and_back_afterwards(tmp_path):
    model, layer, optimizer = network()
    before = len(nn_module._global_forward_hooks)
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        during = len(nn_module._global_forward_hooks)
        train(model, optimizer, 10)
        assert len(nn_module._global_forward_hooks) == during > before
        assert not model._forward_hooks
    assert layer.hooks[:FIRST_QUIET] == [layer.hooks[0]] * FIRST_QUIET
    assert layer.hooks[0] >= 2
    assert layer.hooks[FIRST_QUIET:] == [0] * (10 - FIRST_QUIET)
    assert len(nn_module._global_forward_hooks) == before


def test_the_training_is_the_same_bit_for_bit(tmp_path):
    model, _, optimizer = network()
    plain = train(model, optimizer, 12)
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        recorded = train(model, optimizer, 12)
    assert layer.hooks[-1] == 0
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_of_a_graph_that_was_never_seen_no_module_is_guessed(tmp_path):
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 8)
        layer.act = lambda x: x * torch.inf
        layer.hooks.clear()
        train(model, optimizer, 1)
        assert layer.hooks == [0]
    # the graph had a node more than usual, so nobody knows which module made it: only that it was this model
    assert rows(tmp_path / "run", SAVED) == [(8, "")]


def test_a_lost_loss_with_the_usual_graph_names_the_module(tmp_path):
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 8)
        with torch.no_grad():
            layer.inner.weight[0, 0] = torch.inf
        layer.hooks.clear()
        train(model, optimizer, 1)
        assert layer.hooks == [0]
    found = rows(tmp_path / "run", SAVED)
    assert found
    assert {step for step, _ in found} == {8}
    assert {module for _, module in found} == {"2.0.inner"}


def test_what_a_forward_raises_reaches_the_script_and_the_next_step_is_recorded(tmp_path):
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 8)
        during = len(nn_module._global_forward_hooks)

        def fail(_):
            raise ValueError("of the script's own")

        layer.act = fail
        with pytest.raises(ValueError, match="of the script's own"):
            train(model, optimizer, 1)
        assert len(nn_module._global_forward_hooks) == during
        assert not model._forward_hooks
        layer.act = lambda x: x
        train(model, optimizer, 3)
    assert rows(tmp_path / "run", "SELECT count(*) FROM steps WHERE completed AND stepped") == [(11,)]


def test_a_model_can_be_saved_after_ctrl_c_in_its_forward(tmp_path):
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 8)

        def interrupt(_):
            raise KeyboardInterrupt

        layer.act = interrupt
        with pytest.raises(KeyboardInterrupt):
            train(model, optimizer, 1)
        layer.act = None
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 # our own
            twin[2][0].act = nn.Identity()
            assert twin(torch.ones(1, 6)).shape == (1, 1)
        layer.act = nn.Identity()
        train(model, optimizer, 3)
        assert not model._forward_hooks
        assert nn_module._global_forward_hooks


def test_a_model_that_runs_another_way_each_time_is_always_watched(tmp_path):
    model, layer, optimizer = network()
    turns = iter(range(100))
    layer.act = lambda x: x * 2 if next(turns) % 2 else x
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 12)
    assert 0 not in layer.hooks


def test_a_part_put_into_eval_mode_in_a_quiet_step_is_noted_in_that_step(tmp_path):
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 8)
        layer.inner.eval()
        train(model, optimizer, 1)
    modes = "SELECT step, training FROM module_modes JOIN modules USING (module_id) WHERE modules.module = '2.0.inner'"
    assert rows(tmp_path / "run", modes)[-1] == (8, False)


def test_numbers_read_inside_a_module_keep_the_hooks_in(tmp_path):
    model, layer, optimizer = network()
    layer.act = lambda x: x * float(x.detach().abs().max().item() >= 0)
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 10)
    assert 0 not in layer.hooks


def test_hooks_of_the_script_keep_the_hooks_in(tmp_path):
    model, layer, optimizer = network()
    model.register_forward_hook(lambda *_: None)
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 10)
    assert 0 not in layer.hooks


def sample_by_sample(model, count):
    model.eval()
    with torch.no_grad():
        for _ in range(count):
            model(torch.randn(1, 6))
    model.train()


def test_of_very_many_evaluations_a_part_is_measured_and_all_are_counted(tmp_path):
    model, layer, optimizer = network()
    with Recorder(tmp_path / "run", grace="1ms"):
        for _ in range(8):
            sample_by_sample(model, 600)
            train(model, optimizer, 1)
        layer.hooks.clear()
        sample_by_sample(model, 600)
        assert layer.hooks[:64] == [layer.hooks[0]] * 64
        assert layer.hooks[0] >= 2
        assert layer.hooks.count(0) > 300
        model[2][0].act = lambda x: x.sum().log().neg().mul(float("inf")) * 0 + x  # nan comes up inside the layer
        train(model, optimizer, 1)
        assert not model._forward_hooks
    # and what trains after an evaluation is attributed as ever
    assert rows(tmp_path / "run", SAVED)[0] == (8, "2.0")
    counted = rows(tmp_path / "run", "SELECT step, eval_forwards FROM steps ORDER BY step")
    assert counted[1:] == [(step, 600) for step in range(1, 9)]  # before the first step nothing trains yet
    inputs = "SELECT step, count(*) FROM batches WHERE phase = 'eval' GROUP BY step"
    outputs = inputs.replace("batches", "tensor_stats").replace(
        "count(*)", "count(DISTINCT seq) / 2"
    )  # inputs are there, too
    for measured in (dict(rows(tmp_path / "run", inputs)), dict(rows(tmp_path / "run", outputs))):
        assert all(64 < measured[step] < 600 for step in range(5, 9))
    assert rows(tmp_path / "run", "SELECT count(*) FROM events WHERE event = 'recorder-fault'") == [(0,)]


def test_without_a_budget_every_evaluation_is_measured(tmp_path):
    model, _, optimizer = network()
    with Recorder(tmp_path / "run", budget="off"):
        for _ in range(4):
            train(model, optimizer, 1)
            sample_by_sample(model, 200)
        train(model, optimizer, 1)
    measured = rows(
        tmp_path / "run", "SELECT step, count(*) FROM batches WHERE phase = 'eval' GROUP BY step ORDER BY step"
    )
    assert measured == [(step, 200) for step in range(1, 5)]


def test_lookups_of_embeddings_are_counted_also_while_the_hooks_are_out(tmp_path):
    torch.manual_seed(0)
    layer = Watched()
    model = nn.Sequential(nn.Embedding(40, 6), layer, nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        for step in range(20):
            train(model, optimizer, 1, x=torch.tensor([2 * step, 2 * step + 1]))
        assert layer.hooks[-1] == 0
        assert not model[0]._forward_pre_hooks
        layer.act = None
        with pytest.raises(TypeError):
            train(model, optimizer, 1, x=torch.tensor([0]))
        assert not model[0]._forward_pre_hooks
    used = rows(tmp_path / "run", "SELECT step, rows_used, lookups FROM embeddings ORDER BY step")
    assert used == [(step, 2 * step + 2, 2 * step + 2) for step, _, _ in used]
    assert used[-1][0] > 10


def test_a_model_with_embeddings_can_be_saved_after_ctrl_c(tmp_path):
    layer = Watched()
    model = nn.Sequential(nn.Embedding(4, 6), layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def interrupt(_):
        raise KeyboardInterrupt

    with Recorder(tmp_path / "run", every=EVERY, budget="off"):
        train(model, optimizer, 8, x=torch.tensor([1]))
        layer.act = interrupt
        with pytest.raises(KeyboardInterrupt):
            train(model, optimizer, 1, x=torch.tensor([1]))
        layer.act = nn.Identity()
        assert model[0]._forward_pre_hooks  # torch calls nothing after an interrupt
        twin = pickle.loads(pickle.dumps(model))  # noqa: S301 # our own
        assert twin(torch.tensor([1])).shape == (1, 6)
    assert not nn_module._has_any_global_hook()
