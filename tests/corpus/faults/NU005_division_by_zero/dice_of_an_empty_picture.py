"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def dice_of_an_empty_picture(s):
    """A Dice loss without smoothing meets a picture whose mask and prediction are empty."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for step in range(80):
        image = torch.rand(12, 1, 10, 10)
        mask = (image > 0.6).float()
        out = net(image).sigmoid()
        if step == s:
            crop = torch.ones(12, 1, 1, 1)
            crop[4] = 0
            out, mask = out * crop, mask * crop
        dice = 2 * (out * mask).sum((1, 2, 3)) / (out.sum((1, 2, 3)) + mask.sum((1, 2, 3)))
        learn(net, opt, 1 - dice.mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    dice_of_an_empty_picture(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
