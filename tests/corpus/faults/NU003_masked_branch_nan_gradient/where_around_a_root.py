"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def where_around_a_root(s):
    x = torch.rand(400, 6) + 0.1
    y = x.sum(1, keepdim=True).sqrt()
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(30):
        pick = torch.randint(400, (16,))
        out = model(x[pick]) + 0.5
        if i == s:
            out = out * (torch.arange(16)[:, None] > 2)
        root = torch.where(out > 0, out.clamp(min=0).sqrt(), torch.zeros_like(out))
        loss = F.mse_loss(root, y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    where_around_a_root(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
