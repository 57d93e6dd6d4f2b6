"""A training with the fault scheduler-before-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def epoch_scheduler_at_the_top(s):
    """Epoch scheduler at the top."""
    fa = s if s < 1000 else -1

    def main():
        at_top = fa >= 0
        x = torch.rand(256, 3)
        y = torch.sin(6 * x[:, :1]) + x[:, 1:2] * x[:, 2:]
        net = nn.Sequential(nn.Linear(3, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
        opt = torch.optim.Adam(net.parameters(), lr=1e-2)
        sched = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.8)
        for _ in range(8):
            if at_top:
                sched.step()
            for a, b in DataLoader(TensorDataset(x, y), 32, shuffle=True):
                loss = (net(a) - b).pow(2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
            if not at_top:
                sched.step()

    main()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    epoch_scheduler_at_the_top(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
