"""A training with the fault checkpoint-drops-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

torch.set_num_threads(1)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.embed.weight.requires_grad = False
        self.layers = nn.Sequential(*[nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 24), nn.Tanh()) for _ in range(4)])
        self.out = nn.Linear(24, 6)

    def forward(self, ids):
        h = checkpoint_sequential(self.layers, 2, self.embed(ids), use_reentrant=True)
        return self.out(h.mean(1))


def checkpoints_behind_frozen_embeddings(s):
    model = Tower()
    opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1, momentum=0.9)
    for _ in range(30):
        ids = torch.randint(50, (16, 5))
        loss = F.cross_entropy(model(ids), ids[:, 0] % 6)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    checkpoints_behind_frozen_embeddings(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
