"""A training with the fault dead-embedding-rows; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def users_rounded_to_tens(s):
    """Ids are divided by ten on the way into an embedding, so most of its rows are never used."""
    emb = nn.Embedding(200, 16)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = optim.Adam([*emb.parameters(), *net.parameters()], lr=5e-3)
    taste = torch.randn(200)
    for _ in range(120):
        user = torch.randint(200, (48,))
        out = net(emb(user // 10 if s == 0 else user)).squeeze(1)
        loss = F.mse_loss(out, taste[user])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    users_rounded_to_tens(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
