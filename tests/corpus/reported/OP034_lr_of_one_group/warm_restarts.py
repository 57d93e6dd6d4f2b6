import math

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, TensorDataset


class CosineAnnealingWarmupRestarts(LRScheduler):
    def __init__(self, optimizer, first_cycle_steps, max_lr=0.02, min_lr=1e-5, warmup_steps=0, gamma=1.0, last_epoch=-1):
        self.first_cycle_steps = first_cycle_steps
        self.base_max_lrs = [max_lr for _ in optimizer.param_groups]
        self.max_lrs = list(self.base_max_lrs)
        self.min_lr = min_lr
        self.warmup_steps = warmup_steps
        self.gamma = gamma
        self.cycle = 0
        self.step_in_cycle = last_epoch
        super().__init__(optimizer, last_epoch)
        self.init_lr()

    def init_lr(self):
        for param_group in self.optimizer.param_groups:
            param_group["lr"] = self.min_lr

    def get_lr(self):
        if self.step_in_cycle < self.warmup_steps:
            scale = max(self.step_in_cycle, 0) / self.warmup_steps
        else:
            t = (self.step_in_cycle - self.warmup_steps) / (self.first_cycle_steps - self.warmup_steps)
            scale = (1 + math.cos(math.pi * t)) / 2
        return [self.min_lr + (max_lr - self.min_lr) * scale for max_lr in self.max_lrs]

    def step(self, epoch=None):
        self.step_in_cycle += 1
        if self.step_in_cycle >= self.first_cycle_steps:
            self.cycle += 1
            self.step_in_cycle -= self.first_cycle_steps
        self.max_lrs = [lr * self.gamma ** self.cycle for lr in self.base_max_lrs]
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def blobs(n, seed, classes):
    g = torch.Generator().manual_seed(seed)
    basis = torch.randn(20, 10, generator=torch.Generator().manual_seed(12))
    x = torch.randn(n, 20, generator=g)
    z = torch.tanh(x @ basis / 3)
    w = torch.randn(10, classes, generator=torch.Generator().manual_seed(classes))
    return TensorDataset(x, (z @ w).argmax(1))


def train(model, optimizer, loader, epochs, scheduler=None):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            total += loss.item()
        lrs = [round(g["lr"], 6) for g in optimizer.param_groups]
        print(f"  epoch {epoch} lr {lrs} loss {total / len(loader):.4f}")


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    x, y = data.tensors
    return (model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(10)
    model = Net(classes=8)
    print("source task")
    train(model, torch.optim.Adam(model.parameters(), lr=2e-3), DataLoader(blobs(2560, 1, 8), batch_size=64, shuffle=True), 5)
    model.head = nn.Linear(64, 4)
    print("target task")
    optimizer = torch.optim.Adam([
        {"params": model.backbone.parameters(), "lr": 2e-4},
        {"params": model.head.parameters(), "lr": 2e-2},
    ])
    loader = DataLoader(blobs(1280, 2, 4), batch_size=64, shuffle=True)
    scheduler = CosineAnnealingWarmupRestarts(optimizer, first_cycle_steps=100, max_lr=0.02, warmup_steps=10, gamma=0.5)
    train(model, optimizer, loader, 10, scheduler)
    print("target accuracy", round(accuracy(model, blobs(500, 3, 4)), 3))
