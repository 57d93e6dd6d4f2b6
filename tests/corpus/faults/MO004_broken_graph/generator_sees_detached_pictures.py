"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def faces(n=720, size=8):
    """Pictures of one bright blob."""
    at = torch.rand(n, 2, 1, 1) * size
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
    return (-((grid - at) ** 2).sum(1, keepdim=True) / 4).exp() * 0.9 + 0.05


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def generator_sees_detached_pictures(s):
    """The generator's loss is computed on the pictures that were detached for the discriminator."""
    gen = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())
    dis = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    opt_g, opt_d = optim.Adam(gen.parameters(), lr=1e-3), optim.Adam(dis.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss()
    for step, (x,) in zip(range(100), stream(faces()), strict=False):
        fake = gen(torch.randn(len(x), 8))
        cut = fake.detach()
        loss_d = bce(dis(x.flatten(1)), torch.ones(len(x), 1)) + bce(dis(cut), torch.zeros(len(x), 1))
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g = bce(dis(cut if step >= s else fake), torch.ones(len(x), 1))
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    generator_sees_detached_pictures(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
