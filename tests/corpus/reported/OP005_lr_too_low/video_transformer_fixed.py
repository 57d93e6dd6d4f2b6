import argparse

import torch
import torch.nn as nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset


def long_clips(n, seed, frames=48, dim=16, classes=5):
    proto = torch.randn(classes, 2, dim, generator=torch.Generator().manual_seed(17))
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, frames, dim, generator=g)
    y = torch.randint(0, classes, (n,), generator=g)
    for i in range(n):
        first = int(torch.randint(0, frames // 2 - 4, (1,), generator=g))
        second = int(torch.randint(frames // 2, frames - 4, (1,), generator=g))
        x[i, first:first + 4] += 0.85 * proto[y[i], 0]
        x[i, second:second + 4] += 0.85 * proto[y[i], 1]
    return TensorDataset(x, y)


class PoolBlock(nn.Module):
    def __init__(self, d_in, d_out, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(d_in)
        self.mix = nn.GRU(d_in, d_in // 2, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(dropout)
        self.pool = nn.MaxPool1d(2)
        self.proj = nn.Linear(d_in, d_out)

    def forward(self, x):
        x = x + self.drop(self.mix(self.norm(x))[0])
        x = self.pool(x.transpose(1, 2)).transpose(1, 2)
        return torch.relu(self.proj(x))


class LongVideoModel(nn.Module):
    def __init__(self, dim=16, width=48, classes=5):
        super().__init__()
        self.encoder = nn.Linear(dim, width)
        self.blocks = nn.Sequential(PoolBlock(width, width), PoolBlock(width, width // 2))
        self.decoder = nn.Linear(width // 2, classes)

    def forward(self, x):
        return self.decoder(self.blocks(self.encoder(x)).mean(dim=1))


def eval_model(model, loader, criterion):
    model.eval()
    total, loss, correct = 0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += criterion(out, y).item() * len(y)
            correct += (out.argmax(1) == y).sum().item()
            total += len(y)
    return loss / total, 100.0 * correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", default=2e-3, type=float)
    parser.add_argument("--weight_decay", default=0.01, type=float)
    parser.add_argument("--patience", default=1, type=int)
    parser.add_argument("--factor", default=0.2, type=float)
    parser.add_argument("--epochs", default=9, type=int)
    parser.add_argument("--batch_size", default=32, type=int)
    args = parser.parse_args()
    torch.manual_seed(0)

    trainloader = DataLoader(long_clips(960, 0), batch_size=args.batch_size, shuffle=True)
    valloader = DataLoader(long_clips(320, 1), batch_size=80)
    model = LongVideoModel()
    criterion = nn.CrossEntropyLoss()
    optimizer = AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    scheduler = ReduceLROnPlateau(optimizer, mode="max", patience=args.patience, factor=args.factor)

    best_acc = 0.0
    for epoch in range(args.epochs):
        model.train()
        train_loss = 0.0
        for inputs, targets in trainloader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            train_loss += loss.item()
        val_loss, val_acc = eval_model(model, valloader, criterion)
        scheduler.step(val_acc)
        best_acc = max(best_acc, val_acc)
        print("Epoch %d | lr %.2e | train %.4f | val %.4f acc %.1f best %.1f" % (
            epoch, optimizer.param_groups[0]["lr"], train_loss / len(trainloader), val_loss, val_acc, best_acc))


if __name__ == "__main__":
    main()
