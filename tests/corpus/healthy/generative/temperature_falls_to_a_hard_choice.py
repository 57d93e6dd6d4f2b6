"""A healthy training that looks odd; argument: [SEED]."""

import itertools
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def _mlp(*sizes):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def temperature_falls_to_a_hard_choice():
    """Categories by Gumbel noise, soft and hard in turn, at a falling temperature."""
    encoder, decoder, things = _mlp(16, 48, 8), _mlp(8, 48, 16), torch.randn(8, 16)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 3e-3)
    for i in range(110):
        x = things[torch.randint(8, (64,))] + 0.2 * torch.randn(64, 16)
        z = F.gumbel_softmax(encoder(x), tau=max(0.3, math.exp(-0.01 * i)), hard=i % 2 == 0)
        loss = F.mse_loss(decoder(z), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    temperature_falls_to_a_hard_choice()
