"""What an intervention does from its step on, and that it does nothing before."""

import tomllib
from pathlib import Path

import firstfault.reports
import pytest
import torch
import torch.nn.functional as F
from firstfault.analyzer import load_rules
from firstfault.recorder.probes.interventions import INTERVENTIONS, intervened
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TABLE = tomllib.loads((Path(firstfault.reports.__file__).parent / "reruns" / "interventions.toml").read_text("utf-8"))


def test_every_name_in_the_table_is_a_rule_and_every_intervention_exists():
    rules = {rule.header.name for rule in load_rules()}
    assert set(TABLE) <= rules
    used = {name for entry in TABLE.values() for name in [*entry["confirm"], *entry.get("refute", [])]}
    assert used <= set(INTERVENTIONS)


def masked_softmax():
    scores = torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]])
    return scores.softmax(-1)


def test_a_fully_masked_row_is_opened_only_from_the_step_on():
    assert masked_softmax().isnan().any()
    with intervened("masked-rows-opened", step=3, now=lambda: 2):
        assert masked_softmax().isnan().any()
    with intervened("masked-rows-opened", step=3, now=lambda: 3):
        assert masked_softmax().isfinite().all()
        assert torch.equal(masked_softmax()[0], torch.tensor([0.0, 1.0]).softmax(-1))
    assert masked_softmax().isnan().any()


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("log-above-zero", lambda x: x.log().sum()),
        ("sqrt-above-zero", lambda x: x.sqrt().sum()),
        ("divisor-not-zero", lambda x: (1 / x.exp().log().abs() - 1 / x).sum() + (x / x).sum()),
        ("domain-kept", lambda x: torch.acos(1 + x).sum()),
    ],
)
def test_arguments_are_moved_into_the_domain(name, lost):
    def gradient():
        x = torch.zeros(3, requires_grad=True)
        lost(x).backward()
        return x.grad

    assert not gradient().isfinite().all()
    with intervened(name):
        assert gradient().isfinite().all()


def steps_of(name, gradients, step=1, lrs=None):
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    at, seen = [0], []
    with intervened(name, step=step, now=lambda: at[0]):
        for i, gradient in enumerate(gradients):
            at[0] = i
            if lrs:
                optimizer.param_groups[0]["lr"] = lrs[i]
            before = parameter.detach().clone()
            parameter.grad = torch.full((1,), float(gradient)) + (parameter.grad if parameter.grad is not None else 0)
            optimizer.step()
            seen.append(round(float(before - parameter.detach()), 6))
    return seen


def test_learning_rates_are_kept_or_scaled_from_the_step_on():
    assert steps_of("lr-kept", [1, 1, 1], step=2, lrs=[0.1, 0.2, 9.0])[2] == pytest.approx(0.2 * 3)
    plain, scaled = steps_of("nothing", [1, 1]), steps_of("lr-tenth", [1, 1])
    assert scaled[0] == plain[0]
    assert scaled[1] == pytest.approx(plain[1] / 10, abs=1e-6)
    assert steps_of("lr-tenfold", [1, 1])[1] == pytest.approx(plain[1] * 10, abs=1e-5)
    held = steps_of("lr-held", [1, 1, 1], step=2, lrs=[0.1, 0.3, 0.0])
    assert held == pytest.approx([0.1, 0.6, 0.9], abs=1e-5)


def test_gradients_are_clipped_to_their_history_and_cleared():
    assert steps_of("clip-on", [1.0, 50.0]) == pytest.approx([0.1, 0.1], abs=1e-5)
    assert steps_of("gradients-cleared", [1, 1, 1], step=0) == pytest.approx([0.1, 0.1, 0.1], abs=1e-6)
    assert steps_of("nothing", [1, 1, 1], step=0) == pytest.approx([0.1, 0.2, 0.3], abs=1e-6)


def test_inputs_are_held_within_what_each_feature_has_shown():
    model, at, seen = nn.Identity(), [0], []
    model.register_forward_pre_hook(lambda _m, args: seen.append(args[0].clone()))
    with intervened("inputs-clipped", step=1, now=lambda: at[0]):
        model(torch.tensor([[0.0, 5.0], [1.0, 6.0]]))
        at[0] = 1
        out = model(torch.tensor([[9.0, 5.5]]))
    assert out.tolist() == [[1.0, 5.5]]


def batches_with(step, **values):
    loader = DataLoader(TensorDataset(torch.arange(12.0).view(12, 1)), batch_size=3)
    at, seen = [0], []
    with intervened("batch-replaced", step=step, now=lambda: at[0], **values):
        for i, (batch,) in enumerate(loader):
            at[0] = i
            seen.append(batch.flatten().tolist())
    return seen


def test_a_batch_is_replaced_by_the_one_before_it_whole_or_sample_by_sample():
    assert batches_with(2)[2] == batches_with(99)[1]
    assert batches_with(2)[3] == [9.0, 10.0, 11.0]
    assert batches_with(2, samples=[1])[2] == [6.0, 4.0, 8.0]


def test_autocast_is_switched_off():
    def dtype():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

    assert dtype() is torch.bfloat16
    with intervened("float32"):
        assert dtype() is torch.float32


def test_targets_out_of_range_are_ignored():
    x, target = torch.zeros(2, 3), torch.tensor([1, 7])
    with intervened("targets-in-range"):
        assert float(F.cross_entropy(x, target)) == pytest.approx(1.0986, abs=1e-3)


def test_a_loss_is_turned():
    x = torch.ones(1, requires_grad=True)
    with intervened("loss-turned"):
        (2 * x).sum().backward()
    assert x.grad.tolist() == [-2.0]


@pytest.mark.parametrize(
    ("name", "gradients"),
    [
        ("first-term-turned", (-1.0, -6.0)),
        ("second-term-turned", (1.0, 6.0)),
        ("third-term-turned", (1.0, -6.0)),
        ("loss-turned", (-1.0, 6.0)),
    ],
)
def test_one_term_of_a_loss_is_turned(name, gradients):
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    with intervened(name):
        ((a.sum() - 2 * b.square().sum() * 0.5 * 3) / 1 + 4).backward()
    assert (a.grad[0].item(), b.grad[0].item()) == gradients


def test_of_a_loss_of_a_single_term_none_is_turned():
    x = torch.ones(3, requires_grad=True)
    with intervened("first-term-turned"):
        (x - 2 * x).mean().backward()  # a difference of tensors within one term
    assert x.grad.tolist() == pytest.approx([-1 / 3] * 3)


def losses_of(name, targets, step=2):
    """Losses of steps without a loader, whose inputs and targets are as given."""
    model, at, seen = nn.Identity(), [0], []
    with intervened(name, step=step, now=lambda: at[0]):
        for i, target in enumerate(targets):
            at[0] = i
            x = model(torch.full((len(target), 3), float(i)))
            seen.append((x[0, 0].item(), F.nll_loss(x, torch.tensor(target)).item()))
    return seen


def test_without_a_loader_inputs_and_targets_of_the_step_before_are_given_again():
    plain = losses_of("nothing", [[0, 1], [1, 1], [2, 2, 2], [0, 0]])
    given = losses_of("batch-replaced", [[0, 1], [1, 1], [2, 2, 2], [0, 0]])
    assert given == [plain[0], plain[1], plain[1], plain[3]]
    with pytest.raises(IndexError, match="out of bounds"):
        losses_of("nothing", [[0, 1], [1, 1], [2, 9]])
    assert losses_of("batch-replaced", [[0, 1], [1, 1], [2, 9]])[2] == plain[1]


def test_classes_counted_from_one_are_counted_from_zero():
    x, target = torch.log_softmax(torch.eye(3), 1), torch.tensor([1, 2, 3])
    with intervened("targets-from-zero"):
        moved = F.nll_loss(x, target)
    assert moved == F.nll_loss(x, target - 1)
    with intervened("targets-from-zero"):
        assert F.nll_loss(x, target - 1) == moved


def test_optimizer_states_are_dropped_once_or_kept_where_they_are_lost():
    def moments(name):
        parameter = nn.Parameter(torch.zeros(1))
        at, seen = [0], []
        with intervened(name, step=2, now=lambda: at[0]):
            optimizer = torch.optim.Adam([parameter])
            for i in range(4):
                at[0] = i
                if i == 2:
                    optimizer = torch.optim.Adam([parameter])
                parameter.grad = torch.ones(1)
                optimizer.step()
                seen.append(int(optimizer.state[parameter]["step"]))
        return seen

    assert moments("nothing") == [1, 2, 1, 2]
    assert moments("optimizer-state-kept") == [1, 2, 3, 4]

    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    at, seen = [0], []
    with intervened("optimizer-state-reset", step=2, now=lambda: at[0]):
        for i in range(4):
            at[0] = i
            parameter.grad = torch.ones(1)
            optimizer.step()
            seen.append(round(optimizer.state[parameter]["momentum_buffer"].item(), 4))
    assert seen == [1.0, 1.9, 1.0, 1.9]


@pytest.mark.parametrize("name", ["float64", "nothing"])
def test_weights_states_and_inputs_are_computed_in_float64_from_the_step_on(name):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    at, seen = [0], []
    with intervened(name, step=2, now=lambda: at[0]):
        for i in range(4):
            at[0] = i
            out = model(torch.randn(5, 2))
            loss = F.binary_cross_entropy_with_logits(out, torch.ones(5, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append((out.dtype, optimizer.state[model[0].weight]["exp_avg"].dtype))
    wide = torch.float64 if name == "float64" else torch.float32
    assert seen == [(torch.float32, torch.float32)] * 2 + [(wide, wide)] * 2


def test_one_module_alone_is_computed_in_float64():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    with intervened("float64", module="0"):
        out = model(torch.randn(5, 2))
    assert (model[0].weight.dtype, model[1].weight.dtype, out.dtype) == (torch.float64, torch.float32, torch.float32)


def test_half_weights_are_computed_in_float32_and_autocast_alone_is_left_out():
    model = nn.Linear(2, 1).to(torch.bfloat16)
    with intervened("autocast-off"), torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
        assert model(torch.ones(1, 2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    with intervened("float32"):
        assert model(torch.ones(1, 2, dtype=torch.bfloat16)).dtype is torch.float32


@pytest.mark.parametrize("name", ["float32", "float64", "nothing"])
def test_what_the_script_takes_down_to_half_precision_stays_as_it_is(name):
    norm = torch.full((4,), 300.0)
    with intervened(name):
        squares = [x.square().sum().isfinite().item() for x in (norm.half(), norm.to(torch.float16))]
        assert torch.arange(3).to(torch.float16).dtype is (torch.float16 if name == "nothing" else getattr(torch, name))
    assert squares == [name != "nothing"] * 2


@pytest.mark.parametrize(("name", "lost"), [("nothing", True), ("loss-scaled-up", False)])
def test_gradients_below_what_half_precision_holds_are_there_with_a_scaled_loss(name, lost):
    model = nn.Linear(4, 1)
    for _ in range(2):
        with intervened(name):
            hidden = model(torch.ones(1, 4)).half()
            (hidden.float() * 1e-9).sum().backward()
    assert (model.weight.grad.abs().sum() == 0) == lost
    if not lost:
        assert torch.allclose(model.weight.grad, torch.full((1, 4), 2e-9), rtol=1e-2)


def test_what_a_callback_freezes_is_trained_all_the_same():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    at, moved = [0], []
    with intervened("all-trained"):
        for i in range(3):
            at[0] = i
            model[0].requires_grad_(i < 1)
            before = model[0].weight.detach().clone()
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
            moved.append(not torch.equal(before, model[0].weight))
    assert moved == [True, True, True]


def test_a_rank_above_the_first_ends_where_it_would_have_joined_and_the_first_is_alone(monkeypatch, tmp_path):
    where = f"file://{tmp_path / 'store'}"
    with intervened("one-rank"), pytest.raises(SystemExit):
        torch.distributed.init_process_group("gloo", init_method=where, rank=1, world_size=2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with intervened("one-rank"):
        torch.distributed.init_process_group("gloo", init_method=where, rank=0, world_size=2)
        assert torch.distributed.get_world_size() == 1
        torch.distributed.destroy_process_group()


def test_algorithms_are_deterministic_within():
    with intervened("deterministic"):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_compile_gives_back_what_it_is_given():
    model = nn.Linear(2, 1)
    with intervened("eager"):
        assert torch.compile(model) is model


def test_modes_follow_whether_gradients_are_on():
    model = nn.Sequential(nn.Dropout(0.5)).eval()
    with intervened("modes-set"):
        model(torch.ones(1))
        assert model[0].training
        with torch.no_grad():
            model(torch.ones(1))
        assert not model[0].training


def test_weight_decay_and_eps_are_changed_from_the_step_on():
    cases = (
        ("no-weight-decay", "weight_decay", [0.1, 0.0]),
        ("eps-larger", "eps", [1e-8, 1e-4]),
        ("eps-smaller", "eps", [1e-8, 1e-15]),
    )
    for name, key, values in cases:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.AdamW([parameter], weight_decay=0.1)
        at, seen = [0], []
        with intervened(name, step=1, now=lambda: at[0]):  # noqa: B023
            for i in range(2):
                at[0] = i
                parameter.grad = torch.ones(1)
                optimizer.step()
                seen.append(optimizer.param_groups[0][key])
        assert seen == values
