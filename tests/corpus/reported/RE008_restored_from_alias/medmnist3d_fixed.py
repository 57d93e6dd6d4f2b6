import argparse
from copy import deepcopy

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
import torch.utils.data as data

torch.set_num_threads(1)


def make_split(n, seed, size=10):
    """Small volumes holding a ball, a shell or a rod, with scanner noise."""
    rng = np.random.RandomState(seed)
    zz, yy, xx = np.mgrid[0:size, 0:size, 0:size].astype(np.float32)
    x, y = np.empty((n, 1, size, size, size), dtype=np.float32), rng.randint(0, 3, n)
    for i in range(n):
        cz, cy, cx = rng.uniform(3.5, 6.5, 3)
        d = np.sqrt((zz - cz) ** 2 + (yy - cy) ** 2 + (xx - cx) ** 2)
        if y[i] == 0:
            v = d < 2.6
        elif y[i] == 1:
            v = (d < 3.4) & (d > 2.2)
        else:
            v = ((yy - cy) ** 2 + (xx - cx) ** 2 < 2.0) & (np.abs(zz - cz) < 4.5)
        x[i, 0] = 1.6 * v - 0.2 + rng.normal(0, 0.8, v.shape)
    return data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)))


class Net3D(nn.Module):
    def __init__(self, n_classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(1, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(8, 16, 3, padding=1, bias=False), nn.BatchNorm3d(16), nn.ReLU(), nn.AdaptiveAvgPool3d(2))
        self.fc = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, n_classes))

    def forward(self, x):
        return self.fc(self.features(x))


def train(model, loader, criterion, optimizer):
    model.train()
    total = []
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total.append(loss.item())
    return float(np.mean(total))


@torch.no_grad()
def test(model, loader, criterion):
    model.eval()
    losses, hit, n = [], 0, 0
    for inputs, targets in loader:
        out = model(inputs)
        losses.append(criterion(out, targets).item())
        hit += (out.argmax(1) == targets).sum().item()
        n += len(targets)
    return float(np.mean(losses)), hit / n


def main(args):
    torch.manual_seed(2)
    train_loader = data.DataLoader(make_split(288, 0), batch_size=args.batch_size, shuffle=True)
    val_loader = data.DataLoader(make_split(96, 1), batch_size=48)
    test_loader = data.DataLoader(make_split(96, 2), batch_size=48)
    model, criterion = Net3D(), nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=args.lr)

    best_loss, best_epoch, best_model = float("inf"), 0, model
    for epoch in range(args.num_epochs):
        train_loss = train(model, train_loader, criterion, optimizer)
        val_loss, val_acc = test(model, val_loader, criterion)
        if val_loss < best_loss:
            best_loss, best_epoch = val_loss, epoch
            best_model = deepcopy(model)
        print(f"epoch {epoch}  train loss {train_loss:.4f}  val loss {val_loss:.4f}  acc {val_acc:.3f}")
    test_loss, test_acc = test(best_model, test_loader, criterion)
    print(f"best epoch {best_epoch} (val loss {best_loss:.4f}); test loss {test_loss:.4f}  acc {test_acc:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="RUN Baseline model of a 3D set")
    parser.add_argument("--num_epochs", default=9, type=int)
    parser.add_argument("--batch_size", default=24, type=int)
    parser.add_argument("--lr", default=6e-3, type=float)
    main(parser.parse_args())
