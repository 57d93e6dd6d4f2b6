import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def photos(n, seed):
    """Random smooth photos taken under one of five casts; retouching removes cast and exposure error."""
    g = torch.Generator().manual_seed(seed)
    base = F.interpolate(torch.rand(n, 3, 4, 4, generator=g) * 2 - 1, size=16, mode="bilinear", align_corners=False)
    casts = torch.tensor([[.5, 0, -.5], [-.5, 0, .5], [0, .5, 0], [0, -.4, .4], [0., 0, 0]])
    y = torch.randint(0, 5, (n,), generator=g)
    gain = 0.6 + 0.6 * torch.rand(n, 1, 1, 1, generator=g)
    shot = base * gain + casts[y][:, :, None, None] + 0.03 * torch.randn(n, 3, 16, 16, generator=g)
    return shot, base, y


class Backbone(nn.Module):
    def __init__(self, out=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(128, out), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class AiLUT(nn.Module):
    """Predicts a per-image affine colour map from a low-resolution view."""

    def __init__(self, pretrained=None):
        super().__init__()
        self.backbone = Backbone()
        self.pretrained = pretrained
        if pretrained is not None:
            self.backbone.load_state_dict(torch.load(pretrained))
        self.lut_generator = nn.Linear(32, 12)
        self.init_weights()

    def init_weights(self):
        def special_initialization(m):
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_normal_(m.weight, gain=0.3 if m is self.lut_generator else 1.0)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.ones_(m.weight)
                nn.init.zeros_(m.bias)
        if self.pretrained is None:
            self.backbone.apply(special_initialization)
        self.lut_generator.apply(special_initialization)

    def forward(self, img):
        p = self.lut_generator(self.backbone(img))
        mat, off = p[:, :9].view(-1, 3, 3) + torch.eye(3), p[:, 9:]
        return torch.einsum("bij,bjhw->bihw", mat, img) + off[:, :, None, None]


def pretrain(path, epochs=4):
    x, _, y = photos(512, 10)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    vx, _, vy = photos(128, 11)
    backbone, head = Backbone(), nn.Linear(32, 5)
    opt = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=2e-3)
    for epoch in range(epochs):
        backbone.train()
        total = 0.0
        for xb, yb in loader:
            loss = F.cross_entropy(head(backbone(xb)), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        backbone.eval()
        with torch.no_grad():
            acc = (head(backbone(vx)).argmax(1) == vy).float().mean().item()
        print(f"backbone epoch {epoch}: loss {total / len(loader):.4f}, val acc {acc:.3f}")
    torch.save(backbone.state_dict(), path)


def train_enhancer(path, epochs=7):
    x, target, _ = photos(384, 0)
    loader = DataLoader(TensorDataset(x, target), batch_size=16, shuffle=True)
    vx, vt, _ = photos(96, 1)
    model = AiLUT(pretrained=path)
    opt = torch.optim.Adam([{"params": model.backbone.parameters(), "lr": 5e-4},
                            {"params": model.lut_generator.parameters(), "lr": 3e-3}])
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for xb, tb in loader:
            loss = F.mse_loss(model(xb), tb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val = F.mse_loss(model(vx), vt).item()
        print(f"enhancer epoch {epoch}: mse {total / len(loader):.4f}, val mse {val:.4f}")


if __name__ == "__main__":
    torch.manual_seed(14)
    with tempfile.TemporaryDirectory() as tmp:
        ckpt = os.path.join(tmp, "backbone.pth")
        pretrain(ckpt)
        train_enhancer(ckpt)
