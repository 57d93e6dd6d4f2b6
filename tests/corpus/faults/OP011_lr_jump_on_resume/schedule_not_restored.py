"""A training with the fault lr-jump-on-resume; arguments: [ONSET] [SEED]."""

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


def resume_into(model, opt, folder, **more):
    """Save and load through a file, as two processes would."""
    path = Path(folder) / "last.pt"
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), **more}, path)
    return torch.load(path)


def schedule_not_restored(s):
    batches = forever(*blobs())
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: 0.9**i)
    with tempfile.TemporaryDirectory() as folder:
        for i, (a, b) in zip(range(34), batches, strict=False):
            if i == s:
                checkpoint = resume_into(model, opt, folder)
                model, before = mlp(), sched
                opt = torch.optim.AdamW(model.parameters(), 2e-3)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                sched = torch.optim.lr_scheduler.LambdaLR(opt, before.lr_lambdas[0])
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    schedule_not_restored(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
