import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(256, 128)
        self.dropout = nn.Dropout(0.25)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = self.dropout(F.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


def digits(n, seed):
    strokes = torch.randn(10, 1, 16, 16, generator=torch.Generator().manual_seed(81))
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 10, (n,), generator=g)
    return TensorDataset(0.4 * strokes[y] + torch.randn(n, 1, 16, 16, generator=g), y)


def train(args, model, train_loader, optimizer, scaler, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(data)
        loss = F.cross_entropy(output.float(), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(train_loader.dataset)}]\tLoss: {loss.item():.6f}")


def test(model, test_loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            test_loss += F.cross_entropy(output, target, reduction="sum").item()
            correct += (output.argmax(dim=1) == target).sum().item()
    n = len(test_loader.dataset)
    print(f"Test set: Average loss: {test_loss / n:.4f}, Accuracy: {correct}/{n}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    train_loader = DataLoader(digits(5120, 0), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(digits(1000, 1), batch_size=500)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for epoch in range(1, args.epochs + 1):
        train(args, model, train_loader, optimizer, scaler, epoch)
        test(model, test_loader)


if __name__ == "__main__":
    main()
