"""A healthy training that looks odd; argument: [SEED]."""

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


def logs_what_never_changes():
    x, y = blobs()
    model, writer = Net(), SummaryWriter()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    best = 0.0
    for i in range(60):
        idx = torch.arange(i * 16, i * 16 + 16) % 512
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            accuracy = (model(x[512:]).argmax(1) == y[512:]).float().mean().item()
        best = max(best, accuracy)
        writer.add_scalars("run", {"lr": 1e-2, "loss": loss.item(), "acc": accuracy, "best_acc": best}, i)
        writer.add_scalar("aux_loss_weight", 0.3, i)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    logs_what_never_changes()
