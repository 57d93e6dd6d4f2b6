"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def patterns(n=800, classes=5, width=20):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.8 * torch.randn(n, width), y


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def distance_of_equal_embeddings(s):
    """A triplet loss takes the root of a squared distance that becomes zero, for a sample paired with itself."""
    net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16))
    opt = optim.Adam(net.parameters(), lr=1e-3)
    x, y = patterns(400)

    def distance(a, b):
        return torch.sqrt(((a - b) ** 2).sum(1))

    for step in range(90):
        i = torch.randint(400, (32,))
        same = torch.stack([torch.nonzero((y == y[k]) & (torch.arange(400) != k))[step % 40, 0] for k in i.tolist()])
        other = torch.stack([torch.nonzero(y != y[k])[step % 200, 0] for k in i.tolist()])
        if step == s:
            same[5] = i[5]
        a, p, n = net(x[i]), net(x[same]), net(x[other])
        learn(net, opt, F.relu(distance(a, p) - distance(a, n) + 1.0).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    distance_of_equal_embeddings(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
