"""A training with the fault uninitialised-buffers-in-eval; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sanity_check_before_statistics(s):
    """A normalising layer whose statistics are empty until the first training batch; the sanity validation comes first."""
    wrong = s == 0

    class Standardise(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.register_buffer("mean", torch.zeros(d))
            self.register_buffer("var", torch.zeros(d))
            self.seen = 0

        def forward(self, x):
            if self.training:
                k = 1.0 if self.seen == 0 else 0.1
                self.seen += 1
                self.mean.lerp_(x.detach().mean(0), k)
                self.var.lerp_(x.detach().var(0), k)
            return (x - self.mean) / (self.var + 1e-8).sqrt()

    net = nn.Sequential(Standardise(6), nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)

    def val():
        net.eval()
        with torch.no_grad():
            x = torch.randn(64, 6)
            out = nn.functional.mse_loss(net(x), x[:, :1]).item()
        net.train()
        return out

    if wrong:
        print("sanity check", val())
    for i in range(60):
        x = torch.randn(32, 6)
        loss = nn.functional.mse_loss(net(x), x[:, :1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            print(val())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sanity_check_before_statistics(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
