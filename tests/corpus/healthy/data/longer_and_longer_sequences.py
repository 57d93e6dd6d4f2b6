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


def longer_and_longer_sequences():
    embed, rnn, head = nn.Embedding(12, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 12)
    opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()], 5e-3)
    for length, lr, steps in ((4, 5e-3, 30), (8, 2e-3, 30), (16, 1e-3, 30)):
        for group in opt.param_groups:
            group["lr"] = lr
        for _ in range(steps):
            ids = torch.randint(12, (16, length))
            step(opt, F.cross_entropy(head(rnn(embed(ids))[0]).flatten(0, 1), ids.roll(1, 1).flatten()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    longer_and_longer_sequences()
