import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class FakeQuantize(nn.Module):
    """Symmetric 8 bit weights with a straight-through gradient."""

    def forward(self, w):
        scale = w.detach().abs().amax() / 127.0
        q = torch.round(w / scale).clamp(-127, 127) * scale
        return w + (q - w).detach()


class QConv(nn.Conv2d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.quant = FakeQuantize()

    def forward(self, x):
        return self._conv_forward(x, self.quant(self.weight), self.bias)


class MobileLike(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(QConv(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Sequential(QConv(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Sequential(QConv(32, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        x = self.last(self.pool(self.body(self.stem(x))))
        return self.classifier(x.flatten(1))


def mock_dataset(n, seed, classes=5):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(classes, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    proto = nn.functional.avg_pool2d(proto, 5, 1, 2) * 4
    y = torch.randint(0, classes, (n,), generator=g)
    return TensorDataset(proto[y] + 0.7 * torch.randn(n, 3, 16, 16, generator=g), y)


def create_data_loaders(config):
    train_dataset, val_dataset = mock_dataset(config.samples, 1), mock_dataset(200, 2)
    train_loader = DataLoader(
        train_dataset, batch_size=config.batch_size, shuffle=True)
    val_loader = DataLoader(val_dataset, batch_size=50, shuffle=False)
    return train_loader, val_loader


def train_epoch(train_loader, model, criterion, optimizer, epoch):
    model.train()
    for i, (input_, target) in enumerate(train_loader):
        output = model(input_)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 20 == 0:
            print("epoch {} [{}/{}] loss {:.4f}".format(epoch, i, len(train_loader), loss.item()), flush=True)


def validate(val_loader, model):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader)
    return hits / len(val_loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=961)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    config = parser.parse_args()
    torch.manual_seed(0)
    train_loader, val_loader = create_data_loaders(config)
    model = MobileLike(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for epoch in range(config.epochs):
        train_epoch(train_loader, model, nn.CrossEntropyLoss(), optimizer, epoch)
        print("epoch {} acc@1 {:.3f}".format(epoch, validate(val_loader, model)), flush=True)


if __name__ == "__main__":
    main()
