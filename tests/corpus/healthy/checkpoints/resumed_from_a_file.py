"""A healthy training that looks odd; argument: [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def resumed_from_a_file():
    batches = forever(*blobs())
    first = mlp()
    opt = torch.optim.AdamW(first.parameters(), 2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1, (i + 1) / 8) * 0.97**i)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        for step in range(20):
            train(first, opt, batches, steps=1)
            sched.step()
            if step % 5 == 4:
                state = {
                    "model": first.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "step": step,
                }
                torch.save(state, path)
        model = mlp()
        opt = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1, (i + 1) / 8) * 0.97**i)
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        opt.load_state_dict(checkpoint["opt"])
        sched.load_state_dict(checkpoint["sched"])
        for step in range(checkpoint["step"] + 1, 45):
            train(model, opt, batches, steps=1)
            sched.step()
            if step % 5 == 4:
                state = {
                    "model": model.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "step": step,
                }
                torch.save(state, path)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    resumed_from_a_file()
