"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def sparse_rows():
    users, items = nn.Embedding(500, 8, sparse=True), nn.Embedding(800, 8, sparse=True)
    opt = torch.optim.SparseAdam([*users.parameters(), *items.parameters()], 1e-2)
    for _ in range(100):
        u, i = torch.randint(500, (64,)), torch.randint(800, (64,))
        rating = ((u + i) % 5).float()
        step(opt, F.mse_loss((users(u) * items(i)).sum(1), rating / 5))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sparse_rows()
