"""A training with the fault duplicate-batches; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def seeds_its_generator_for_every_batch(s):
    """From s on the source of batches is opened anew for each."""
    data = torch.randn(2000, 6) @ torch.randn(6, 24) + 0.1 * torch.randn(2000, 24)
    net = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 6), nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 24))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    draw = torch.Generator().manual_seed(7)
    for i in range(80):
        if i >= s:
            draw.manual_seed(7)
        x = data[torch.randint(2000, (48,), generator=draw)]
        loss = F.mse_loss(net(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    seeds_its_generator_for_every_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
