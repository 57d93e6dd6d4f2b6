import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Tiles(Dataset):
    def __init__(self, n, seed, size=16):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        cx, cy = (torch.randint(3, 13, (n, 1, 1), generator=g) for _ in range(2))
        r = torch.randint(3, 7, (n, 1, 1), generator=g)
        self.mask = ((xx - cx) ** 2 + (yy - cy) ** 2 <= r ** 2).long()
        color = torch.tensor([0.8, -0.6, 0.4]).view(1, 3, 1, 1)
        self.image = self.mask.unsqueeze(1) * color + 0.6 * torch.randn(n, 3, size, size, generator=g)

    def __len__(self):
        return len(self.mask)

    def __getitem__(self, i):
        return self.image[i], self.mask[i]


def conv_bn(i, o, k):
    return nn.Sequential(nn.Conv2d(i, o, k, padding=k // 2, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class PyramidNet(nn.Module):
    def __init__(self, ch=12, classes=2):
        super().__init__()
        self.encoder = nn.Sequential(conv_bn(3, ch, 3), conv_bn(ch, ch, 3))
        self.bins = (1, 2, 4)
        self.branches = nn.ModuleList([conv_bn(ch, 4, 1) for _ in self.bins])
        self.head = nn.Sequential(conv_bn(ch + 4 * len(self.bins), ch, 3), nn.Conv2d(ch, classes, 1))

    def forward(self, x):
        h = self.encoder(x)
        feats = [h]
        for b, branch in zip(self.bins, self.branches):
            feats.append(F.interpolate(branch(F.adaptive_avg_pool2d(h, b)), h.shape[-2:], mode="bilinear", align_corners=False))
        return self.head(torch.cat(feats, 1))


def validate(net, loader):
    net.eval()
    loss, correct, n = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = net(x)
            loss += F.cross_entropy(out, y).item() * len(x)
            correct += (out.argmax(1) == y).float().mean().item() * len(x)
            n += len(x)
    return loss / n, correct / n


def main():
    torch.manual_seed(8)
    train_loader = DataLoader(Tiles(393, 1), batch_size=8, shuffle=True, drop_last=True)
    valid_loader = DataLoader(Tiles(96, 2), batch_size=32, shuffle=False)
    net = PyramidNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for epoch in range(3):
        net.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("epoch", epoch, "train", round(total / len(train_loader), 4), "valid", validate(net, valid_loader))


if __name__ == "__main__":
    main()
