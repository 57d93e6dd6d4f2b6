import math
import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make_images(n, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(10, 3, 16, 16, generator=torch.Generator().manual_seed(77))
    y = torch.randint(0, 10, (n,), generator=g)
    x = 0.4 * proto[y] + 0.9 * torch.randn(n, 3, 16, 16, generator=g)
    return TensorDataset(x, y)


class Cell(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.edge1 = nn.Sequential(nn.ReLU(), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c))
        self.edge2 = nn.Sequential(nn.ReLU(), nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        return x + self.edge1(x) + self.edge2(x)


class TinyNetwork(nn.Module):
    def __init__(self, c=12, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(c))
        self.cells = nn.Sequential(Cell(c), nn.AvgPool2d(2), Cell(c))
        self.head = nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Flatten(), nn.Linear(c * 16, classes))

    def forward(self, x):
        return self.head(self.cells(self.stem(x)))


def build(total_steps, warmup):
    torch.manual_seed(5)
    model = TinyNetwork()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.08, momentum=0.9, weight_decay=5e-4)

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        t = (step - warmup) / max(1, total_steps - warmup)
        return 0.5 * (1 + math.cos(math.pi * min(t, 1.0)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    return model, optimizer, scheduler


@torch.no_grad()
def validate(model, loader):
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return 100.0 * correct / total


def run(ckp_path, until, epochs=10):
    train_set, valid_set = make_images(1280, 1), make_images(400, 2)
    valid_loader = DataLoader(valid_set, batch_size=200)
    steps = 1280 // 64
    model, optimizer, scheduler = build(epochs * steps, warmup=2 * steps)
    criterion = nn.CrossEntropyLoss()
    start_epoch = 0
    if os.path.exists(ckp_path):
        checkpoint = torch.load(ckp_path)
        start_epoch = checkpoint["epoch"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        print(f"=> loading checkpoint of {start_epoch}-th epoch")
    for epoch in range(start_epoch, until):
        loader = DataLoader(train_set, batch_size=64, shuffle=True,
                            generator=torch.Generator().manual_seed(100 + epoch))
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        print(f"epoch={epoch:03d}/{epochs} loss={total / len(loader):.4f} "
              f"lr={optimizer.param_groups[0]['lr']:.5f} acc={validate(model, valid_loader):.2f}")
        torch.save({
            "epoch": epoch + 1,
            "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(),
        }, ckp_path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pth")
        run(path, until=6)
        run(path, until=10)
