"""A healthy training that looks odd; argument: [SEED]."""

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


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class SafeEntropy(nn.Module):
    """p log p the right way: the argument is safe before the logarithm."""

    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, x):
        logits = self.net(x)
        p = F.softmax(logits * 50, -1)
        ok = p > 0
        return logits, -torch.where(ok, p * torch.log(torch.where(ok, p, 1.0)), 0.0).sum(-1)


def entropy_with_a_double_where():
    x, y = blobs()
    model = SafeEntropy()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        logits, entropy = model(a)
        loss = F.cross_entropy(logits, b) - 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    entropy_with_a_double_where()
