"""A training with the fault double-softmax; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def moons(n=900, noise=0.15):
    t = torch.rand(n) * torch.pi
    y = torch.arange(n) % 2
    x = torch.stack([t.cos() + y * 1.0, t.sin() * (1 - 2 * y) + 0.5 * y], 1)
    return x + noise * torch.randn(n, 2), y


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def probabilities_into_logits_loss(s):
    """A sigmoid in front of binary_cross_entropy_with_logits."""
    x, y = moons()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = optim.Adam(model.parameters(), lr=1e-2)
    for _, (a, b) in zip(range(150), loader(x, y.float()), strict=False):
        out = model(a).squeeze(1)
        out = out.sigmoid() if s == 0 else out
        learn(model, opt, F.binary_cross_entropy_with_logits(out, b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    probabilities_into_logits_loss(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
