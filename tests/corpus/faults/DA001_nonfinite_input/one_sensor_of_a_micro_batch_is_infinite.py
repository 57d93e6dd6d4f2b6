"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def one_sensor_of_a_micro_batch_is_infinite(s):
    """From some step on a sensor delivers inf; gradient accumulation over two micro-batches."""
    onset = s
    net = nn.GRU(4, 24, batch_first=True)
    head = nn.Linear(24, 1)
    params = [*net.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    for step in range(60):
        opt.zero_grad()
        for micro in range(2):
            x = torch.randn(8, 12, 4)
            y = x.mean((1, 2))
            if step >= onset and micro == 1:
                x[0, 3, 2] = float("inf")
            loss = (head(net(x)[0][:, -1])[:, 0] - y).square().mean() / 2
            loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_sensor_of_a_micro_batch_is_infinite(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
