"""A training with the fault lr-jump-on-resume; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

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


def scheduler_made_anew_on_resume(s):
    """Model and optimizer are loaded, but a new scheduler starts with its warm-up again."""

    def schedule_of(opt):
        warm = optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 15)
        return optim.lr_scheduler.SequentialLR(opt, [warm, optim.lr_scheduler.CosineAnnealingLR(opt, 85)], [15])

    model = ViT()
    opt = optim.AdamW(model.parameters(), lr=1.5e-3)
    schedule = schedule_of(opt)
    with tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in zip(range(100), images(), strict=False):
            if step == s:
                path = Path(folder) / "last.pt"
                torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, path)
                saved = torch.load(path)
                model = ViT()
                model.load_state_dict(saved["model"])
                opt = optim.AdamW(model.parameters(), lr=1.5e-3)
                opt.load_state_dict(saved["opt"])
                for g in opt.param_groups:
                    g.pop("initial_lr", None)
                    g["lr"] = 1.5e-3
                schedule = schedule_of(opt)
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
            schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scheduler_made_anew_on_resume(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
