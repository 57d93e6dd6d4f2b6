"""A training with the fault lr-too-low; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def policy_gradient_hardly_moves(s):
    """REINFORCE on a bandit with contexts; the rate was meant in units of 1e-2."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    policy = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.SGD(policy.parameters(), lr=5e-8 if bad else 0.05)
    best = torch.randn(6, 4)
    baseline = 0.0
    for _episode in range(120):
        s = torch.randn(64, 6)
        dist = torch.distributions.Categorical(logits=policy(s))
        act = dist.sample()
        reward = (act == (s @ best).argmax(1)).float()
        loss = -((reward - baseline) * dist.log_prob(act)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    policy_gradient_hardly_moves(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
