"""Each probe finds its fault in one model and passes its twin; nothing of the user's is changed."""

import base64
import math
import random
import struct
import sys

import pytest
import torch
import torch.nn.functional as F
from firstfault.recorder import probes
from firstfault.recorder.probes import data_probes
from firstfault.recorder.probes.first_batch import pictures, png
from firstfault.recorder.probes.gradients import custom_function
from firstfault.recorder.probes.learning import _band
from firstfault.recorder.probes.random_states import random_states, set_random_states
from firstfault.recorder.probes.schedules import simulate
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 16, batch_first=batch_first)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


class Causal(nn.Module):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.tokens = nn.Embedding(20, 16)
        self.out = nn.Linear(16, 20)

    def forward(self, x):
        h = self.tokens(x)
        scores = h @ h.transpose(1, 2) / 4
        if self.masked:
            scores = scores.masked_fill(torch.ones(scores.shape[-1], scores.shape[-1]).triu(1).bool(), -1e9)
        return self.out(scores.softmax(-1) @ h)


def mlp(**kwargs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3), **kwargs)


def classes(count=16):
    torch.manual_seed(1)
    x = torch.randn(count, 6)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def cross_entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def bench(model, batch=None, loss=cross_entropy, lr=1e-2, **kwargs):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return probes.Bench(model, batch or classes(), loss, optimizer, **kwargs)


def test_a_model_that_can_learn_learns_its_first_batch():
    found = probes.can_learn(bench(mlp()))
    assert (found.outcome, found.code) == ("passed", "learns")
    assert found.values["last"] < found.values["first"] / 2
    assert found.values["idle_count"] == 0


def test_a_loss_that_does_not_depend_on_the_weights_cannot_be_learnt():
    found = probes.can_learn(
        bench(mlp(), loss=lambda m, b: F.cross_entropy(m(b[0]).detach(), b[1]) + 0 * m(b[0]).sum())
    )
    assert (found.outcome, found.code) == ("failed", "does-not-learn")


def test_layers_that_take_no_part_are_named():
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(6, 32), nn.Linear(32, 3)

        def forward(self, x):
            return self.head(self.body(x).relu().detach())

    torch.manual_seed(0)
    found = probes.can_learn(bench(Detached(), lr=0.05))
    assert found.values["idle"] == ["body.weight", "body.bias"]


@pytest.mark.parametrize(("lr", "codes"), [(1e-2, {"lr-in-band"}), (50.0, {"lr-diverges", "lr-near-divergence"})])
def test_the_range_test_tells_a_learning_rate_that_diverges_from_one_in_the_band(lr, codes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = classes(64)
    made = probes.Bench(
        model, (x, y.float()), lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]), torch.optim.SGD(model.parameters(), lr=lr)
    )
    assert probes.lr_range(made).code in codes


@pytest.mark.parametrize(("batch_first", "code"), [(True, "sample-alone"), (False, "sample-leaks")])
def test_a_forgotten_batch_first_lets_samples_see_each_other(batch_first, code):
    torch.manual_seed(0)
    found = probes.samples_alone(bench(Recurrent(batch_first), (torch.randn(12, 7, 8), torch.randint(3, (12,)))))
    assert found.code == code


@pytest.mark.parametrize(("mixes", "code"), [(False, "sample-alone"), (True, "sample-leaks")])
def test_outputs_of_pairs_of_samples_are_of_both(mixes, code):
    class Pairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(5, 4), nn.Linear(5, 4)

        def forward(self, x):
            y = self.other(x)
            return self.one(x) @ (y - y.mean(0) if mixes else y).T

    assert probes.samples_alone(bench(Pairs(), (torch.randn(12, 5), torch.arange(12)))).code == code


def test_batch_norm_is_no_leak_because_outputs_are_compared_in_eval_mode():
    model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.Linear(32, 3))
    assert probes.samples_alone(bench(model)).code == "sample-alone"


@pytest.mark.parametrize(("masked", "code"), [(True, "future-hidden"), (False, "future-leaks")])
def test_a_language_model_without_a_mask_sees_what_it_predicts(masked, code):
    torch.manual_seed(0)
    text = torch.randint(20, (5, 13))
    batch = text[:, :-1].clone(), text[:, 1:].clone()
    made = bench(Causal(masked), batch, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten()))
    assert probes.future_hidden(made).code == code


class Dilated(nn.Module):
    """Convolutions in time, as in WaveNet: of tokens, of one-hot rows or of values in one channel."""

    def __init__(self, causal, reads, shape):
        super().__init__()
        self.causal, self.reads, self.shape = causal, reads, shape
        self.embed = nn.Embedding(20, 8) if reads == "tokens" else nn.Conv1d(20 if reads == "one-hot" else 1, 8, 1)
        self.conv, self.out = nn.Conv1d(8, 8, 3), nn.Conv1d(8, 20, 1)

    def forward(self, x):
        h = self.embed(x).transpose(1, 2) if self.reads == "tokens" else self.embed(x)
        h = self.out(self.conv(F.pad(h, (2, 0) if self.causal else (1, 1))))
        if self.shape == "flat":
            return h.transpose(1, 2).reshape(-1, 20)
        return h.permute(2, 0, 1) if self.shape == "time first" else h


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("reads", "shape"),
    [
        ("tokens", "time last"),
        ("tokens", "flat"),
        ("tokens", "time first"),
        ("one-hot", "time last"),
        ("values", "flat"),
    ],
)
def test_the_future_is_looked_for_wherever_the_time_axis_is(causal, reads, shape):
    torch.manual_seed(0)
    levels = torch.randint(20, (5, 13))
    x, goal = levels[:, :-1].clone(), levels[:, 1:].clone()
    if reads == "one-hot":
        x = F.one_hot(x, 20).transpose(1, 2).float()
    elif reads == "values":
        x = (x.unsqueeze(1) - 10) / 7

    def loss(model, batch):
        y = model(batch[0])
        y = y.permute(1, 2, 0) if shape == "time first" else y
        return F.cross_entropy(y, batch[1])

    goal = goal.flatten() if shape == "flat" else goal
    found = probes.future_hidden(bench(Dilated(causal, reads, shape), (x, goal), loss))
    assert found.code == ("future-hidden" if causal else "future-leaks")


@pytest.mark.parametrize("moved", [0, 1])
def test_the_next_values_of_a_signal_are_told_from_a_field_that_wanders_in_a_circle(moved):
    torch.manual_seed(0)
    wave = torch.randn(4, 33)
    batch = (wave[:, None, :-1].clone(), wave[:, None, 1:].clone())
    if not moved:
        batch = (wave[:, None].clone(), wave[:, None].roll(-1, 2))
    model = nn.Conv1d(1, 1, 3, padding=1)
    found = probes.future_hidden(bench(model, batch, lambda m, b: F.mse_loss(m(b[0]), b[1])))
    assert found.code == ("future-leaks" if moved else "no-language-model")


@pytest.mark.parametrize("used", [True, False])
def test_a_head_of_zeros_is_no_ignored_input_and_hides_none(used):
    """Outputs that are all zero at the start depend on nothing yet; with other weights they do, or do not."""

    class ZeroHead(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

        def forward(self, x):
            return self.head(torch.tanh(self.body(x if used else x * 0)))

    model = ZeroHead()
    before = [p.clone() for p in model.parameters()]
    made = bench(model)
    assert probes.samples_alone(made).code == ("sample-alone" if used else "sample-ignored")
    assert probes.target_counts(made).code == ("target-counts" if used else "outputs-alike")
    assert probes.input_counts(made).code == ("input-counts" if used else "input-ignored")
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_what_is_no_language_model_is_not_tried_for_the_future():
    assert probes.future_hidden(bench(mlp())).outcome == "untried"


@pytest.mark.parametrize(
    ("loss", "code"), [(cross_entropy, "target-counts"), (lambda m, b: m(b[0]).square().mean(), "target-ignored")]
)
def test_a_loss_that_does_not_look_at_the_target_is_found(loss, code):
    assert probes.target_counts(bench(mlp(), loss=loss)).code == code


def test_a_model_that_gives_all_samples_the_same_in_evaluation_mode_hides_no_target():
    class Collapsed(nn.Module):
        """As a deep model with batch normalisation is at its start."""

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            return self.head(x if self.training else 1e-9 * x)

    assert probes.target_counts(bench(Collapsed())).code == "target-counts"
    ignoring = bench(Collapsed(), loss=lambda m, b: m(b[0]).square().mean())
    assert probes.target_counts(ignoring).code == "target-ignored"


def test_a_loss_that_does_not_look_at_the_input_is_found():
    found = probes.input_counts(bench(mlp(), loss=lambda m, b: F.cross_entropy(m(b[0] * 0), b[1])))
    assert found.code == "input-ignored"


def test_a_detached_branch_shows_as_a_wrong_gradient_and_its_twin_does_not():
    class Scaled(nn.Module):
        def __init__(self, detach):
            super().__init__()
            self.detach, self.body, self.scale = detach, mlp(), nn.Linear(6, 3)

        def forward(self, x):
            scale = self.scale(x) * 3
            return self.body(x) + (scale.detach() if self.detach else scale)

    torch.manual_seed(0)
    assert probes.gradients_right(bench(Scaled(detach=False))).code == "gradient-right"
    torch.manual_seed(0)
    assert probes.gradients_right(bench(Scaled(detach=True))).code == "gradient-wrong"


@pytest.mark.parametrize("way", ["detach", "data", "no_grad"])
@pytest.mark.parametrize(
    ("trained", "code"), [(True, "detached-on-purpose"), (False, "gradient-wrong")], ids=["trained", "untrained"]
)
def test_a_stop_gradient_is_meant_where_the_weights_behind_it_are_trained_in_another_way(way, trained, code):
    class Durations(nn.Module):
        """A predictor looks at the encoder's states and does not move them, as in speech synthesis."""

        def __init__(self):
            super().__init__()
            self.encoder, self.head, self.predictor = nn.Linear(6, 16), nn.Linear(16, 3), nn.Linear(16, 3)

        def forward(self, x):
            if way == "no_grad":
                with torch.no_grad():
                    states = self.encoder(x).tanh() * 2
            else:
                states = self.encoder(x).tanh() * 2
                states = states.detach() if way == "detach" else states.data
            kept = self.head(self.encoder(x)) if trained else 0
            return kept + 3 * self.predictor(states)

    torch.manual_seed(0)
    found = probes.gradients_right(bench(Durations()))
    assert found.code == code
    assert found.outcome == ("untried" if trained else "doubtful")
    if trained:
        assert "test_probes.py" in found.values["place"]


@pytest.mark.parametrize(("each_time", "code"), [(False, "gradient-right"), (True, "detached-on-purpose")])
def test_what_is_set_up_from_the_first_batch_does_not_follow_the_weights_later(each_time, code):
    class Prototypes(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp()
            self.register_buffer("means", torch.zeros(3, 3))
            self.register_buffer("ready", torch.tensor(False))

        def forward(self, x, y):
            out = self.body(x)
            if each_time or not self.ready:
                self.means.copy_(torch.stack([out.detach()[y == c].mean(0) for c in range(3)]))
                self.ready.fill_(True)
            return out @ self.means.clone().T

    torch.manual_seed(0)
    found = probes.gradients_right(bench(Prototypes(), loss=lambda m, b: F.cross_entropy(m(*b) * 20, b[1])))
    assert found.code == code


def test_differences_of_a_loss_in_bfloat16_say_nothing_of_autograd():
    class Cast(nn.Sequential):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(x)

    torch.manual_seed(0)
    found = probes.gradients_right(bench(Cast(nn.Linear(6, 64), nn.GELU(), nn.Linear(64, 3))))
    assert (found.outcome, found.code) == ("untried", "differences-disagree")


@pytest.mark.parametrize(("drawn", "code"), [(False, "gradient-right"), (True, "gradient-wrong")])
def test_a_latent_without_a_gradient_is_found_in_a_loss_whose_second_term_warms_up(drawn, code):
    class Variational(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)

        def forward(self, x):
            mean, spread = self.encoder(x).chunk(2, -1)
            latent = torch.normal(mean, spread.exp()) if drawn else mean + spread.exp() * torch.randn_like(mean)
            return self.decoder(latent), mean.square().sum(-1).mean() + (spread.exp() - spread).sum(-1).mean()

    made = []

    def loss(model, batch):
        made.append(0)
        out, term = model(batch[0])
        return F.mse_loss(out, batch[0]) + min(1.0, len(made) / 400) * term

    torch.manual_seed(0)
    here = bench(Variational(), [torch.randn(32, 6)], loss=loss)
    assert probes.repeatable(here).code == "count-followed"
    assert probes.gradients_right(here).code == code


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class WrongSquare(Square):
    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0] * gradient


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -0.5 * grad


class Stopped(Reversed):
    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad)


class Masked(torch.autograd.Function):
    """Passes its input on; what it does to the gradient is no number."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.saved_tensors[0] > 0)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (Square, "function-right"),
        (WrongSquare, "function-wrong"),
        (Rounded, "straight-through"),
        (Reversed, "gradient-scaled"),
        (Stopped, "function-wrong"),
        (Masked, "function-wrong"),
    ],
)
def test_gradcheck_refuses_a_wrong_backward_and_leaves_straight_through_gradients_alone(function, code):
    torch.manual_seed(0)
    assert probes.custom_function(function, (torch.randn(5, 3, requires_grad=True),)).code == code


@pytest.mark.parametrize(
    ("factor", "code"),
    [
        (lambda made: 1.0, "same-bits"),
        (lambda made: min(1.0, 0.01 * made), "count-followed"),
        (lambda made: 1 - math.exp(-made / 20), "count-followed"),
        (lambda made: 1 + 1e-3 * (0.3, -1.2, 0.9, 1.7, -0.4)[made % 5], "gradient-differs"),
    ],
)
def test_a_number_that_no_seed_governs_is_told_from_one_that_counts_the_steps(factor, code):
    made = []

    def loss(model, batch):
        made.append(0)
        return cross_entropy(model, batch) * factor(len(made))

    found = probes.repeatable(bench(mlp(), loss=loss))
    assert found.code == code
    assert found.outcome == ("doubtful" if code == "gradient-differs" else "passed")


def scheduled(make):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    return make(optimizer)


def chained(optimizer, last):
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=10)
    return torch.optim.lr_scheduler.ChainedScheduler([warm_up, last], optimizer=optimizer)


@pytest.mark.parametrize(
    ("make", "steps", "code"),
    [
        (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=100), 100, "schedule-simulated"),
        (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=50), 100, "schedule-rises-again"),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=100), 100, "schedule-simulated"),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=60), 100, "schedule-raises"),
        (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: max(0.0, 1 - s / 40)), 100, "schedule-zero"),
        (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: 1e-3 * min(s / 10, 1)), 100, "schedule-far-below"),
        (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(s / 20_000, 1)), 100, "schedule-simulated"),
        (lambda o: torch.optim.lr_scheduler.StepLR(o, 30), 100, "schedule-simulated"),
        (lambda o: torch.optim.lr_scheduler.LinearLR(o, total_iters=400), 100, "schedule-never-falls"),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=150), 100, "schedule-cut"),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=110), 100, "schedule-simulated"),
        (lambda o: chained(o, torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=20)), 100, "schedule-rises-again"),
        (lambda o: chained(o, torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=100)), 100, "schedule-simulated"),
        (
            lambda o: chained(o, torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 20)),
            100,
            "schedule-simulated",
        ),
        (torch.optim.lr_scheduler.ReduceLROnPlateau, 100, "schedule-of-a-metric"),
        (lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, min_lr=1.0), 100, "schedule-cannot-fall"),
    ],
)
def test_a_schedule_is_simulated_to_the_end(make, steps, code):
    assert probes.simulate(scheduled(make), steps).code == code


def cosine(total, *, warmup=0, floor=0.0):
    def multiplier(step):
        if step < warmup:
            return (step + 1) / warmup
        return max(floor, 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))))

    return multiplier


def cosine_with_period(total):
    return lambda step, period=total: 0.5 * (1 + math.cos(math.pi * step / period))


def of_ten(_):
    return lambda step: 0.5 * (1 + math.cos(math.pi * step / 100))


def triangle(total_steps):
    return lambda step, total_steps=total_steps: abs(1 - step / total_steps % 2)


def damped(max_steps):
    return lambda s: 0.5 * (1 + math.cos(math.pi * s / max_steps)) * math.exp(-s / max_steps)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (cosine(100), "schedule-waves"),
        (cosine(100, warmup=20, floor=0.01), "schedule-waves"),
        (cosine(1000), "schedule-simulated"),
        (cosine(1300), "schedule-simulated"),
        (cosine(4000, warmup=40, floor=0.01), "schedule-outlasts"),
        (lambda s, epochs=4000: max(0.0, 1 - s / epochs), "schedule-outlasts"),
        (cosine_with_period(100), "schedule-simulated"),
        (of_ten(100), "schedule-simulated"),
        (triangle(100), "schedule-simulated"),
        (damped(100), "schedule-simulated"),
        (lambda s: max(0.01, 0.9995**s), "schedule-simulated"),
        (lambda s: max(0.01, 1 / (1 + s / 1000)), "schedule-simulated"),
        (lambda s: (1 + s / 500) ** -0.5, "schedule-simulated"),
        (lambda s: min(1.0, s / 50), "schedule-simulated"),
        (lambda s: min(1.0, s / 9000), "schedule-only-rises"),
        (lambda s: min(1.0, s / 800), "schedule-simulated"),
        (lambda s: max(0.001, 1 - s / 100), "schedule-at-its-floor"),
        (lambda s: max(0.1, 1 - s / 100), "schedule-simulated"),
        (lambda s: max(0.001, 1 - s / 900), "schedule-simulated"),
        (lambda s: 0.5 ** (s // 900), "schedule-simulated"),
        (lambda s: 0.95 ** (s / 4), "schedule-simulated"),
        (lambda s: 0.95 ** (s / 3), "schedule-vanishes"),
    ],
)
def test_a_schedule_that_ends_long_before_or_after_the_run_is_doubted(function, code):
    made = scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, function))
    assert probes.simulate(made, 1000).code == code


def test_a_schedule_of_torch_that_is_made_for_a_much_longer_run_is_doubted():
    kinds = torch.optim.lr_scheduler
    for make, code in (
        (lambda o: kinds.CosineAnnealingLR(o, 400), "schedule-outlasts"),
        (lambda o: kinds.CosineAnnealingLR(o, 130), "schedule-simulated"),
        (lambda o: kinds.CosineAnnealingWarmRestarts(o, 400), "schedule-simulated"),
        (lambda o: kinds.MultiStepLR(o, [300, 500]), "schedule-simulated"),
        (lambda o: kinds.ExponentialLR(o, 0.999), "schedule-simulated"),
        (lambda o: kinds.LinearLR(o, 1.0, 0.01, total_iters=900), "schedule-outlasts"),
    ):
        assert probes.simulate(scheduled(make), 100).code == code


def test_a_decay_that_never_comes_is_doubted():
    kinds = torch.optim.lr_scheduler
    for make, code in (
        (lambda o: kinds.StepLR(o, 1e-3, gamma=0.8), "schedule-stands-still"),
        (lambda o: kinds.StepLR(o, 300, gamma=0.8), "schedule-stands-still"),
        (lambda o: kinds.StepLR(o, 30, gamma=0.8), "schedule-simulated"),
        (lambda o: kinds.StepLR(o, 300, gamma=1.0), "schedule-simulated"),
        (lambda o: kinds.LambdaLR(o, lambda _: 1.0), "schedule-simulated"),
    ):
        assert probes.simulate(scheduled(make), 100).code == code


class Growing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


def test_a_gradient_reversal_whose_strength_begins_at_nothing_is_no_wrong_backward():
    x = torch.randn(5, 3, requires_grad=True)
    assert probes.custom_function(Growing, (x, 0.0)).code == "gradient-scaled"
    assert probes.custom_function(Growing, (x, 0.3)).code == "gradient-scaled"


def test_a_straight_line_that_nobody_has_bounded_ends_where_it_comes_to_zero():
    line = scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: 1 - max(0, s - 1000) / 2000))
    found = simulate(line, by_step=True)
    assert (found.outcome, found.values["steps"], found.values["last"]) == ("passed", 3001, 0.0)
    assert simulate(line, 4000).code == "schedule-not-positive"


def test_a_schedule_that_rises_again_names_the_first_step_from_which_it_does():
    found = probes.simulate(
        scheduled(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=20)), 999, read=1000
    )
    assert found.values["low_step"] == 20
    assert (found.values["steps"], found.values["read"]) == (1000, True)


def test_a_function_that_gives_rates_is_right_where_the_optimizer_stands_in_with_one():
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0)
    noam = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 512**-0.5 * min((s + 1) ** -0.5, (s + 1) * 40**-1.5))
    assert probes.simulate(noam, 100).code == "schedule-simulated"


def test_simulating_leaves_scheduler_and_optimizer_where_they_are():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    one = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer, [one, torch.optim.lr_scheduler.StepLR(optimizer, 3)], [5]
    )
    before = scheduler.last_epoch, one.last_epoch, optimizer.param_groups[0]["lr"]
    probes.simulate(scheduler, 50)
    assert (scheduler.last_epoch, one.last_epoch, optimizer.param_groups[0]["lr"]) == before


class Characters:
    def __init__(self, letters, pad="<pad>", lower=False):
        self.vocabulary = {c: i for i, c in enumerate(letters)}
        self.pad_token, self.lower = pad, lower

    def encode(self, text):
        return [self.vocabulary.get(c, 0) for c in (text.lower() if self.lower else text)]

    def decode(self, ids):
        back = {i: c for c, i in self.vocabulary.items()}
        return "".join(back[i] for i in ids)

    def get_vocab(self):
        return self.vocabulary


def test_tokenizers_that_differ_are_told_by_the_first_difference():
    own = Characters("abcX")
    assert probes.consistent(own, Characters("abcX"), ["cab"]).code == "tokenizer-same"
    apart = probes.consistent(own, Characters("acbX"), ["cab"])
    assert (apart.code, apart.values["used"]) == ("tokenizer-vocabulary", 1)
    assert probes.consistent(own, Characters("abcX", pad="[PAD]")).values["what"] == "pad_token"
    different = probes.consistent(own, Characters("abcX", lower=True), ["aXb"])
    assert (different.code, different.values["place"]) == ("tokenizer-ids", 1)
    assert probes.round_trip(own, ["abc"]).outcome == "passed"
    assert probes.round_trip(Characters("abcX", lower=True), ["aXb"]).outcome == "doubtful"


def test_probes_leave_model_batch_optimizer_and_random_states_alone():
    model, batch = mlp(), classes()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    before = (
        [p.detach().clone() for p in model.parameters()],
        batch[0].clone(),
        torch.get_rng_state(),
        random.getstate(),
    )
    made = probes.Bench(model, batch, cross_entropy, optimizer)
    assert len(probes.check_all(made)) == 19
    assert all(torch.equal(a, b) for a, b in zip(before[0], model.parameters(), strict=True))
    assert torch.equal(before[1], batch[0])
    assert torch.equal(before[2], torch.get_rng_state())
    assert before[3] == random.getstate()
    assert not optimizer.state
    assert all(p.grad is None for p in model.parameters())


def test_images_of_the_first_batch_are_pngs_and_everything_else_is_values():
    shown = pictures({"images": torch.rand(3, 1, 16, 16), "labels": torch.arange(3), "text": torch.rand(3, 40)})
    assert [(p.name, len(p.png), bool(p.text)) for p in shown] == [
        ("images", 3, False),
        ("labels", 0, True),
        ("text", 0, True),
    ]
    image = base64.b64decode(shown[0].png[0])
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", image[16:24]) == (16, 16)
    assert png(torch.zeros(2, 5, 3, dtype=torch.uint8))[25] == 2  # colour


@pytest.mark.parametrize(("ignored", "code"), [(False, "input-counts"), (True, "input-ignored")])
def test_samples_without_targets_may_change_places_in_a_loss_that_depends_on_them(ignored, code):
    def likelihood(model, batch):
        # summed in whole numbers, so that an exchange of samples gives the same bits
        wrong = (model(batch[0]) * (not ignored)).square()
        return (wrong * 2**10).round().mean().detach() + wrong.mean() - wrong.mean().detach()

    found = probes.input_counts(bench(mlp(), [torch.randn(8, 6)], loss=likelihood))
    assert found.code == code


def test_samples_whose_targets_are_all_equal_may_change_places():
    discriminator = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))

    def real(model, batch):
        return F.binary_cross_entropy_with_logits(model(batch[0]), batch[1])

    batch = torch.randn(2, 6), torch.ones(2, 1)  # two: their sum has one order
    assert probes.input_counts(bench(discriminator, batch, loss=real)).code == "input-counts"
    unseen = probes.input_counts(bench(discriminator, batch, loss=lambda m, b: real(m, [b[0] * 0, b[1]])))
    assert unseen.code == "input-ignored"


def test_samples_of_whole_numbers_whose_targets_are_all_equal_are_not_tried():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(24, 1))
    batch = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.ones(2, 1)
    found = probes.input_counts(bench(model, batch, loss=lambda m, b: F.mse_loss(m(b[0]), b[1])))
    assert (found.outcome, found.code) == ("untried", "targets-all-equal")


@pytest.mark.parametrize(
    ("planned", "code"), [(None, "lr-far-too-low"), (200, "lr-far-too-low"), (10**6, "lr-in-band")]
)
def test_a_low_rate_is_no_doubt_where_the_loops_leave_it_the_time(planned, code):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = classes(64)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    made = probes.Bench(model, (x, y.float()), lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]), optimizer)
    made.setting.planned_steps = planned
    assert probes.can_learn(made).values["needed"] > 200
    assert probes.lr_range(made).code == code


def test_a_target_among_the_models_inputs_is_no_reason_to_call_the_input_ignored():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp()

        def forward(self, x, y):
            return F.cross_entropy(self.body(x), y)

    assert probes.input_counts(bench(WithLoss(), loss=lambda m, b: m(*b))).code == "input-counts"


@pytest.mark.parametrize(("lr", "code"), [(1e-5, "lr-far-too-low"), (1e-2, "lr-in-band"), (0.4, "lr-at-the-turn")])
def test_a_rate_is_judged_by_where_the_loss_falls_and_turns(lr, code):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = classes(64)
    made = probes.Bench(
        model, (x, y.float()), lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]), torch.optim.SGD(model.parameters(), lr)
    )
    assert probes.lr_range(made).code == code


@pytest.mark.parametrize(("after", "code"), [([0.5, 0.8, 1.4], "lr-at-the-turn"), ([0.7, 0.5, 0.4, 0.9], "lr-in-band")])
def test_a_lowest_loss_after_which_it_falls_again_is_no_turn(after, code):
    losses = [1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, *after]
    curve = [(10 ** (-6 + i / 4), loss) for i, loss in enumerate(losses)]
    assert _band(1e-3, curve, None).code == code


@pytest.mark.parametrize(("own", "code"), [(4e-3, "lr-in-band"), (6e-3, "lr-at-the-turn")])
def test_a_rate_that_has_learnt_a_batch_is_doubted_only_where_the_loss_turns(own, code):
    losses = [1.0, 0.99, 0.98, 0.97, 0.96, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.5, 0.8, 1.4]
    curve = [(10 ** (-5.5 + i / 4), loss) for i, loss in enumerate(losses)]
    assert curve[12][0] == pytest.approx(3.16e-3, rel=0.01)  # the lowest, and the next is 5.6e-3
    assert _band(own, curve, None, learnt=True).code == code
    assert _band(own, curve, None, learnt=True, lower=True).code == "lr-in-band"
    assert _band(own, curve, None).code == "lr-at-the-turn"


def test_a_row_of_padding_gets_no_gradient_and_is_not_moved():
    class Padded(nn.Module):
        def __init__(self, padding):
            super().__init__()
            self.table = nn.Embedding(5, 8, padding_idx=padding)
            self.table.weight.data[0] = 3.0
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.table((x > 0).long()).mean(1))

    torch.manual_seed(0)
    assert probes.gradients_right(bench(Padded(0))).code == "gradient-right"
    made = bench(Padded(0))
    made.setting.padding_rows.clear()
    assert probes.gradients_right(made).code == "gradient-wrong"


def test_a_learning_rate_a_thousand_times_too_high_is_told_from_a_model_that_cannot_learn():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    x, y = classes(64)
    optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
    made = probes.Bench(model, (x, y.float()), lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]), optimizer)
    learnt, ranged = probes.can_learn(made), probes.lr_range(made)
    assert (learnt.outcome, learnt.code) == ("doubtful", "learns-at-another-lr")
    assert (ranged.outcome, ranged.code) == ("failed", "lr-diverges")
    assert ranged.values["high"] < 10
    assert len(learnt.curve) > 10


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("used", [True, False])
def test_a_second_view_that_nothing_uses_is_found(used):
    torch.manual_seed(0)
    one, two = torch.randn(16, 6), torch.randn(16, 6)

    def loss(model, batch):
        first, second = model(batch[0]), model(batch[1 if used else 0])
        return F.cross_entropy(first @ second.T, torch.arange(16))

    bench = probes.Bench(Pairs(), [one, two], loss)
    found = bench.try_probe(data_probes.fields(bench.setting))
    assert (found.outcome, found.code) == (("passed", "fields-used") if used else ("doubtful", "field-unused"))


@pytest.mark.parametrize("kind", ["classes", "numbers"])
@pytest.mark.parametrize("belong", [True, False])
def test_rows_that_do_not_belong_to_their_targets_are_doubted(kind, belong):
    torch.manual_seed(0)
    x = torch.randn(2048, 5)
    number = x[:, 0] * x[:, 1] + 0.1 * torch.randn(2048)  # nothing that is linear
    y = (number > 0).long() if kind == "classes" else number
    y = y if belong else y[torch.randperm(2048)]
    batches = [[a, b] for a, b in zip(x.split(128), y.split(128), strict=True)]

    def loss(model, batch):
        out = model(batch[0])
        return F.cross_entropy(out, batch[1]) if kind == "classes" else F.mse_loss(out[:, 0], batch[1])

    bench = probes.Bench(nn.Linear(5, 2), batches[0], loss, batches=batches)
    found = bench.try_probe(data_probes.signal(bench.setting))
    if belong:
        assert found.outcome == "passed", found
    else:
        assert (found.outcome, found.code) == ("doubtful", "no-signal")


@pytest.mark.parametrize(("by", "code"), [(1, "targets-next"), (2, "targets-moved-twice")])
def test_targets_that_were_moved_twice_are_told_from_the_next_tokens(by, code):
    torch.manual_seed(0)
    text = torch.randint(0, 20, (8, 34))
    batch = [text[:, :32], text[:, by : by + 32]]
    bench = probes.Bench(
        Causal(masked=True), batch, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    )
    assert bench.try_probe(data_probes.moved_targets(bench.setting)).code == code


class Shortcut(torch.autograd.Function):
    """A backward that leaves out the gradient that arrives."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return s + x * s * (1 - s)


class Honest(Shortcut):
    @staticmethod
    def backward(ctx, grad):
        return grad * Shortcut.backward(ctx, grad)


@pytest.mark.parametrize("shape", [(2, 3), (32, 64, 64), (16, 32, 32, 32)])
def test_a_large_call_of_a_wrong_function_is_refused_without_its_whole_jacobian(shape):
    """131,072 elements have a Jacobian of 137 GB, which gradcheck builds for its message."""
    given = (torch.randn(shape, requires_grad=True),)
    assert custom_function(Shortcut, given).code == "function-wrong"
    assert custom_function(Honest, given).code == "function-right"


def _scheduler(make):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    return make(optimizer)


def test_a_schedule_without_a_length_is_looked_at_where_the_script_steps_it_with_the_optimizer():
    scheduler = _scheduler(lambda o: torch.optim.lr_scheduler.StepLR(o, 10, 0.5))
    assert simulate(scheduler).code == "schedule-without-end"
    found = simulate(scheduler, by_step=True)
    assert (found.outcome, found.code, found.values["gone"]) == ("doubtful", "schedule-gone", 100)
    slow = _scheduler(lambda o: torch.optim.lr_scheduler.StepLR(o, 1000, 0.5))
    assert simulate(slow, by_step=True).outcome == "passed"


def test_a_schedule_that_is_shorter_than_an_epoch_and_stepped_by_the_batch_is_doubted():
    scheduler = _scheduler(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 60))
    assert simulate(scheduler, by_step=True, epoch=500).code == "schedule-within-epoch"
    assert simulate(scheduler, by_step=True, epoch=20).outcome == "passed"
    assert simulate(scheduler, epoch=500).outcome == "passed"
    warm_up = _scheduler(lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=20))
    assert simulate(warm_up, by_step=True, epoch=500).outcome == "passed"


@pytest.mark.parametrize(("steps", "code"), [(2400, "schedule-simulated"), (70, "schedule-gone")])
def test_a_function_of_the_step_that_has_come_to_zero_has_come_to_its_end(steps, code):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / steps) ** 0.9)
    found = simulate(decay, by_step=True)
    assert found.code == code
    assert simulate(decay, 4 * steps).code == "schedule-zero"  # a run that is known to go on beyond it


@pytest.mark.parametrize(
    ("epoch", "code"), [(120, "schedule-simulated"), (119, "schedule-gone"), (None, "schedule-gone")]
)
def test_a_length_of_a_few_whole_passes_was_counted_in_optimizer_steps(epoch, code):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / 72, max(0.0, (720 - s) / (720 - 72))))
    assert simulate(decay, by_step=True, epoch=epoch).code == code


def test_generators_of_the_script_are_put_back_too():
    own, inner = torch.Generator().manual_seed(3), random.Random(4)

    class Sampler:
        def __init__(self) -> None:
            self.choice = inner

    sampler = Sampler()
    states = random_states(sys._getframe())
    drawn = torch.rand(3, generator=own), sampler.choice.random()
    set_random_states(states)
    assert torch.equal(torch.rand(3, generator=own), drawn[0])
    assert sampler.choice.random() == drawn[1]


@pytest.mark.parametrize("bends", [True, False])
def test_layers_without_an_activation_between_them_are_doubted(bends):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU() if bends else nn.Identity(), nn.Linear(8, 3))
    batch = [torch.randn(16, 6), torch.randint(0, 3, (16,))]
    bench = probes.Bench(model, batch, lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    found = bench.try_probe(data_probes.affine(bench.setting))
    assert (found.outcome, found.code) == (("passed", "layers-bend") if bends else ("doubtful", "layers-affine"))


def test_a_residual_branch_that_begins_at_zero_says_nothing_of_activations():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = nn.Linear(6, 8), nn.Linear(8, 6)
            nn.init.zeros_(self.last.weight)

        def forward(self, x):
            return x + self.last(self.inner(x).relu())

    made = probes.Bench(Residual(), [torch.randn(16, 6), torch.randn(16, 6)], lambda m, b: F.mse_loss(m(b[0]), b[1]))
    assert made.try_probe(data_probes.affine(made.setting)).code == "no-layers"


def test_targets_that_are_the_inputs_are_doubted():
    torch.manual_seed(0)
    text = torch.randint(0, 20, (8, 32))
    bench = probes.Bench(
        Causal(masked=True), [text, text.clone()], lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    )
    assert bench.try_probe(data_probes.moved_targets(bench.setting)).code == "targets-are-inputs"


def test_a_model_that_moves_its_inputs_itself_has_the_next_tokens_as_targets():
    class Shifting(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = Causal(masked=True)

        def forward(self, written):
            return self.decoder(torch.cat((torch.ones_like(written[:, :1]), written[:, :-1]), 1))

    torch.manual_seed(0)
    text = torch.randint(2, 20, (8, 32))
    bench = probes.Bench(
        Shifting(), [text, text.clone()], lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    )
    assert bench.try_probe(data_probes.moved_targets(bench.setting)).code == "targets-next"


@pytest.mark.parametrize(("moved", "code"), [(1, "targets-next"), (0, "targets-are-inputs")])
def test_a_decoder_that_is_to_copy_what_its_encoder_reads_has_the_next_tokens_as_targets(moved, code):
    class Copying(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Embedding(20, 8), Causal(masked=True)

        def forward(self, read, written):
            return self.decoder(written) + self.encoder(read).mean()

    torch.manual_seed(0)
    text = torch.randint(2, 20, (8, 32))
    written = torch.cat((torch.ones(8, 1, dtype=torch.long), text), 1)[:, :-1] if moved else text.clone()
    here = probes.Bench(
        Copying(),
        [text, written, text.clone()],
        lambda m, b: F.cross_entropy(m(b[0], b[1]).flatten(0, 1), b[2].flatten()),
    )
    assert here.try_probe(data_probes.moved_targets(here.setting)).code == code


@pytest.mark.parametrize(
    ("lr", "outcome", "code"), [(5e-4, "passed", "learns-steadily"), (5e-10, "failed", "learns-at-another-lr")]
)
def test_a_table_of_bigrams_that_learns_steadily_is_told_from_a_rate_that_teaches_nothing(lr, outcome, code):
    table = nn.Embedding(27, 27)
    nn.init.zeros_(table.weight)
    x = torch.arange(27).repeat(4)
    optimizer = torch.optim.AdamW(table.parameters(), lr=lr)
    found = probes.can_learn(
        probes.Bench(table, (x, x.roll(-1)), lambda m, b: F.cross_entropy(m(b[0]), b[1]), optimizer)
    )
    assert (found.outcome, found.code) == (outcome, code), found.values
    assert 500 < found.values.get("needed", 600) < 10_000


@pytest.mark.parametrize(
    ("aimed", "outcome", "code"), [(False, "passed", "learns-slowly"), (True, "doubtful", "learns-too-slowly")]
)
def test_half_of_a_loss_is_no_mark_where_nothing_is_its_target(aimed, outcome, code):
    torch.manual_seed(0)
    model, x, offset = nn.Linear(4, 4), torch.randn(64, 4) + 1, torch.zeros(64)
    nn.init.zeros_(model.weight).requires_grad_(False)

    def log_density(m, b):
        return 24 + ((b[0] - m(b[0])) ** 2 / 2).sum(1).mean()

    def distance(m, b):
        return F.l1_loss(log_density(m, b).expand(64), torch.zeros_like(b[1]))

    optimizer = torch.optim.SGD([model.bias], lr=0.018)
    batch = (x, offset) if aimed else (x,)
    found = probes.can_learn(probes.Bench(model, batch, distance if aimed else log_density, optimizer))
    assert (found.outcome, found.code) == (outcome, code), found.values


def parity(dtype=torch.float32):
    """Bits and whether an even number is set: the loss stays at ln 2 until the hidden layers have turned."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)).to(dtype)
    nn.init.normal_(model[-1].weight, std=0.1)
    nn.init.zeros_(model[-1].bias)
    x = (torch.arange(16)[:, None] >> torch.arange(4) & 1).float() * 2 - 1
    y = (x.prod(1) > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return probes.Bench(model, (x.to(dtype), y), lambda m, b: F.cross_entropy(m(b[0]).float(), b[1]), optimizer)


@pytest.mark.parametrize(
    ("total", "outcome", "code"),
    [(None, "passed", "learns-later"), (100_000, "passed", "learns-later"), (100, "doubtful", "learns-too-late")],
)
def test_a_small_rate_on_a_plateau_is_a_doubt_only_where_the_run_is_too_short_for_it(total, outcome, code):
    made = parity()
    made.setting.total_steps = total
    found = probes.can_learn(made)
    assert (found.outcome, found.code) == (outcome, code), found.values
    assert found.values["own_last"] > 0.98 * found.values["first"] > 1.9 * found.values["last"]


def test_steps_that_are_lost_in_the_digits_of_the_weights_lead_nowhere():
    found = probes.can_learn(parity(torch.bfloat16))
    assert (found.outcome, found.code) == ("doubtful", "weights-stay"), found.values
    assert found.values["taken"] < 0.5


@pytest.mark.parametrize(("fixed", "code"), [(True, "lr-diverges"), (False, "batch-not-fixed")])
def test_a_loss_that_jumps_where_a_game_ends_says_nothing_of_the_learning_rate(fixed, code):
    torch.manual_seed(0)
    model, (x, y) = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1)), classes(64)
    optimizer = torch.optim.SGD(model.parameters(), lr=50.0)
    made = probes.Bench(model, (x, y.float()), lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]), optimizer)
    made.setting.from_loader, made.setting.fixed_batch = False, fixed
    assert probes.lr_range(made).code == code
