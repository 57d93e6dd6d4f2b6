"""Train a classifier on synthetic spectra with warmup and cosine decay."""
import argparse
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class LinearWarmup:
    """Multiplies the scheduled learning rate during the first steps."""

    def __init__(self, optimizer, warmup_period):
        self.optimizer, self.warmup_period, self.last_step = optimizer, warmup_period, 0
        self.lrs = [group["lr"] for group in optimizer.param_groups]
        self._dampen()

    def _dampen(self):
        omega = min(1.0, (self.last_step + 1) / self.warmup_period)
        for group, lr in zip(self.optimizer.param_groups, self.lrs):
            group["lr"] = lr * omega

    @contextmanager
    def dampening(self):
        for group, lr in zip(self.optimizer.param_groups, self.lrs):
            group["lr"] = lr
        yield
        self.lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.last_step += 1
        self._dampen()


def spectra(n, seed):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, 5, n)
    grid = np.linspace(0, 1, 64)
    peaks = np.random.RandomState(3).rand(5, 3)
    x = np.zeros((n, 64))
    for k in range(3):
        center = peaks[y, k][:, None] + 0.01 * rng.randn(n, 1)
        height = 0.6 + 0.8 * rng.rand(n, 1)
        x += height * np.exp(-((grid[None] - center) / 0.04) ** 2)
    x = (x - 0.25) / 0.4 + 0.8 * rng.randn(n, 64)
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.from_numpy(y))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 96)
        self.fc2 = nn.Linear(96, 96)
        self.fc3 = nn.Linear(96, 5)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def train(args, model, loader, optimizer, lr_scheduler, warmup_scheduler, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        loss = F.cross_entropy(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print("Train Epoch: {} [{}/{}]\tloss: {:.6f}\tlr: {:.2e}".format(
                epoch, batch_idx, len(loader), loss.item(), optimizer.param_groups[0]["lr"]))
        with warmup_scheduler.dampening():
            lr_scheduler.step()


def test(model, loader):
    model.eval()
    loss, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            loss += F.cross_entropy(output, target, reduction="sum").item()
            correct += (output.argmax(1) == target).sum().item()
            count += len(target)
    print("Test set: Average loss: {:.4f}, Accuracy: {}/{}".format(loss / count, correct, count))


def main():
    parser = argparse.ArgumentParser(description="PyTorch warmup example")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup-period", type=int, default=30)
    parser.add_argument("--log-interval", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    train_loader = DataLoader(spectra(2560, 10), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(spectra(500, 11), batch_size=250)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    num_steps = len(train_loader) * args.epochs
    lr_scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=num_steps, eta_min=1e-5)
    warmup_scheduler = LinearWarmup(optimizer, args.warmup_period)
    for epoch in range(1, args.epochs + 1):
        train(args, model, train_loader, optimizer, lr_scheduler, warmup_scheduler, epoch)
        test(model, test_loader)


if __name__ == "__main__":
    main()
