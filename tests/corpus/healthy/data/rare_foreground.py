"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2))
        self.middle = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(9, 1, 1)

    def forward(self, x):
        return self.out(torch.cat([self.up(self.middle(self.down(x))), x], 1))


def rare_foreground():
    model = Segmenter()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        mask = torch.zeros(8, 1, 16, 16)
        for k in range(8):
            i, j = torch.randint(13, (2,)).tolist()
            mask[k, 0, i : i + 3, j : j + 3] = 1
        logits = model(mask + 0.5 * torch.randn_like(mask))
        chance = logits.sigmoid()
        dice = 1 - (2 * (chance * mask).sum() + 1) / (chance.sum() + mask.sum() + 1)
        step(opt, dice + F.binary_cross_entropy_with_logits(logits, mask))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rare_foreground()
