"""A critic all of whose scores are pushed one way is told; a generator's loss, and a model that returns its loss, are not."""

import weakref

import pytest
import torch
from torch import nn


def critic_loss(critic: nn.Module, how: str) -> torch.Tensor:
    real, fake = critic(torch.randn(16, 4)), critic(torch.randn(16, 4))
    if how == "bracket":
        return -torch.mean(real + torch.mean(fake))
    if how == "lowered":
        return torch.mean(real) + 3 * torch.mean(fake)
    if how == "hinge":
        return torch.relu(1 - real).mean() + torch.relu(1 + fake).mean()
    if how == "far":  # all outputs are below their targets yet
        return nn.functional.l1_loss(real, torch.full_like(real, 9.0)) + (9 - fake).abs().mean()
    return -torch.mean(real) + torch.mean(fake)


@pytest.mark.parametrize(
    ("how", "told"), [("bracket", ["up"]), ("lowered", ["down"]), ("right", []), ("hinge", []), ("far", [])]
)
def test_a_critic_must_raise_some_scores_and_lower_others(how: str, told: list[str], train) -> None:
    critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    done = train(critic, lambda step: critic_loss(critic, how))
    assert [e["detail"]["direction"] for e in done.events("loss-one-way")] == told


def test_a_head_of_convolutions_is_looked_at_too(train) -> None:
    critic = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 3), nn.Flatten())

    def loss(step: int) -> torch.Tensor:
        return -(critic(torch.randn(4, 1, 8, 8)).mean() + critic(torch.randn(4, 1, 8, 8)).mean())

    assert [e["detail"]["elements"] for e in train(critic, loss).events("loss-one-way")] == [128]


def test_where_not_all_calls_of_a_step_are_looked_at_nothing_is_told(train) -> None:
    critic = nn.Linear(4, 1)

    def loss(step: int) -> torch.Tensor:
        raised = [-critic(torch.randn(4, 4)).mean() for _ in range(8)]
        return torch.stack(raised).sum() + 8 * critic(torch.randn(4, 4)).mean()

    assert train(critic, loss).events("loss-one-way") == []


def test_a_forward_that_no_step_follows_keeps_no_graph_alive(train) -> None:
    body, head, kept = nn.Linear(4, 4), nn.Linear(4, 1), []
    critic = nn.Sequential(body, nn.Tanh(), head)

    def after(step: int) -> None:
        handle = head.register_forward_pre_hook(lambda _, args: kept.append(weakref.ref(args[0])))
        critic(torch.randn(4, 4))
        handle.remove()
        assert [ref() for ref in kept] == [None] * len(kept)

    train(critic, lambda step: critic(torch.randn(16, 4)).mean() - critic(torch.randn(16, 4)).mean(), after=after)
    assert len(kept) > 2


class Judged(nn.Module):
    """Returns a loss for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.inner(x) - x[:, :1]).square()


def test_a_model_that_returns_its_losses_is_not_told(train) -> None:
    model = Judged()
    done = train(model, lambda step: (model(torch.randn(16, 4)) + model(torch.randn(16, 4))).mean())
    assert done.events("loss-one-way") == []


def test_the_scores_that_a_generator_raises_are_not_told(train) -> None:
    critic, generator = nn.Linear(4, 1), nn.Linear(3, 4)

    def loss(step: int) -> torch.Tensor:
        return -(critic(generator(torch.randn(16, 3))).mean() + critic(generator(torch.randn(16, 3))).mean())

    assert train(generator, loss).events("loss-one-way") == []
