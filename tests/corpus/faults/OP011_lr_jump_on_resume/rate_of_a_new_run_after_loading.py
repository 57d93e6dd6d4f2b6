"""A training with the fault lr-jump-on-resume; arguments: [ONSET] [SEED]."""

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


def rate_of_a_new_run_after_loading(s):
    x = torch.randn(500, 6)
    y = x @ torch.randn(6, 2)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    rate = 0.05
    with tempfile.TemporaryDirectory() as folder:
        for i in range(40):
            if i == s:
                checkpoint = resume_into(model, opt, folder, step=i)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                rate = 0.05
            for group in opt.param_groups:
                group["lr"] = rate
            pick = torch.randint(500, (20,))
            loss = F.mse_loss(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            rate *= 0.93


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_of_a_new_run_after_loading(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
