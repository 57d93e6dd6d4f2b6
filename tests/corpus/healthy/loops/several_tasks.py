"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
        self.classes, self.value, self.flag = nn.Linear(64, 4), nn.Linear(64, 1), nn.Linear(64, 1)
        self.log_variance = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.value(h).squeeze(1), self.flag(h).squeeze(1)


def several_tasks():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(100):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        classes, value, flag = model(x[s])
        losses = torch.stack(
            [
                F.cross_entropy(classes, y[s]),
                F.mse_loss(value, x[s, 0] * 3),
                F.binary_cross_entropy_with_logits(flag, (x[s, 1] > 0).float()),
            ]
        )
        step(opt, (losses * torch.exp(-model.log_variance) + model.log_variance).sum())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    several_tasks()
