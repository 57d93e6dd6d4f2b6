"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def experts_without_a_customer():
    """Top-1 mixture: an expert without tokens does not run in that step."""

    class Mixture(nn.Module):
        def __init__(self, d=10, n=6):
            super().__init__()
            self.gate = nn.Linear(d, n)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 20), nn.GELU(), nn.Linear(20, 1)) for _ in range(n))

        def forward(self, x):
            p = self.gate(x).softmax(1)
            w, k = p.max(1)
            out = x.new_zeros(len(x), 1)
            for i, e in enumerate(self.experts):
                at = (k == i).nonzero().squeeze(1)
                if len(at):
                    out = out.index_add(0, at, w[at].unsqueeze(1) * e(x[at]))
            load = torch.bincount(k, minlength=p.shape[1]) / len(x)
            return out, (load * p.mean(0)).sum() * p.shape[1]

    net = Mixture()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    v = torch.randn(10, 1)
    for _ in range(100):
        x = torch.randn(12, 10)
        y, balance = net(x)
        loss = (y - torch.sin(x @ v)).square().mean() + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    experts_without_a_customer()
