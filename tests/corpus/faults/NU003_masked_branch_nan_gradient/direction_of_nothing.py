"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Directions(nn.Module):
    """Unit vectors of a hidden layer, zero where there is no direction."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(16, 32, bias=False)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        h = self.lift(x)
        size = h.square().sum(-1, keepdim=True)
        return self.head(torch.where(size > 0, h / size, torch.zeros_like(h)))


def direction_of_nothing(s):
    x, y = blobs()
    model = Directions()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    crit = nn.CrossEntropyLoss()
    for i in range(36):
        a, b = x[i * 16 : i * 16 + 16].clone(), y[i * 16 : i * 16 + 16]
        if i == s:
            a[5] = 0.0
        loss = crit(model(a), b)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    direction_of_nothing(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
