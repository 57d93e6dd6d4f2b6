"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mixture_with_idle_experts():
    gate, experts, head = (
        nn.Linear(16, 6),
        nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(6)),
        nn.Linear(16, 4),
    )
    params = [*gate.parameters(), *experts.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, 3e-3)
    x, y = blobs()
    for i in range(50):
        a, b = x[i * 12 : i * 12 + 12], y[i * 12 : i * 12 + 12]
        weight, which = gate(a).softmax(-1).max(-1)
        out = torch.stack([experts[k](row) for k, row in zip(which.tolist(), a, strict=True)]) * weight[:, None]
        loss = F.cross_entropy(head(out), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    mixture_with_idle_experts()
