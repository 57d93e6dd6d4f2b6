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
