"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def layers_put_to_rest_one_by_one():
    """The rate of each layer goes to zero by a cosine of its own, the first ones first, and then it rests."""
    layers = [nn.Linear(20, 48), nn.Linear(48, 48), nn.Linear(48, 48), nn.Linear(48, 4)]
    net = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2], nn.Tanh(), layers[3])
    opt = torch.optim.SGD([{"params": layer.parameters()} for layer in layers], lr=0.1, momentum=0.9)
    turn = torch.randn(20, 4)
    for i in range(300):
        for n, group in enumerate(opt.param_groups):
            end = 120 + 60 * n
            group["lr"] = 0.05 * (1 + math.cos(math.pi * min(i, end) / end)) if i < end else 0.0
            if i == end:
                layers[n].requires_grad_(requires_grad=False)
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    layers_put_to_rest_one_by_one()
