"""A healthy training that looks odd."""

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def reads_everything_at_an_evaluation():
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    held_out = torch.randn(1500, 12)
    for i in range(48):
        x = torch.randn(64, 12)
        step(opt, F.cross_entropy(model(x), (x[:, 0] > 0).long() + (x[:, 1] > 0).long()))
        if i % 12 == 11:
            model.eval()
            with torch.no_grad():
                guesses = model(held_out).argmax(1)
            table = [[0] * 3 for _ in range(3)]
            for row, guess in zip(held_out, guesses, strict=True):
                table[int(row[0] > 0) + int(row[1] > 0)][guess.item()] += 1
            model.train()


if __name__ == "__main__":
    torch.manual_seed(0)
    reads_everything_at_an_evaluation()
