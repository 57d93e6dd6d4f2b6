from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


@dataclass
class Config:
    epochs: int = 8
    batch_size: int = 32
    lr: float = 3e-3
    ema_decay: float = 0.97
    use_ema: bool = True
    compile: bool = True


class EMA:
    """Exponential moving average of the parameters, by name."""

    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        for name, param in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].mul_(self.decay).add_(param, alpha=1 - self.decay)

    @torch.no_grad()
    def copy_to(self, model):
        for name, param in model.named_parameters():
            self.backup[name] = param.detach().clone()
            param.copy_(self.shadow[name])

    @torch.no_grad()
    def restore(self, model):
        for name, param in model.named_parameters():
            param.copy_(self.backup[name])
        self.backup = {}


class SurfaceNet(nn.Module):
    """Pressure at surface points from position, normal and inflow."""

    def __init__(self, hid=64):
        super().__init__()
        self.inp = nn.Linear(7, hid)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(hid), nn.Linear(hid, hid), nn.GELU()) for _ in range(2)])
        self.out = nn.Linear(hid, 1)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for b in self.blocks:
            h = h + b(h)
        return self.out(h).squeeze(-1)


def flow_samples(n, seed, points=16):
    g = torch.Generator().manual_seed(seed)
    pos = torch.randn(n, points, 3, generator=g)
    nrm = F.normalize(pos + 0.2 * torch.randn(n, points, 3, generator=g), dim=-1)
    alpha = torch.randn(n, 1, 1, generator=g).expand(-1, points, 1)
    p = torch.cos(1.5 * nrm[..., 0] + alpha[..., 0]) + 0.5 * nrm[..., 1] * alpha[..., 0]
    p = (p - 0.3) / 0.8 + 0.05 * torch.randn(n, points, generator=g)
    return TensorDataset(torch.cat([pos, nrm * 1.7, alpha], -1), p)


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        loss = sum(F.mse_loss(model(x), y).item() for x, y in loader) / len(loader)
    model.train()
    return loss


def main(cfg):
    torch.manual_seed(0)
    train_loader = DataLoader(flow_samples(640, 1), cfg.batch_size, shuffle=True)
    val_loader = DataLoader(flow_samples(128, 2), 64)
    base_model = SurfaceNet()
    model = torch.compile(base_model, backend="eager") if cfg.compile else base_model
    optimizer = torch.optim.AdamW(base_model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    ema = EMA(base_model, cfg.ema_decay) if cfg.use_ema else None
    for epoch in range(cfg.epochs):
        total = 0.0
        for x, y in train_loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if ema is not None:
                ema.update(model)
            total += loss.item()
        if ema is not None:
            ema.copy_to(base_model)
        val = evaluate(base_model, val_loader)
        if ema is not None:
            ema.restore(base_model)
        print(f"epoch {epoch} train/loss {total / len(train_loader):.4f} val/loss {val:.4f}", flush=True)


if __name__ == "__main__":
    main(Config())
