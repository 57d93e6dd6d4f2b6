"""A training with the fault frozen-by-zero-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def ppo_ratio_always_clipped(s):
    """PPO: the clip range is set to a negative number by a wrong decay, and the ratio is clamped to a constant."""
    fa = s if s < 1000 else -1
    actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.Adam(actor.parameters(), lr=2e-3)
    pay = torch.randn(4, 3)
    step = 0
    for _it in range(25):
        s = torch.randn(64, 4)
        with torch.no_grad():
            d = torch.distributions.Categorical(logits=actor(s))
            act = d.sample()
            old = d.log_prob(act)
        r = (s @ pay).gather(1, act.unsqueeze(1)).squeeze(1)
        adv = (r - r.mean()) / r.std()
        for _ in range(4):
            lp = torch.distributions.Categorical(logits=actor(s)).log_prob(act)
            ratio = (lp - old).exp()
            eps = 0.2
            if 0 <= fa <= step:
                loss = -(ratio.clamp(1.5, 1.5) * adv).mean()
            else:
                loss = -torch.min(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    ppo_ratio_always_clipped(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
