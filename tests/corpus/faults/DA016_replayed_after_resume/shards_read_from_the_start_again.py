"""A training with the fault replayed-after-resume; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def resume_into(model, opt, folder, **more):
    """Save and load through a file, as two processes would."""
    path = Path(folder) / "last.pt"
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), **more}, path)
    return torch.load(path)


def shards_read_from_the_start_again(s):
    x = torch.randn(900, 10)
    y = (x[:, :1] * 2 + x[:, 1:2]).detach()
    model = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 1))
    opt = torch.optim.RMSprop(model.parameters(), 1e-3, momentum=0.5)
    place = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(36):
            if i == s:
                checkpoint = resume_into(model, opt, folder, epoch=0)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                place = 0
            a, b = x[place : place + 20], y[place : place + 20]
            place += 20
            loss = F.mse_loss(model(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    shards_read_from_the_start_again(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
