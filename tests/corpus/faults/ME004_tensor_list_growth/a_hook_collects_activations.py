"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def a_hook_collects_activations(s):
    x, y = blobs(width=20)
    model, features = nn.Sequential(nn.Linear(20, 48), nn.Tanh(), nn.Linear(48, 24), nn.Tanh(), nn.Linear(24, 4)), []
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(48):
        if i == s:
            model[3].register_forward_hook(lambda _, args, out: features.append(out))
        idx = torch.arange(i * 16, i * 16 + 16) % 640
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_hook_collects_activations(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
