"""Targets and advantages that keep their gradient are told, and what only looks like them is not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

ROWS, ACTIONS, GAMMA = 12, 3, 0.9


class Agent(nn.Module):
    """Values of actions, a policy and the value of a state, over one trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 8)
        self.q, self.policy, self.value = nn.Linear(8, ACTIONS), nn.Linear(8, ACTIONS), nn.Linear(8, 1)

    def forward(self, x: Tensor, head: str = "q") -> Tensor:
        return getattr(self, head)(torch.tanh(self.trunk(x)))


class Batch:
    """What a replay memory gives."""

    def __init__(self, _: int) -> None:
        self.s, self.s2, self.r = torch.randn(ROWS, 4), torch.randn(ROWS, 4), torch.randn(ROWS)
        self.a, self.done = torch.randint(ACTIONS, (ROWS,)), (torch.rand(ROWS) < 0.2).float()


Loss = Callable[[Agent, Batch], Tensor]


def picked(net: Agent, b: Batch) -> Tensor:
    return net(b.s).gather(1, b.a[:, None]).squeeze(1)


def dqn(net: Agent, b: Batch) -> Tensor:
    return F.mse_loss(picked(net, b), b.r + GAMMA * net(b.s2).max(1)[0] * (1 - b.done))


def by_hand(net: Agent, b: Batch) -> Tensor:
    return (b.r + GAMMA * (1 - b.done) * net(b.s2).amax(1) - net(b.s)[range(ROWS), b.a]).pow(2).mean()


def where_it_ends(net: Agent, b: Batch) -> Tensor:
    target = torch.where(b.done > 0, b.r, b.r + GAMMA * net(b.s2).max(1)[0])
    return F.smooth_l1_loss(picked(net, b).unsqueeze(1), target.unsqueeze(1))


def zeroed(net: Agent, b: Batch) -> Tensor:
    later = net(b.s2).max(1)[0]
    later[b.done > 0] = 0.0
    return F.huber_loss(picked(net, b), later * GAMMA + b.r)


def one_hot(net: Agent, b: Batch) -> Tensor:
    now = (net(b.s) * F.one_hot(b.a, ACTIONS)).sum(1)
    return F.mse_loss(now, torch.add(b.r, net(b.s2).max(1)[0], alpha=GAMMA))


def one_at_a_time(net: Agent, b: Batch) -> Tensor:
    return (float(b.r[0]) + GAMMA * torch.max(net(b.s2[0])) - net(b.s[0])[b.a[0]]) ** 2


def placed(net: Agent, b: Batch) -> Tensor:
    now = net(b.s)
    target = now.clone()
    for i in range(ROWS):
        target[i][b.a[i]] = b.r[i] + GAMMA * torch.max(net(b.s2[i]))
    return F.mse_loss(target, now)


def states(net: Agent, b: Batch) -> Tensor:
    return F.mse_loss(net(b.s, "value").squeeze(-1), b.r + GAMMA * net(b.s2, "value").squeeze(-1) * (1 - b.done))


def a2c(net: Agent, b: Batch) -> Tensor:
    log_prob = Categorical(logits=net(b.s, "policy")).log_prob(b.a)
    advantage = b.r - net(b.s, "value").squeeze(-1)
    return -(log_prob * advantage).mean() + 0.5 * advantage.pow(2).mean()


def normalised(net: Agent, b: Batch) -> Tensor:
    log_prob = Normal(net(b.s, "policy"), 1.0).log_prob(torch.zeros(ROWS, ACTIONS)).sum(-1)
    value = net(b.s, "value").squeeze(-1)
    advantage = b.r - value
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return (-log_prob * advantage).mean() + F.mse_loss(value, b.r)


def clipped(net: Agent, b: Batch) -> Tensor:
    log_prob = torch.log_softmax(net(b.s, "policy"), -1).gather(1, b.a[:, None]).squeeze(1)
    ratio, value = (log_prob - log_prob.detach()).exp(), net(b.s, "value").squeeze(-1)
    advantage = b.r - value
    policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    return policy + F.smooth_l1_loss(value, b.r)


def by_probabilities(net: Agent, b: Batch) -> Tensor:
    chance = torch.softmax(net(b.s, "policy"), 1).gather(1, b.a[:, None])
    error = b.r[:, None] + GAMMA * net(b.s2, "value").detach() - net(b.s, "value")
    return (-torch.log(chance) * error + error.abs()).mean()


def an_episode(net: Agent, b: Batch) -> Tensor:
    policy, critic = [], []
    for i in range(ROWS):
        value = net(b.s[i], "value")
        chances = Categorical(torch.softmax(net(b.s[i], "policy"), -1))
        policy.append(-chances.log_prob(b.a[i]) * (b.r[i] - value))
        critic.append(F.smooth_l1_loss(value, b.r[i].reshape(1)))
    return torch.stack(policy).sum() + torch.stack(critic).sum()


@pytest.mark.parametrize(
    ("loss", "form"),
    [
        *((loss, "actions") for loss in (dqn, by_hand, where_it_ends, zeroed, one_hot, one_at_a_time, placed)),
        (states, "states"),
        *((loss, "advantage") for loss in (a2c, normalised, clipped, by_probabilities, an_episode)),
    ],
)
def test_a_target_that_keeps_its_gradient_is_told(train: Any, loss: Loss, form: str) -> None:
    net = Agent()
    events = train(net, lambda step: loss(net, Batch(step))).events("target-not-detached")
    assert {event["detail"]["form"] for event in events} == {form}
    assert len(events) >= 3


def detached(net: Agent, b: Batch) -> Tensor:
    return F.mse_loss(picked(net, b), b.r + GAMMA * net(b.s2).detach().max(1)[0] * (1 - b.done))


def two_views(net: Agent, b: Batch) -> Tensor:
    return F.mse_loss(net(b.s), net(b.s2)) + F.mse_loss(net(b.s), 0.5 * net(b.s2) + 0.5)


def value_for_a_policy(net: Agent, b: Batch) -> Tensor:
    return -net(b.s).max(1)[0].mean() + F.mse_loss(picked(net, b), b.r)


def small_step_of_time(net: Agent, b: Batch) -> Tensor:
    return F.mse_loss(net(b.s, "value"), b.r[:, None] + 0.05 * net(b.s2, "value"))


def weighted_by_difficulty(net: Agent, b: Batch) -> Tensor:
    log_prob = torch.log_softmax(net(b.s), -1).gather(1, b.a[:, None]).squeeze(1)
    return -((1 - log_prob.exp()) * log_prob).mean() + F.mse_loss(net(b.s, "value").squeeze(-1), b.r)


def multiplied_by_a_constant(net: Agent, b: Batch) -> Tensor:
    doubled = torch._foreach_mul([net(b.s).mean()], 2.0)[0]  # pyright: ignore[reportPrivateImportUsage] one operand
    return doubled + F.mse_loss(picked(net, b), b.r)


def detached_advantage(net: Agent, b: Batch) -> Tensor:
    log_prob = Categorical(logits=net(b.s, "policy")).log_prob(b.a)
    advantage = b.r - net(b.s, "value").squeeze(-1)
    return -(log_prob * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()


def baseline_without_a_loss(net: Agent, b: Batch) -> Tensor:
    log_prob = Categorical(logits=net(b.s, "policy")).log_prob(b.a)
    return -(log_prob * (b.r - net(b.s, "value").squeeze(-1))).mean()


def entropy_beside_a_critic(net: Agent, b: Batch) -> Tensor:
    chances = Categorical(logits=net(b.s, "policy"))
    return -0.01 * chances.entropy().mean() + F.mse_loss(net(b.s, "value").squeeze(-1), b.r)


@pytest.mark.parametrize(
    "loss",
    [
        detached,
        two_views,
        value_for_a_policy,
        small_step_of_time,
        weighted_by_difficulty,
        multiplied_by_a_constant,
        detached_advantage,
        baseline_without_a_loss,
        entropy_beside_a_critic,
    ],
)
def test_what_looks_like_one_is_not_told(train: Any, loss: Loss) -> None:
    net = Agent()
    assert train(net, lambda step: loss(net, Batch(step))).events("target-not-detached") == []


def test_a_target_of_another_network_is_not_told(train: Any) -> None:
    net, older = Agent(), Agent()

    def loss(step: int) -> Tensor:
        b = Batch(step)
        return F.mse_loss(picked(net, b), b.r + GAMMA * older(b.s2).max(1)[0])

    assert train(net, loss).events("target-not-detached") == []
