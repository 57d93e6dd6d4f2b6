"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def reuses_its_rollouts_and_hides_illegal_moves():
    """PPO with -inf for illegal actions, four epochs over the same rollouts."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
            self.pi, self.v = nn.Linear(32, 5), nn.Linear(32, 1)

        def forward(self, s, legal):
            h = self.body(s)
            return self.pi(h).masked_fill(~legal, float("-inf")), self.v(h).squeeze(1)

    net = Policy()
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)
    pay = torch.randn(6, 5)
    for _it in range(8):
        s = torch.randn(128, 6)
        legal = torch.rand(128, 5) > 0.4
        legal[:, 0] = True
        with torch.no_grad():
            logits, v = net(s, legal)
            d = torch.distributions.Categorical(logits=logits)
            a = d.sample()
            old = d.log_prob(a)
        ret = (s @ pay).gather(1, a.unsqueeze(1)).squeeze(1)
        adv = ret - v
        for _ in range(4):
            for idx in torch.arange(128).split(32):
                logits, v = net(s[idx], legal[idx])
                d = torch.distributions.Categorical(logits=logits)
                ratio = (d.log_prob(a[idx]) - old[idx]).exp()
                ad = adv[idx]
                ad = (ad - ad.mean()) / (ad.std() + 1e-8)
                loss = -torch.min(ratio * ad, ratio.clamp(0.8, 1.2) * ad).mean() + 0.5 * (v - ret[idx]).square().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    reuses_its_rollouts_and_hides_illegal_moves()
