"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class Policy(nn.Module):
    """A classifier that reports the entropy of what it says; p log p is 0 at p = 0."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.Tanh())
        self.head = nn.Linear(32, 4)

    def forward(self, x, temperature=1.0):
        logits = self.head(self.body(x)) / temperature
        p = F.softmax(logits, -1)
        entropy = torch.where(p > 0, p * torch.log(p), torch.zeros_like(p)).sum(-1)
        return logits, -entropy


def entropy_of_certainty(s):
    x, y = blobs()
    model = Policy()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        logits, entropy = model(a, 1e-3 if i == s else 1.0)
        loss = F.cross_entropy(logits * (1e-3 if i == s else 1.0), b) - 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    entropy_of_certainty(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
