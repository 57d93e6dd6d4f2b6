"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def silent_clips_are_left_out(s):
    """From batch s on some clips are silent and their logarithm is infinite; the loop drops every batch with a bad loss."""
    model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 5))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    turn = torch.randn(24, 5)
    for i in range(200):
        power = torch.rand(32, 24) + 0.05
        if i >= s and (i - s) % 5 < 2:
            power[i % 32] = 0.0
        x = power.log() + 1.0
        loss = F.cross_entropy(model(x), (power @ turn).argmax(1))
        opt.zero_grad()
        if torch.isfinite(loss):
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    silent_clips_are_left_out(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
