import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class L2Norm(nn.Module):
    def __init__(self, n_channels, scale):
        super().__init__()
        self.eps = 1e-10
        self.weight = nn.Parameter(torch.full((n_channels,), float(scale)))

    def forward(self, x):
        norm = x.pow(2).sum(dim=1, keepdim=True).sqrt() + self.eps
        x = x / norm
        return self.weight.view(1, -1, 1, 1) * x


class TinySSD(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.base = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.l2norm = L2Norm(32, 10)
        self.conf = nn.Conv2d(32, classes, 3, padding=1)
        self.loc = nn.Conv2d(32, 2, 3, padding=1)

    def forward(self, x):
        f = self.base(x)
        s = self.l2norm(f)
        return self.loc(s), self.conf(s)


def scenes(n, seed, classes=3):
    shapes = torch.randn(classes, 6, 6, generator=torch.Generator().manual_seed(61)) * 1.5
    g = torch.Generator().manual_seed(seed)
    x = 0.5 * torch.randn(n, 1, 24, 24, generator=g)
    label = torch.zeros(n, 6, 6, dtype=torch.long)
    offset = torch.zeros(n, 2, 6, 6)
    for i in range(n):
        k = int(torch.randint(0, classes, (1,), generator=g))
        r, c = torch.randint(0, 19, (2,), generator=g).tolist()
        x[i, 0, r:r + 6, c:c + 6] += shapes[k]
        cy, cx = r + 2.5, c + 2.5
        gy, gx = int(cy // 4), int(cx // 4)
        label[i, gy, gx] = k + 1
        offset[i, :, gy, gx] = torch.tensor([(cy % 4) / 4 - 0.5, (cx % 4) / 4 - 0.5])
    return TensorDataset(x, label, offset)


def multibox_loss(loc, conf, label, offset):
    pos = label > 0
    loss_l = F.smooth_l1_loss(loc.permute(0, 2, 3, 1)[pos], offset.permute(0, 2, 3, 1)[pos])
    ce = F.cross_entropy(conf, label, reduction="none")
    neg = ce.masked_fill(pos, 0.0).flatten(1).topk(3, dim=1).values
    loss_c = (ce[pos].sum() + neg.sum()) / pos.sum() / 4
    return loss_l, loss_c


def train():
    torch.manual_seed(3)
    train_loader = DataLoader(scenes(1600, 0), batch_size=32, shuffle=True)
    val_loader = DataLoader(scenes(320, 1), batch_size=80)
    net = TinySSD()
    optimizer = torch.optim.SGD(net.parameters(), lr=5e-3, momentum=0.9, weight_decay=5e-4)
    for epoch in range(5):
        net.train()
        for it, (x, label, offset) in enumerate(train_loader):
            loss_l, loss_c = multibox_loss(*net(x), label, offset)
            optimizer.zero_grad()
            (loss_l + loss_c).backward()
            optimizer.step()
            if it % 25 == 0:
                print(f"epoch {epoch} iter {it} || L: {loss_l.item():.4f} C: {loss_c.item():.4f}")
        net.eval()
        hits, n = 0, 0
        with torch.no_grad():
            for x, label, _ in val_loader:
                pos = label > 0
                hits += (net(x)[1].argmax(1)[pos] == label[pos]).sum().item()
                n += int(pos.sum())
        print(f"epoch {epoch} recall on objects {hits / n:.3f}")


if __name__ == "__main__":
    train()
