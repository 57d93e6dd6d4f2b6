"""A training with the fault step-gap-or-duplicate; arguments: [ONSET] [SEED]."""

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


def counts_from_nought_after_resume(s):
    batches = forever(*blobs())
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    step = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(40):
            if i == s:
                checkpoint = resume_into(model, opt, folder, step=step)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                step = 0
            a, b = next(batches)
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
            step += 1
            if step % 5 == 0:
                torch.save(
                    {"model": model.state_dict(), "optimizer": opt.state_dict(), "step": step}, f"{folder}/last.pt"
                )


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    counts_from_nought_after_resume(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
