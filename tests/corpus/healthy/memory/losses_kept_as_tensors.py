"""A healthy training that looks odd; argument: [SEED]."""

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


def train(model, steps=60, each=lambda i, x, out: None, lr=3e-3, width=12):
    x, y = blobs(width=width)
    opt = torch.optim.AdamW(model.parameters(), lr)
    for i in range(steps):
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        out = model(x[idx])
        opt.zero_grad()
        F.cross_entropy(out, y[idx]).backward()
        opt.step()
        each(i, x[idx], out)


def losses_kept_as_tensors():
    losses = []
    train(Net(), each=lambda i, x, out: losses.append(out.detach().logsumexp(1).mean()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    losses_kept_as_tensors()
