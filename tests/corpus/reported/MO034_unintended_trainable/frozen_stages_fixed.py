import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def conv_bn(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class ResLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.down = conv_bn(cin, cout, 2)
        self.conv = nn.Sequential(nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        x = self.down(x)
        return torch.relu(x + self.conv(x))


class ResNet(nn.Module):
    """Small residual backbone; the first `frozen_stages` stages stay as pretrained."""

    def __init__(self, frozen_stages=-1):
        super().__init__()
        self.frozen_stages = frozen_stages
        self.stem = conv_bn(1, 8, 1)
        self.layer1 = ResLayer(8, 16)
        self.layer2 = ResLayer(16, 24)
        self._freeze_stages()

    def _freeze_stages(self):
        if self.frozen_stages >= 0:
            self.stem.eval()
            for param in self.stem.parameters():
                param.requires_grad = False
        for i in range(1, self.frozen_stages + 1):
            m = getattr(self, 'layer{}'.format(i))
            m.eval()
            for param in m.parameters():
                param.requires_grad = False

    def forward(self, x):
        return self.layer2(self.layer1(self.stem(x)))

    def train(self, mode=True):
        super().train(mode)
        self._freeze_stages()
        return self


class Model(nn.Module):
    def __init__(self, backbone, n_out):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(24, n_out)

    def forward(self, x):
        return self.head(self.backbone(x).mean((2, 3)))


def shapes(n, seed, scale=1.0, offset=0.0, kinds=(0, 1, 2, 3)):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, len(kinds), (n,), generator=g)
    imgs = 0.3 * torch.randn(n, 1, 16, 16, generator=g)
    pos = torch.randint(2, 8, (n, 2), generator=g)
    for i in range(n):
        r, c = pos[i].tolist()
        k = kinds[y[i]]
        if k == 0:
            imgs[i, 0, r:r + 6, c:c + 2] += 2
        elif k == 1:
            imgs[i, 0, r:r + 2, c:c + 6] += 2
        elif k == 2:
            imgs[i, 0, r:r + 4, c:c + 4] += 2
        elif k == 3:
            for d in range(6):
                imgs[i, 0, r + d, c + d] += 3
        elif k == 4:
            for d in range(6):
                imgs[i, 0, r + d, c + 5 - d] += 3
        else:
            imgs[i, 0, r:r + 6, c] += 2
            imgs[i, 0, r, c:c + 6] += 2
    return TensorDataset(imgs * scale + offset, y)


def fit(model, train_set, val_set, epochs, lr, tag):
    loader = DataLoader(train_set, batch_size=32, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=64)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.SGD(params, lr=lr, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            hits = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader)
        print(f"{tag} epoch {epoch}: loss {total / len(loader):.4f}  val acc {hits / len(val_set):.3f}")


if __name__ == "__main__":
    torch.manual_seed(4)
    pre = Model(ResNet(), 4)
    fit(pre, shapes(512, 0), shapes(128, 1), epochs=4, lr=0.02, tag="pretrain")

    backbone = ResNet(frozen_stages=1)
    backbone.load_state_dict(pre.backbone.state_dict())
    model = Model(backbone, 3)
    kinds = (4, 5, 2)
    fit(model, shapes(384, 2, 0.8, 0.5, kinds), shapes(128, 3, 0.8, 0.5, kinds), epochs=7, lr=0.01, tag="finetune")
