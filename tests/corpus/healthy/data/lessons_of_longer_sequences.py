"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def lessons_of_longer_sequences():
    """A curriculum: sequences grow, batches shrink, the loss leaps at each lesson, and late on clipping is hard."""
    net, head = nn.LSTM(3, 40, batch_first=True), nn.Linear(40, 1)
    weights = [*net.parameters(), *head.parameters()]
    opt = torch.optim.Adam(weights, lr=5e-3)
    for length, rows in ((4, 64), (8, 48), (16, 32), (24, 16)):
        for _ in range(25):
            x = torch.randn(rows, length, 3)
            loss = nn.functional.mse_loss(head(net(x)[0][:, -1]), x[:, :, 0].sum(1, keepdim=True))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 1.0)
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    lessons_of_longer_sequences()
