"""A healthy training that looks odd; argument: [SEED]."""

import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def goes_back_to_a_checkpoint():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(30):
            if i == 10:
                torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "step": i}, f"{folder}/at10.pt")
            if i == 18:
                state = torch.load(f"{folder}/at10.pt")
                model.load_state_dict(state["model"])
                opt.load_state_dict(state["optimizer"])
            place = 16 * (i if i < 18 else i - 8)
            train(model, opt, [(x[place : place + 16], y[place : place + 16])], steps=1)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    goes_back_to_a_checkpoint()
