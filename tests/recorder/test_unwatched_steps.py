"""Steps of small models that are not watched: none is lost, none is changed, and what goes wrong in one is seen."""

import copy
import functools
import math
import pickle

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from firstfault.recorder.session.budget import Budget
from firstfault.recorder.storage.segments import completed_steps
from firstfault.recorder.tensors.device import LateNumbers
from firstfault.reports.sections.curves import loss_frame, step_frame
from torch import nn
from torch.nn.modules import module as nn_module
from torch.optim.optimizer import _global_optimizer_post_hooks
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

EVERY = 16
WATCHED_AT_FIRST = 8
SAVED = """SELECT step, module FROM tensor_stats JOIN tensors USING (tensor_id) JOIN modules USING (module_id)
    WHERE tensor_name LIKE '%:saved'"""


@pytest.fixture(params=[1, 4], ids=["every loss", "every fourth loss"])
def seldom(request, monkeypatch):
    """Watch every 16th step, however long steps take here."""

    def unwatched_steps(self, step):
        due = step >= max(WATCHED_AT_FIRST, self._full_until)
        return (-step % EVERY if due else 0), request.param

    monkeypatch.setattr(Budget, "unwatched_steps", unwatched_steps)
    monkeypatch.setattr(Budget, "watching_is_dear", property(lambda _: True, lambda *_: None), raising=False)
    return request.param


def network(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer, steps, x=None):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 6) if x is None else x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def rows(run, query):
    with Trace(run) as trace:
        return trace.sql(query).rows()


def test_every_step_is_counted_and_losses_are_those_of_the_script(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        losses = train(model, optimizer, 100)
    watched = rows(tmp_path / "run", "SELECT step, loss, completed FROM steps ORDER BY step")
    others = rows(tmp_path / "run", "SELECT step, loss, steps FROM unwatched_steps ORDER BY step")
    assert [step for step, *_ in watched] == [*range(WATCHED_AT_FIRST), *range(EVERY, 100, EVERY)]
    assert len(watched) + sum(steps for *_, steps in others) == 100
    assert completed_steps(tmp_path / "run") == {0: 100}
    assert others[-1][0] == 99
    assert all(completed for *_, completed in watched)
    for step, loss, _ in (*watched, *others):
        assert loss == losses[step] or (loss is None and seldom > 1 and step == 99)


@pytest.mark.parametrize("every_loss", [True, False])
def test_of_many_microbatches_the_last_loss_stands_for_the_step(tmp_path, seldom, monkeypatch, every_loss):
    monkeypatch.setattr(Budget, "every_loss", property(lambda _: every_loss, lambda *_: None), raising=False)
    model, optimizer = network()
    losses, read = [], []
    with Recorder(tmp_path / "run") as recorder:
        backward = recorder._attachment.backward
        band = backward.left_band
        monkeypatch.setattr(backward, "left_band", lambda loss: read.append(loss) or band(loss))
        for _ in range(48):
            optimizer.zero_grad()
            for _ in range(5):
                loss = model(torch.randn(4, 6)).square().mean()
                loss.backward()
                losses.append(loss.item())
            optimizer.step()
    others = rows(tmp_path / "run", "SELECT step, loss FROM unwatched_steps ORDER BY step")
    assert others
    assert all(loss == losses[5 * step + 4] for step, loss in others if loss is not None)
    assert sum(loss is None for _, loss in others) <= (seldom > 1)
    assert completed_steps(tmp_path / "run") == {0: 48}
    watched = 5 * len(rows(tmp_path / "run", "SELECT step FROM steps"))
    assert len(read) - watched <= len(others) * (5 if every_loss else 1)


def test_the_training_is_the_same_to_the_bit_and_nothing_stays_in_torch(tmp_path, seldom):
    plain, optimizer = network()
    expected = train(plain, optimizer, 60)
    backward, hooks = torch.autograd.backward, len(_global_optimizer_post_hooks)
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        assert train(model, optimizer, 60) == expected
    assert all(map(torch.equal, plain.state_dict().values(), model.state_dict().values()))
    assert torch.autograd.backward is backward
    assert len(_global_optimizer_post_hooks) == hooks
    assert not nn_module._has_any_global_hook()
    assert not model._forward_pre_hooks


def test_hooks_of_modules_are_out_between_watched_steps_and_a_copy_has_none_of_ours(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run") as recorder:
        train(model, optimizer, WATCHED_AT_FIRST + 3)
        assert recorder._attachment.session.position.unwatched
        assert not nn_module._global_forward_hooks
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 — our own
            assert twin(torch.ones(1, 6)).shape == (1, 1)
        train(model, optimizer, EVERY)
    assert rows(tmp_path / "run", "SELECT count(*) FROM events WHERE event = 'recorder-fault'") == [(0,)]


@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_backward_is_watched_again_under_a_wrapper_that_the_script_puts_over_it_meanwhile(
    tmp_path, seldom, monkeypatch
):
    model, optimizer = network()
    with Recorder(tmp_path / "run") as recorder:
        train(model, optimizer, WATCHED_AT_FIRST + 3)
        assert recorder._attachment.session.position.unwatched
        monkeypatch.setattr(torch.autograd, "backward", functools.partial(torch.autograd.backward))
        train(model, optimizer, 2 * EVERY)
    losses = [
        loss for step, loss in rows(tmp_path / "run", "SELECT step, loss FROM steps") if step > WATCHED_AT_FIRST + 3
    ]
    assert len(losses) == 2
    assert None not in losses
    assert rows(tmp_path / "run", "SELECT count(*) FROM events WHERE event = 'recorder-fault'") == [(0,)]


@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_a_loss_that_is_lost_is_looked_at_in_its_own_step(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        train(model, optimizer, 20)
        train(model, optimizer, 1, x=torch.full((4, 6), math.nan))
        train(model, optimizer, 3)
    lost = rows(tmp_path / "run", "SELECT step, loss FROM steps ORDER BY step")
    assert [step for step, loss in lost if not math.isfinite(loss)][:1] == [20]
    modules = rows(tmp_path / "run", f"{SAVED} AND step = 20")
    assert modules == [(20, "0")]
    (found,) = rows(tmp_path / "run", "SELECT calls, grad_norm FROM steps WHERE step = 20")
    assert "b" in found[0]
    assert math.isnan(found[1])


@pytest.fixture
def arriving(monkeypatch):
    """The host stands in for a device whose numbers arrive two steps after they were sent for."""
    monkeypatch.setattr("firstfault.recorder.loop.unwatched_steps.LATE_DEVICES", {"cpu"})
    sent = []

    class Late(LateNumbers):
        def send(self, value):
            place = super().send(value)
            sent.append(place)
            return place

        def arrived(self, place):
            return None if place in sent[-2:] else super().arrived(place)

    monkeypatch.setattr("firstfault.recorder.loop.unwatched_steps.LateNumbers", Late)


@pytest.mark.usefixtures("arriving")
def test_losses_that_come_late_are_those_of_their_steps(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        losses = train(model, optimizer, 100)
    others = rows(tmp_path / "run", "SELECT step, loss FROM unwatched_steps ORDER BY step")
    known = [(step, loss) for step, loss in others if loss is not None]
    assert all(loss == losses[step] for step, loss in known)
    assert len(known) >= len(others) - 2 * len(range(WATCHED_AT_FIRST, 100, EVERY)) - 2
    assert completed_steps(tmp_path / "run") == {0: 100}
    assert rows(tmp_path / "run", "SELECT count(*) FROM events WHERE event = 'recorder-fault'") == [(0,)]


@pytest.mark.usefixtures("arriving")
@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_a_loss_that_is_lost_is_looked_at_when_it_has_come(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        train(model, optimizer, 18)
        train(model, optimizer, 6, x=torch.full((4, 6), math.nan))
    told = rows(tmp_path / "run", "SELECT step, loss FROM unwatched_steps WHERE step >= 18 ORDER BY step")
    assert math.isnan(told[0][1])
    assert rows(tmp_path / "run", "SELECT min(step) FROM steps WHERE step > 16") == [(21,)]
    with Trace(tmp_path / "run") as trace:
        assert diagnose(trace).verdict == "anomalous"


def test_an_evaluation_ends_the_stretch_and_is_recorded(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        for _ in range(4):
            train(model, optimizer, 20)
            model.eval()
            with torch.no_grad():
                model(torch.ones(5, 6))
            model.train()
    found = rows(tmp_path / "run", "SELECT step FROM steps WHERE eval_forwards > 0 ORDER BY step")
    assert [step for (step,) in found][:3] == [20, 40, 60]
    evaluated = "SELECT count(DISTINCT step) FROM tensor_stats WHERE phase = 'eval'"
    assert rows(tmp_path / "run", evaluated)[0][0] >= 3


def test_an_evaluation_between_watched_steps_is_recorded_though_all_before_fell_on_them(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run", model=model):
        for steps in (*[EVERY] * 5, 5, 5):
            train(model, optimizer, steps)
            model.eval()
            with torch.no_grad():
                model(torch.ones(2, 6))
            model.train()

    ((evaluations,),) = rows(tmp_path / "run", "SELECT count(*) FROM steps WHERE eval_forwards > 0")
    assert evaluations == 7


def test_wrappers_rest_meanwhile_and_what_the_script_puts_over_them_stays(tmp_path, seldom):
    plain = nn.Module.zero_grad
    own = torch.Tensor.item
    model, optimizer = network()
    with Recorder(tmp_path / "run") as recorder:
        train(model, optimizer, WATCHED_AT_FIRST - 1)
        assert nn.Module.zero_grad is not plain
        watching = torch.Tensor.item
        scripts = functools.partialmethod(watching)
        torch.Tensor.item = scripts
        train(model, optimizer, 3)
        assert recorder._attachment.session.position.unwatched
        assert nn.Module.zero_grad is plain
        assert vars(torch.Tensor)["item"] is scripts
        del torch.Tensor.item
        train(model, optimizer, 2 * EVERY)
        recorder._attachment.unwatched.end()
        assert nn.Module.zero_grad is not plain
    assert nn.Module.zero_grad is plain
    assert torch.Tensor.item is own


def test_the_page_draws_the_losses_of_all_steps(tmp_path, seldom):
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        losses = train(model, optimizer, 100)
    with Trace(tmp_path / "run") as trace:
        drawn = loss_frame(trace, 0)
        watched = step_frame(trace, 0).height
    assert drawn["step"].is_sorted()
    assert drawn.height == 100 if seldom == 1 else watched < drawn.height < 100
    assert all(losses[step] == loss for step, loss in drawn.iter_rows())


def test_two_optimizers_make_one_iteration(tmp_path, seldom):
    left, first = network(1)
    right, second = network(2)
    with Recorder(tmp_path / "run"):
        for _ in range(60):
            train(left, first, 1)
            train(right, second, 1)
    with Trace(tmp_path / "run") as trace:
        (last,) = trace.sql("SELECT max(step) AS last FROM unwatched_steps")["last"]
    assert last == 59
    assert completed_steps(tmp_path / "run") == {0: 60}


def test_gradients_that_are_cleared_in_a_step_that_goes_unwatched_are_not_said_to_be_left(tmp_path, seldom):
    """As in a GAN, whose generator steps after every fifth step of its critic."""
    critic, often = network()
    generator, rarely = network(1)
    with Recorder(tmp_path / "run"):
        for i in range(10 * EVERY):
            often.zero_grad()
            (critic(torch.randn(4, 6)).mean() - critic(generator[0](torch.randn(4, 6)).detach()).mean()).backward()
            often.step()
            if i % 5 == 0:
                rarely.zero_grad()
                critic(generator[0](torch.randn(4, 6))).mean().backward()
                rarely.step()
    found = rows(tmp_path / "run", "SELECT optimizer_id, carried_grad_norm FROM steps WHERE step >= 64")
    assert {optimizer_id for optimizer_id, _ in found} == {0, 1}
    assert not any(norm for _, norm in found)
    [(counted,)] = rows(tmp_path / "run", "SELECT max(step) + 1 FROM losses")
    assert 9 * EVERY <= counted <= 10 * EVERY  # what begins beside another iteration may count as a part of it


@pytest.mark.parametrize("optimizers", [1, 2])
def test_a_scaler_that_is_switched_off_makes_no_iteration_of_its_own(tmp_path, seldom, optimizers):
    made = [network(seed) for seed in range(optimizers)]
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    with Recorder(tmp_path / "run"):
        for _ in range(60):
            for model, optimizer in made:
                optimizer.zero_grad()
                scaler.scale(model(torch.ones(4, 6)).square().mean()).backward()
                scaler.step(optimizer)
                scaler.update()
    assert completed_steps(tmp_path / "run") == {0: 60}
    with Trace(tmp_path / "run") as trace:
        assert trace.rows("SELECT count(*) AS n FROM steps WHERE NOT stepped") == [{"n": 0}]
        assert trace.rows("SELECT max(step) AS last FROM unwatched_steps") == [{"last": 59}]


def test_an_optimizer_that_joins_is_seen(tmp_path, seldom):
    left, first = network(1)
    right, second = network(2)
    with Recorder(tmp_path / "run"):
        train(left, first, 20)
        for _ in range(20):
            train(left, first, 1)
            train(right, second, 1)
    optimizers = rows(tmp_path / "run", "SELECT DISTINCT optimizer_id FROM param_groups ORDER BY 1")
    assert optimizers == [(0,), (1,)]


def test_the_first_step_of_an_optimizer_that_takes_over_counts(tmp_path, seldom):
    model, first = network()
    with Recorder(tmp_path / "run", model=model, budget="3%"):
        train(model, first, 41)
        train(model, torch.optim.Adam(model.parameters(), 1e-3), 40)

    steps = rows(
        tmp_path / "run", "SELECT step, 1 FROM steps WHERE stepped UNION ALL SELECT step, steps FROM unwatched_steps"
    )
    assert sum(count for _, count in steps) == 81


def test_loaders_and_schedules_are_followed_through(tmp_path, seldom):
    model, optimizer = network()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    loader = DataLoader(TensorDataset(torch.randn(40, 6)), batch_size=4)
    with Recorder(tmp_path / "run"):
        for _ in range(7):
            for (x,) in loader:
                train(model, optimizer, 1, x=x)
                schedule.step()
    run = tmp_path / "run"
    places = rows(run, "SELECT DISTINCT step, epoch, batch_index FROM batches WHERE loader_id IS NOT NULL ORDER BY 1")
    assert places
    assert all(10 * epoch + index == step for step, epoch, index in places)
    stepped = rows(run, "SELECT step, steps, total_steps FROM schedulers ORDER BY step")
    assert all(steps == (step > 0) and total == step for step, steps, total in stepped if step > WATCHED_AT_FIRST)


def test_an_exception_names_the_step_in_progress(tmp_path, seldom):
    model, optimizer = network()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), Recorder(tmp_path / "run"):
        train(model, optimizer, 1, x=torch.ones(4, train(model, optimizer, 21) and 5))
    assert rows(
        tmp_path / "run",
        "SELECT step, module FROM events LEFT JOIN modules USING (module_id) WHERE event = 'exception'",
    ) == [(21, "0")]
    assert not nn_module._has_any_global_hook()


def test_a_fault_of_ours_ends_the_stretch_and_the_training_goes_on(tmp_path, seldom, monkeypatch):
    model, optimizer = network()
    with Recorder(tmp_path / "run") as recorder:
        train(model, optimizer, WATCHED_AT_FIRST + 2)
        unwatched = recorder._attachment.unwatched
        monkeypatch.setattr(unwatched, "_add_row", lambda _: 1 / 0)
        train(model, optimizer, 30)
        monkeypatch.undo()
    ((part,),) = rows(tmp_path / "run", "SELECT detail->>'part' FROM events WHERE event = 'recorder-fault'")
    assert part == "unwatched-steps"


KILLED = """
import os, signal, sys, torch
torch.set_num_threads(1)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_has_lost_no_step(bench):
    (bench.folder / "firstfault.toml").write_text('[run]\ngrace = "1ms"\n')
    bench.write(KILLED)
    recorded = bench.record("script.py", "3777")
    assert rows(recorded.run, "SELECT sum(steps) > 1000 FROM unwatched_steps") == [(True,)]
    assert completed_steps(recorded.run) == {0: 3777}
    with Trace(recorded.run) as trace:
        assert diagnose(trace).run.steps_recorded == 3777


@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_an_operator_that_will_lose_the_gradient_is_looked_at_in_its_own_step(tmp_path, seldom, monkeypatch):
    """The loss of the step is finite: only what the square root holds tells that its gradient will not be."""
    monkeypatch.setattr(Budget, "may_look", lambda *_: True)
    torch.manual_seed(0)
    model = nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Recorder(tmp_path / "run"):
        for step in range(24):
            x = torch.rand(4, 6) + 1
            optimizer.zero_grad()
            energy = (model(x) * (0.0 if step == 20 else 1.0)).square().sum(1)
            energy.sqrt().mean().backward()
            optimizer.step()
    found = rows(tmp_path / "run", "SELECT DISTINCT step, op FROM operators WHERE trigger = 'risk' ORDER BY step")
    assert found == [(20, "Sqrt")]
    watched = rows(tmp_path / "run", "SELECT loss, grad_norm FROM steps WHERE step = 20")
    assert math.isfinite(watched[0][0])
    assert math.isnan(watched[0][1])
    with Trace(tmp_path / "run") as trace:
        verdict = diagnose(trace)
    assert (verdict.causes[0].name, verdict.causes[0].step) == ("sqrt-at-zero", 20)


@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_a_run_that_stays_lost_goes_unwatched_again_until_it_is_sound(tmp_path, seldom, monkeypatch):
    monkeypatch.setattr("firstfault.recorder.loop.unwatched_steps._MOST_LOST", 20)
    model, optimizer = network()
    with Recorder(tmp_path / "run"):
        train(model, optimizer, 30)
        with torch.no_grad():
            kept = model[0].weight.clone()
            model[0].weight.view(-1)[0] = math.nan
        train(model, optimizer, 100)
        lost = rows(tmp_path / "run", "SELECT step FROM steps WHERE step >= 30 AND NOT isfinite(loss)")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.nan_to_num_()
            model[0].weight.copy_(kept)
        train(model, optimizer, 40)
        with torch.no_grad():
            model[0].weight.view(-1)[0] = math.nan
        train(model, optimizer, 10)
    assert lost[0] == (30,)
    assert sum(step < 52 for (step,) in lost) >= 10
    assert sum(step >= 60 for (step,) in lost) <= 3 * 100 // EVERY  # a watched one has the next two looked at as well
    assert (170,) in rows(tmp_path / "run", "SELECT step FROM steps WHERE NOT isfinite(loss)")


@pytest.mark.parametrize("seldom", [1], indirect=True)
@pytest.mark.parametrize("ignored", [True, False])
def test_a_nan_that_a_loss_leaves_out_is_looked_at_in_its_own_step(tmp_path, seldom, monkeypatch, ignored):
    """The padded row of a fully masked sample is ignored: the loss stays finite, and every gradient is lost."""
    monkeypatch.setattr(Budget, "may_look", lambda *_: True)
    torch.manual_seed(0)
    model = nn.Linear(6, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    targets = torch.tensor([0, 1, 2, -100])
    with Recorder(tmp_path / "run"):
        for step in range(24):
            hidden = torch.zeros(4, 4, dtype=torch.bool)
            hidden[3] = step == 20 and ignored
            x = torch.rand(4, 6)
            optimizer.zero_grad()
            scores = (model(x).sum() * (x @ x.T)).masked_fill(hidden, -torch.inf)
            nn.functional.cross_entropy(scores.softmax(-1) @ model(x), targets).backward()
            optimizer.step()
    watched = rows(tmp_path / "run", "SELECT step FROM steps WHERE step BETWEEN 18 AND 22")
    assert watched == ([(20,), (21,), (22,)] if ignored else [])
    with Trace(tmp_path / "run") as trace:
        causes = [(c.name, c.step) for c in diagnose(trace).causes if c.severity != "warning"]
    assert causes[:1] == ([("fully-masked-attention-row", 20)] if ignored else [])


@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_an_operator_that_can_lose_the_gradient_in_every_step_is_soon_left_alone(tmp_path, seldom, monkeypatch):
    monkeypatch.setattr(Budget, "may_look", lambda *_: True)
    torch.manual_seed(0)
    model = nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    padding = torch.tensor([1.0, 1.0, 1.0, 0.0])
    with Recorder(tmp_path / "run"):
        for _ in range(400):
            optimizer.zero_grad()
            energy = (model(torch.rand(4, 6) + 1) * padding[:, None]).square().sum(1)
            torch.where(energy > 0, energy + 1e-6, energy * 0 + 1e-6 * padding).sqrt().mul(
                padding
            ).nan_to_num().sum().backward()
            for parameter in model.parameters():
                parameter.grad.nan_to_num_()
            optimizer.step()
    ((unwatched,),) = rows(tmp_path / "run", "SELECT sum(steps) FROM unwatched_steps")
    assert unwatched > 250


@pytest.mark.parametrize("seldom", [1], indirect=True)
def test_a_loss_without_a_graph_is_no_fault(tmp_path, seldom, monkeypatch):
    monkeypatch.setattr(Budget, "may_look", lambda *_: True)
    torch.manual_seed(0)
    model = nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    leaf = torch.zeros((), requires_grad=True)
    with Recorder(tmp_path / "run"):
        for step in range(24):
            optimizer.zero_grad()
            if step == 20:
                leaf.backward()
            (model(torch.rand(4, 6) + 1).square().sum(1) + 1).sqrt().mean().backward()
            optimizer.step()
    assert rows(tmp_path / "run", "SELECT message FROM events WHERE event = 'recorder-fault'") == []


@pytest.mark.parametrize("lost", ["batch", "weight"])
def test_a_batch_that_is_lost_in_an_unwatched_step_is_named(tmp_path, monkeypatch, lost):
    """The first layer has saved what it was given: enough to tell data from weights."""
    monkeypatch.setattr(Budget, "unwatched_steps", lambda _, step: (-step % EVERY if step >= 8 else 0, 1))
    monkeypatch.setattr(Budget, "watching_is_dear", property(lambda _: True, lambda *_: None), raising=False)
    model, optimizer = network()
    with Recorder(tmp_path / "run", budget="off"):
        train(model, optimizer, 20)
        if lost == "batch":
            train(model, optimizer, 4, x=torch.full((4, 6), math.nan))
        else:
            with torch.no_grad():
                model[0].weight.fill_(math.nan)
            train(model, optimizer, 4)
    with Trace(tmp_path / "run") as trace:
        first = diagnose(trace).causes[0]
    assert first.step == 20
    assert (first.name == "nonfinite-input") is (lost == "batch")
