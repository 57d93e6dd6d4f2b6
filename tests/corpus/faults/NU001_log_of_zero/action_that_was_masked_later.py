"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.pi = nn.Linear(32, 3)

    def forward(self, s):
        return self.pi(self.body(s))


def action_that_was_masked_later(s):
    """Probabilities times a mask: the action that was taken is masked out, and the ratio hides the logarithm of zero."""
    net = Policy()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best = torch.randn(6, 3)
    for step in range(70):
        state = torch.randn(64, 6)
        with torch.no_grad():
            old = net(state).softmax(-1)
            action = torch.multinomial(old, 1)
            old = old.gather(1, action).log()
        reward = (state @ best).gather(1, action)
        allowed = torch.ones(64, 3)
        if step == s:
            allowed[0, action[0]] = 0
        p = net(state).softmax(-1) * allowed
        p = p / p.sum(-1, keepdim=True)
        ratio = (p.gather(1, action).log() - old).exp()
        gain = (reward - reward.mean()) / reward.std()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    action_that_was_masked_later(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
