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


class Experts(nn.Module):
    def __init__(self, width=16, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(count)
        )
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        weights, which = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(which == e)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weights[rows, slot, None])
        balance = self.gate(x).softmax(-1).mean(0).pow(2).sum() * len(self.experts)
        return self.head(x + out), balance


def routed_experts():
    x, y = blobs(960)
    model = Experts()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 12 % 960, i * 12 % 960 + 12)
        logits, balance = model(x[s])
        step(opt, F.cross_entropy(logits, y[s]) + 0.01 * balance)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    routed_experts()
