"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def tiny_rate_at_the_end_of_a_long_training():
    """Fine-tuning with a rate of 1e-6 and gradients clipped hard, on purpose."""
    x = torch.randn(800, 10)
    y = (x[:, :3] * 3).argmax(1)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    first = torch.optim.Adam(net.parameters(), 1e-2)
    for i in range(0, 800, 20):
        first.zero_grad()
        F.cross_entropy(net(x[i : i + 20]), y[i : i + 20]).backward()
        first.step()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-6)
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True):
        opt.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    tiny_rate_at_the_end_of_a_long_training()
