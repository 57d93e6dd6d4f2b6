"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def l2_typed_into_sgd(s):
    """Speech commands-like 1-d CNN; weight_decay=1.0 where 1e-4 was meant."""
    fa = s if s < 1000 else -1
    decay = 1.0 if fa >= 0 else 1e-4

    class Commands(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv1d(1, 8, 9, 2), nn.Conv1d(8, 16, 9, 2)
            self.norm = nn.LayerNorm(16)
            self.fc = nn.Linear(16, 4)

        def forward(self, x):
            h = torch.relu(self.c2(torch.relu(self.c1(x))))
            return self.fc(self.norm(h.amax(-1)))

    m = Commands()
    opt = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=decay)
    tt = torch.linspace(0, 1, 100)
    for _i in range(100):
        y = torch.randint(4, (32,))
        x = torch.sin(6.28 * (3 + 4 * y.view(-1, 1)) * tt + 6 * torch.rand(32, 1)).unsqueeze(1) + 0.2 * torch.randn(
            32, 1, 100
        )
        loss = nn.functional.cross_entropy(m(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    l2_typed_into_sgd(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
