"""A training with the fault batchnorm-not-tracking; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def generator_norm_without_statistics(s):
    """A batch norm that keeps no running statistics."""
    wrong = s == 0

    class G(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8, track_running_stats=not wrong)
            self.o = nn.Conv2d(8, 1, 3, padding=1)

        def forward(self, x):
            return self.o(torch.relu(self.norm(self.c(x))))

    net = G()
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for i in range(70):
        net.train()
        x = torch.rand(8, 1, 10, 10)
        noisy = x + 0.1 * torch.randn_like(x)
        loss = nn.functional.l1_loss(net(noisy), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            net.eval()
            with torch.no_grad():
                x = torch.rand(8, 1, 10, 10)
                nn.functional.l1_loss(net(x), x).item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    generator_norm_without_statistics(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
