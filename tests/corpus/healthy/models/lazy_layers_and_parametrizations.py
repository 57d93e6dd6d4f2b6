"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

torch.set_num_threads(1)


def lazy_layers_and_parametrizations():
    """Lazy modules, parametrizations (spectral norm, weight norm), forward hooks of the user, in-place ReLU."""
    net = nn.Sequential(
        nn.LazyConv2d(8, 3),
        nn.ReLU(inplace=True),
        spectral_norm(nn.Conv2d(8, 8, 3)),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        weight_norm(nn.Linear(8 * 36, 16)),
        nn.ReLU(),
        nn.LazyLinear(4),
    )
    net(torch.randn(2, 1, 10, 10))
    seen = []
    net[4].register_forward_hook(lambda m, i, o: seen.append(o.detach().mean().item()))
    opt = torch.optim.NAdam(net.parameters(), 2e-3)
    pat = torch.randn(4, 1, 10, 10)
    for _i in range(60):
        y = torch.randint(0, 4, (16,))
        x = pat[y] + 0.5 * torch.randn(16, 1, 10, 10)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    lazy_layers_and_parametrizations()
