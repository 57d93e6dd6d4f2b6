"""A healthy training that looks odd; argument: [SEED]."""

import collections
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


def train(model, steps=64, each=lambda i, a, out, loss: None):
    x, y = blobs()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i, a, b in batches(x, y, steps):
        out = model(a)
        loss = F.cross_entropy(out, b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        each(i, a, out, loss)


def history_of_numbers():
    history = collections.defaultdict(list)

    def note(i, a, out, loss):
        history["loss"].append(loss.item())
        history["spread"].append(out.detach().std().cpu())
        history["rows"].append({"step": i, "loss": float(loss.detach())})

    train(mlp(), each=note)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    history_of_numbers()
