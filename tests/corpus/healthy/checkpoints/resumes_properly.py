"""A healthy training that looks odd; argument: [SEED]."""

import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16, noise=0.8):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + noise * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def resumes_properly():
    """Everything is saved and loaded, by way of a file, in the middle of the run."""
    model = mlp()
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=121)
    with tempfile.TemporaryDirectory() as folder:
        for step, (a, b) in zip(range(120), stream(*kinds()), strict=False):
            if step == 55:
                state = {"m": model.state_dict(), "o": opt.state_dict(), "s": schedule.state_dict()}
                torch.save(state, f"{folder}/c.pt")
                state = torch.load(f"{folder}/c.pt")
                model = mlp()
                model.load_state_dict(state["m"])
                opt = optim.AdamW(model.parameters(), lr=3e-3)
                schedule = optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=121)
                opt.load_state_dict(state["o"])
                schedule.load_state_dict(state["s"])
            learn(opt, F.cross_entropy(model(a), b))
            schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    resumes_properly()
