"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Net(nn.Module):
    def __init__(self, width=12, hidden=32, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


def keeps_every_output(s):
    x, y = blobs()
    model, seen = Net(), []
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(40):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        logits = model(x[idx])
        loss = F.cross_entropy(logits, y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            seen.append((logits, y[idx]))  # for a confusion matrix at the end


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    keeps_every_output(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
