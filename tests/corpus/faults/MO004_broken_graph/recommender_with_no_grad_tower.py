"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class TwoTowers(nn.Module):
    def __init__(self, frozen_users):
        super().__init__()
        self.users = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 8))
        self.items = nn.Sequential(nn.Embedding(80, 16), nn.Linear(16, 8))
        self.frozen_users = frozen_users

    def forward(self, u, i):
        if self.frozen_users:
            with torch.no_grad():
                u = self.users(u)
        else:
            u = self.users(u)
        return u @ self.items(i).T / 0.5


def recommender_with_no_grad_tower(s):
    model = TwoTowers(s == 0)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for _ in range(60):
        u = torch.randint(50, (24,))
        i = (u + torch.randint(3, (24,))) % 80
        loss = F.cross_entropy(model(u, i), torch.arange(24))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    recommender_with_no_grad_tower(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
