"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def scaler_updates_without_stepping(s):
    """Scaler updates without stepping."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Conv1d(2, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    proto = torch.randn(3, 2, 16)
    for step in range(60):
        y = torch.randint(3, (16,))
        x = proto[y] + torch.randn(16, 2, 16)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x).float(), y)
        scaler.scale(loss).backward()
        if 0 <= fa <= step:
            scaler.unscale_(opt)
        else:
            scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scaler_updates_without_stepping(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
