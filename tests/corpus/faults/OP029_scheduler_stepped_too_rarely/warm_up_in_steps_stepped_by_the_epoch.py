"""A training with the fault scheduler-stepped-too-rarely; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
EPOCHS = 6


def linear_with_warm_up(optimizer, warmup_steps, total_steps):
    def factor(step):
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return max(0.0, (total_steps - step) / (total_steps - warmup_steps))

    return LambdaLR(optimizer, factor)


def main():
    centres = torch.randn(5, 16)
    y = torch.randint(5, (800,))
    loader = DataLoader(TensorDataset(centres[y] + torch.randn(800, 16), y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = linear_with_warm_up(optimizer, 30, EPOCHS * len(loader))
    for epoch in range(EPOCHS):
        for a, b in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, loss.item(), scheduler.get_last_lr())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    main()
