"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class Length(nn.Module):
    """Length of each row."""

    def forward(self, h):
        return (h * h).sum(1, keepdim=True).sqrt().clamp(min=1e-3)


class HalfPrecision(nn.Module):
    """Half precision inside; each row is divided by its length at the end."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 64)
        self.energy = nn.Linear(64, 64)
        self.length = Length()
        self.out = nn.Linear(64, 3)

    def forward(self, x):
        h = self.energy(F.relu(self.a(x)))
        return self.out(h / self.length(h))


def louder_recording(s):
    """A louder signal makes a sum of squares in half precision infinite; nothing becomes NaN."""
    model = HalfPrecision().half()
    opt = optim.SGD(model.parameters(), lr=0.01)
    for step in range(50):
        y = torch.randint(3, (16,))
        x = torch.randn(16, 16) + y[:, None]
        x = x * (400 if step >= s else 1)
        loss = F.cross_entropy(model(x.half()).float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    louder_recording(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
