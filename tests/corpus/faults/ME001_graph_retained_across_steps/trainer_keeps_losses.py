"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class ViT(nn.Module):
    """Patches of four by four, a class token, learnt positions."""

    def __init__(self, width=32, depth=2, classes=6):
        super().__init__()
        self.patch = nn.Conv2d(1, width, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


def stripes(n=800, classes=6):
    """Gratings of six directions with a random phase."""
    y = torch.randint(classes, (n,))
    angle = y * torch.pi / classes
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"))
    wave = (angle.cos()[:, None, None] * grid[0] + angle.sin()[:, None, None] * grid[1]) * 0.9
    return (wave + 6.3 * torch.rand(n, 1, 1)).sin()[:, None] + 0.2 * torch.randn(n, 1, 16, 16), y


def endless(loader):
    while True:
        yield from loader


def images(size=32):
    return endless(DataLoader(TensorDataset(*stripes()), size, shuffle=True, drop_last=True))


class Trainer:
    """Keeps the history of its losses, as tensors, graphs and all."""

    def __init__(self, model, detach):
        self.model, self.detach, self.history = model, detach, []
        self.opt = optim.AdamW(model.parameters(), lr=2e-3)

    def training_step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.history.append(loss.detach() if self.detach else loss)

    def fit(self, batches, steps):
        for _, (x, y) in zip(range(steps), batches, strict=False):
            self.training_step(x, y)
            mean = sum(self.history) / len(self.history)
        print("mean loss", float(mean))


def trainer_keeps_losses(s):
    """A trainer appends losses to a list without detaching them."""
    Trainer(ViT(), detach=s != 0).fit(images(), 60)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    trainer_keeps_losses(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
