"""A training with the fault zero-lr; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def group_rates_overwritten_by_nought(s):
    """Group rates overwritten by nought."""
    fa = s if s < 1000 else -1

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.tower = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))

        def forward(self, a, p, n):
            return self.tower(a), self.tower(p), self.tower(n)

    net = Siamese()
    opt = torch.optim.RMSprop(
        [{"params": net.tower[0].parameters(), "lr": 1e-3}, {"params": net.tower[2].parameters(), "lr": 2e-3}]
    )
    triplet = nn.TripletMarginLoss(margin=1.0)
    centres = torch.randn(5, 16)
    for step in range(80):
        if step == fa:
            for group in opt.param_groups:
                group["lr"] = 0.0
        c = torch.randint(5, (24,))
        other = (c + torch.randint(1, 5, (24,))) % 5
        a, p, n = (centres[k] + 0.8 * torch.randn(24, 16) for k in (c, c, other))
        loss = triplet(*net(a, p, n))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    group_rates_overwritten_by_nought(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
