"""A training with the fault fp16-gradient-underflow; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def half_gradients_all_subnormal(s):
    """Everything in float16, no loss scaling, a loss averaged over very many elements."""
    wrong = s == 0
    d = torch.float16 if wrong else torch.float32
    net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 256)).to(d)
    opt = torch.optim.SGD(net.parameters(), 0.5)
    map_ = torch.randn(32, 256) / 6
    for _i in range(60):
        x = torch.randn(64, 32)
        y = 0.01 * (x @ map_)
        loss = nn.functional.mse_loss(net(x.to(d)), y.to(d)) * 0.01
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_gradients_all_subnormal(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
