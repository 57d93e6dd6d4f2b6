"""A training with the fault silent-data-corruption; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def a_line_of_memory_under_a_gradient(s):
    """At s sixteen neighbouring numbers of one gradient are those that lay in this line of memory before."""
    net = nn.Sequential(
        nn.Conv1d(2, 16, 3),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv1d(16, 16, 3),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv1d(16, 1, 1),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for i in range(90):
        t, phase, rate = torch.arange(33), torch.rand(32, 1) * 6, torch.rand(32, 1) * 0.4 + 0.2
        wave = torch.sin(rate * t + phase) + 0.05 * torch.randn(32, 33)
        out = net(torch.stack([wave[:, :-1], wave[:, :-1].cumsum(1) / 10], 1))
        opt.zero_grad()
        (out - wave[:, 5:].unsqueeze(1)).square().mean().backward()
        if i == s:
            net[3].weight.grad.view(-1)[96:112] = wave[0, :16].cumsum(0)
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_line_of_memory_under_a_gradient(onset)
