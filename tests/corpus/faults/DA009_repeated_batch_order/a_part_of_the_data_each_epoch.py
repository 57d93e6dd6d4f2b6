"""A training with the fault repeated-batch-order; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(centres, n):
    y = torch.randint(len(centres), (n,))
    return TensorDataset(centres[y] + torch.randn(n, centres.shape[1]), y)


def a_part_of_the_data_each_epoch(epochs=5):
    centres = torch.randn(4, 12) * 2
    train, valid = DataLoader(blobs(centres, 960), batch_size=16), DataLoader(blobs(centres, 160), batch_size=80)
    model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(epochs):
        model.train()
        batches = iter(train)
        for _ in range(len(train) // epochs):
            x, y = next(batches)
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            print(sum(F.cross_entropy(model(x), y).item() for x, y in valid) / len(valid))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_part_of_the_data_each_epoch()
