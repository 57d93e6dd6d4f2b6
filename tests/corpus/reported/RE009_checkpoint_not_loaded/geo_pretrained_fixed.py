import io

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def tiles(n, seed):
    """Multispectral 12x12 tiles made of a few land cover spectra; label = the dominant one."""
    g = torch.Generator().manual_seed(seed)
    k = torch.Generator().manual_seed(17)
    spectra = torch.randn(4, 6, generator=k)
    y = torch.randint(0, 4, (n,), generator=g)
    other = torch.randint(0, 4, (n, 3, 3), generator=g)
    own = torch.rand(n, 3, 3, generator=g) < 0.5
    cover = torch.where(own, y[:, None, None], other).repeat_interleave(4, 1).repeat_interleave(4, 2)
    x = spectra[cover].permute(0, 3, 1, 2)
    x = x * (0.7 + 0.6 * torch.rand(n, 1, 1, 1, generator=g)) + 0.5 * torch.randn(n, 6, 12, 12, generator=g)
    return (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True), y


class Encoder(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.conv1 = nn.Conv2d(6, d, 4, stride=4)
        self.conv2 = nn.Conv2d(d, d, 1)

    def forward(self, x):
        return self.conv2(F.gelu(self.conv1(x)))


class PretrainNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = nn.ConvTranspose2d(24, 6, 4, stride=4)

    def forward(self, x):
        return self.decoder(F.gelu(self.encoder(x)))


class EarthModel(nn.Module):
    """Wrapper that exposes the features of the pretraining network."""

    def __init__(self):
        super().__init__()
        self.model = PretrainNet()

    def forward(self, x):
        return self.model.encoder(x)


def earth_model(weights):
    model = EarthModel()
    weights.seek(0)
    state_dict = torch.load(weights)
    model.model.load_state_dict(state_dict, strict=True)
    return model


class SceneTask(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.head(F.gelu(self.backbone(x)).mean((2, 3)))


def pretrain(epochs=4):
    net = PretrainNet()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    loader = DataLoader(TensorDataset(tiles(768, 1)[0]), batch_size=32, shuffle=True)
    for epoch in range(epochs):
        total = 0.0
        for (x,) in loader:
            loss = F.mse_loss(net(x), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"pretrain epoch {epoch} reconstruction {total / len(loader):.4f}")
    buf = io.BytesIO()
    torch.save(net.state_dict(), buf)
    return buf


def finetune(weights, epochs=8):
    task = SceneTask(earth_model(weights))
    opt = torch.optim.AdamW(task.head.parameters(), lr=5e-3)
    loader = DataLoader(TensorDataset(*tiles(512, 3)), batch_size=32, shuffle=True)
    xv, yv = tiles(256, 4)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(task(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        with torch.no_grad():
            acc = (task(xv).argmax(1) == yv).float().mean().item()
        print(f"finetune epoch {epoch} loss {total / len(loader):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    finetune(pretrain())
