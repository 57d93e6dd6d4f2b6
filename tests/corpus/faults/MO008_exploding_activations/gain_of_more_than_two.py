"""A training with the fault exploding-activations; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def gain_of_more_than_two(s):
    """Plain deep ReLU network, weights drawn with std 0.4 in width 64: activations grow by a factor of two a layer."""
    wrong = s == 0

    def mlp(depth, d, gain):
        ls = [nn.Linear(d, d) for _ in range(depth)]
        for layer in ls:
            nn.init.normal_(layer.weight, std=gain * (2 / d) ** 0.5)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(*[m for layer in ls for m in (layer, nn.ReLU())], nn.Linear(d, 4))

    net = mlp(10, 64, 2.3 if wrong else 1.0)
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    for _i in range(70):
        x = torch.randn(32, 64)
        y = x[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    gain_of_more_than_two(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
