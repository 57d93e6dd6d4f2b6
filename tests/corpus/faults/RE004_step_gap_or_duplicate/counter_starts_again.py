"""A training with the fault step-gap-or-duplicate; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
from tensorboardX import SummaryWriter
from torch import nn

torch.set_num_threads(1)


def counter_starts_again(s):
    """Resume in one process: weights and moments come back, the step counter of the log does not."""
    fa = s if s < 1000 else -1
    cut = fa if fa > 0 else 60
    path = Path(tempfile.mkdtemp()) / "ck.pt"
    net = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 2))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    truth_w = torch.randn(8, 2)
    writer = SummaryWriter(tempfile.mkdtemp())
    step = 0
    for it in range(110):
        if it == cut:
            torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "step": step}, path)
            ck = torch.load(path)
            net.load_state_dict(ck["net"])
            opt.load_state_dict(ck["opt"])
            step = ck["step"] if fa < 0 else ck["step"] - 25
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        writer.add_scalar("loss", loss.item(), step)
        step += 1


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    counter_starts_again(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
