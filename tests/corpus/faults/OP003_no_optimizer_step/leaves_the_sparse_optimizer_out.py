"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Towers(nn.Module):
    def __init__(self, users=200, items=120, width=16):
        super().__init__()
        self.users = nn.EmbeddingBag(users, width, mode="sum", sparse=True)
        self.items = nn.EmbeddingBag(items, width, mode="sum", sparse=True)
        self.left, self.right = nn.Linear(width, 16), nn.Linear(width, 16)

    def forward(self, u, i):
        return (self.left(self.users(u[:, None])) * self.right(self.items(i[:, None]))).sum(-1)


def leaves_the_sparse_optimizer_out(s):
    likes, liked = torch.randn(200, 4), torch.randn(120, 4)
    net = Towers()
    sparse = torch.optim.SparseAdam([*net.users.parameters(), *net.items.parameters()], lr=0.03)
    dense = torch.optim.AdamW([*net.left.parameters(), *net.right.parameters()], lr=0.005)
    for step in range(100):
        u, i = torch.randint(0, 200, (64,)), torch.randint(0, 120, (64,))
        loss = F.binary_cross_entropy_with_logits(net(u, i), ((likes[u] * liked[i]).sum(-1) > 0).float())
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        dense.step()
        if step < s:
            sparse.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    leaves_the_sparse_optimizer_out(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
