"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def epochs_that_end_with_half_a_batch():
    """Four batches for each update, of which the last one in an epoch holds half as many samples."""
    x = torch.randn(1400, 24)
    y = (x @ torch.randn(24, 6)).argmax(1)
    net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(6):
        for n, (a, b) in enumerate(DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)):
            (F.cross_entropy(net(a), b) / 4).backward()
            if n % 4 == 3:
                opt.step()
                opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    epochs_that_end_with_half_a_batch()
