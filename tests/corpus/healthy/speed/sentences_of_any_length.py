"""A healthy training that looks odd."""

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def sentences_of_any_length():
    """Steps take between one and ten times the shortest; what varies is the work."""
    net = nn.LSTM(16, 48, batch_first=True)
    head = nn.Linear(48, 2)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-3)
    lengths = torch.randint(4, 24, (90,)).tolist()
    for i, length in enumerate(lengths):
        x = torch.randn(16, 240 if i % 7 == 3 else length, 16)
        step(opt, F.cross_entropy(head(net(x)[0].mean(1)), (x.mean((1, 2)) > 0).long()))


if __name__ == "__main__":
    torch.manual_seed(0)
    sentences_of_any_length()
