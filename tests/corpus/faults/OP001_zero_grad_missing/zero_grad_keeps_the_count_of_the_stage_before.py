"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def zero_grad_keeps_the_count_of_the_stage_before(s):
    """From s on two microbatches make an update; gradients are still cleared before every fourth."""
    users, items = torch.randn(40, 3), torch.randn(30, 3)
    tower = nn.ModuleDict({"user": nn.Embedding(40, 16), "item": nn.Embedding(30, 16), "mix": nn.Linear(16, 16)})
    opt = torch.optim.Adam(tower.parameters(), lr=1e-2)
    accum = clear_every = 4
    micro = 0
    for i in range(100):
        if i == min(s, 30):
            accum, micro = 2, 0
            clear_every = 4 if i == s else accum
        for _ in range(accum):
            if micro % clear_every == 0:
                opt.zero_grad()
            u, v = torch.randint(0, 40, (64,)), torch.randint(0, 30, (64,))
            out = (tower["mix"](tower["user"](u)) * tower["mix"](tower["item"](v))).sum(1)
            (F.mse_loss(out, (users[u] * items[v]).sum(1) / 2) / accum).backward()
            micro += 1
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    zero_grad_keeps_the_count_of_the_stage_before(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
