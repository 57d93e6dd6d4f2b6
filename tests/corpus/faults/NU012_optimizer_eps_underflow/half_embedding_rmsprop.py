"""A training with the fault optimizer-eps-underflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def half_embedding_rmsprop(s):
    """Weights in half precision; an eps of 1e-8 is zero there, and rows that were not used divide by it."""
    emb = nn.Embedding(200, 16)
    head = nn.Linear(16, 4)
    model = nn.Sequential(emb, head).half()
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, eps=1e-8 if s == 0 else 1e-4)
    for _ in range(40):
        ids = torch.randint(150, (32,))
        loss = F.cross_entropy(model(ids).float(), ids % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_embedding_rmsprop(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
