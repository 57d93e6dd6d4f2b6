"""A small Xception for pictures of coloured shapes."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def shapes(n, seed, size=16):
    gen = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 4
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    images = 0.5 * torch.randn(n, 3, size, size, generator=gen)
    for i in range(n):
        cy, cx = torch.randint(5, size - 5, (2,), generator=gen)
        dy, dx = (yy - cy).abs(), (xx - cx).abs()
        mask = [dy + dx <= 4, torch.maximum(dy, dx) <= 3, (dy <= 1) & (dx <= 5), (dy <= 5) & (dx <= 1)][label[i]]
        colour = 0.5 + torch.rand(3, generator=gen)
        images[i] += colour[:, None, None] * mask
    return TensorDataset((images - 0.1) / 0.7, label)


class DwsConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.dw_conv = nn.Conv2d(in_channels, in_channels, 3, padding=1, groups=in_channels, bias=False)
        self.pw_conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)

    def forward(self, x):
        return self.pw_conv(self.dw_conv(x))


class DwsConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels, activate):
        super().__init__()
        self.activate = activate
        if self.activate:
            self.activ = nn.ReLU(inplace=False)
        self.conv = DwsConv(in_channels, out_channels)
        self.bn = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        if self.activate:
            x = self.activ(x)
        return self.bn(self.conv(x))


class XceptionUnit(nn.Module):
    def __init__(self, in_channels, out_channels, reps, start_with_relu=True):
        super().__init__()
        self.resize_identity = in_channels != out_channels
        if self.resize_identity:
            self.identity_conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
            self.identity_bn = nn.BatchNorm2d(out_channels)
        self.body = nn.Sequential(*[
            DwsConvBlock(in_channels if i == 0 else out_channels, out_channels, activate=start_with_relu or i > 0)
            for i in range(reps)])

    def forward(self, x):
        identity = self.identity_bn(self.identity_conv(x)) if self.resize_identity else x
        return F.max_pool2d(self.body(x) + identity, 2)


class Xception(nn.Module):
    def __init__(self, classes, width=12):
        super().__init__()
        self.init_block = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.unit1 = XceptionUnit(width, 2 * width, reps=2, start_with_relu=False)
        self.unit2 = XceptionUnit(2 * width, 4 * width, reps=2)
        self.output = nn.Linear(4 * width, classes)

    def forward(self, x):
        x = self.unit2(self.unit1(self.init_block(x)))
        return self.output(x.mean((2, 3)))


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float() for x, y in loader]
    return torch.cat(hits).mean().item()


def train(train_loader, model, criterion, optimizer, epoch):
    model.train()
    losses = []
    for x, y in train_loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}", end=" ")


if __name__ == "__main__":
    torch.manual_seed(13)
    train_loader = DataLoader(shapes(480, 0), batch_size=32, shuffle=True)
    val_loader = DataLoader(shapes(120, 1), batch_size=60)
    model = Xception(4)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(6):
        train(train_loader, model, criterion, optimizer, epoch)
        print(f"val acc {accuracy(model, val_loader):.3f}")
