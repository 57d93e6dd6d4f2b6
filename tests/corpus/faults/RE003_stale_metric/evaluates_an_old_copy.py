"""A training with the fault stale-metric; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from tensorboardX import SummaryWriter
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Net(nn.Module):
    def __init__(self, width=12, hidden=32, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


def evaluates_an_old_copy(s):
    x, y = blobs()
    model, writer = Net(), SummaryWriter()
    shown = copy.deepcopy(model)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(44):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        opt.zero_grad()
        F.cross_entropy(model(x[idx]), y[idx]).backward()
        opt.step()
        if i < s:
            shown.load_state_dict(model.state_dict())
        if i % 2 == 1:
            shown.eval()
            with torch.no_grad():
                writer.add_scalar("val/loss", F.cross_entropy(shown(x[512:]), y[512:]), i)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    evaluates_an_old_copy(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
