"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def only_one_of_two_is_zeroed(s):
    """Encoder and decoder have an optimizer each; from some step on only the encoder's is zeroed."""
    encoder, decoder = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4)), nn.Linear(4, 16)
    opt_e, opt_d = optim.Adam(encoder.parameters(), lr=2e-3), optim.Adam(decoder.parameters(), lr=2e-3)
    mix = torch.randn(4, 16)
    for step in range(70):
        x = torch.randn(32, 4) @ mix
        opt_e.zero_grad()
        if step < s:
            opt_d.zero_grad()
        F.mse_loss(decoder(encoder(x)), x).backward()
        opt_e.step()
        opt_d.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    only_one_of_two_is_zeroed(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
