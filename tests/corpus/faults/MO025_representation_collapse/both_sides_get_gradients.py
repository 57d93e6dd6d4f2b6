"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def both_sides_get_gradients(s):
    """Two views are to be alike; nothing stops the gradient, so everything becomes alike."""
    encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    guess = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    opt = optim.Adam([*encoder.parameters(), *guess.parameters()], lr=1e-2)
    base = torch.randn(600, 16)
    for _ in range(200):
        x = base[torch.randint(600, (64,))]
        a, b = encoder(x + 0.2 * torch.randn_like(x)), encoder(x + 0.2 * torch.randn_like(x))
        loss = F.mse_loss(a, b) if s == 0 else -F.cosine_similarity(guess(a), b.detach()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    both_sides_get_gradients(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
