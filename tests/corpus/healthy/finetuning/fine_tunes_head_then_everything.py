"""A healthy training that looks odd; argument: [SEED]."""

import sys

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


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def fine_tunes_head_then_everything():
    """The body is frozen at first and joins the optimizer with a lower rate later."""
    x, y = kinds()
    body, head = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU()), nn.Linear(32, 4)
    body.requires_grad_(False)
    opt = optim.AdamW(head.parameters(), lr=3e-3)
    for step, (a, b) in zip(range(120), stream(x, y), strict=False):
        if step == 60:
            body.requires_grad_(True)
            opt.add_param_group({"params": body.parameters(), "lr": 3e-4})
        learn(opt, F.cross_entropy(head(body(a)), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    fine_tunes_head_then_everything()
