"""A checkpoint in mid-epoch, after whose resume the epoch begins anew; argument: [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def train(data, path, until, every=14):
    model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    epoch = step = 0
    if path.exists():
        state = torch.load(path)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["optimizer"])
        epoch, step = state["epoch"], state["step"]
    while True:
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
            step += 1
            if step % every == 0:
                state = {"model": model.state_dict(), "optimizer": opt.state_dict(), "epoch": epoch, "step": step}
                torch.save(state, path)
            if step == until:
                return
        epoch += 1


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    centres = torch.randn(4, 12) * 2
    labels = torch.randint(4, (512,))
    samples = TensorDataset(centres[labels] + torch.randn(512, 12), labels)
    with tempfile.TemporaryDirectory() as folder:
        train(samples, Path(folder) / "last.pt", until=45)
        train(samples, Path(folder) / "last.pt", until=90)
