import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import autocast
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cpu")


def scenes(n, seed):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 12, generator=g)
    fix = torch.Generator().manual_seed(31)
    mix = torch.randn(12, 96, generator=fix) / 3.5
    out = torch.randn(12, 24 * 24 * 3, generator=fix) / 3.5
    images = torch.tanh(z @ mix) + 0.05 * torch.randn(n, 96, generator=g)
    rays = F.normalize((z @ out).view(n, 24, 24, 3), dim=-1)
    return TensorDataset(images, rays)


class Rig(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(96, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU())
        self.ray_head = nn.Linear(dim, 24 * 24 * 3)

    def forward(self, images):
        return self.ray_head(self.encoder(images)).view(len(images), 24, 24, 3)


class RayLoss(nn.Module):
    def __init__(self, weight=0.004):
        super().__init__()
        self.weight = weight

    def forward(self, pred, rays):
        return self.weight * (pred.float() - rays).pow(2).mean()


def run_epoch(model, loader, criterion, optimizer=None):
    training = optimizer is not None
    model.train(training)
    total = 0.0
    for images, rays in loader:
        images, rays = images.to(device), rays.to(device)
        with torch.set_grad_enabled(training), autocast(device_type=device.type, dtype=torch.bfloat16):
            loss = criterion(model(images), rays)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(17)
    train_loader = DataLoader(scenes(1280, 0), batch_size=64, shuffle=True)
    val_loader = DataLoader(scenes(256, 1), batch_size=64)
    model = Rig().to(device)
    criterion = RayLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    for epoch in range(8):
        train_loss = run_epoch(model, train_loader, criterion, optimizer)
        val_loss = run_epoch(model, val_loader, criterion)
        scheduler.step()
        zeros = torch.cat([(p.grad == 0).flatten() for p in model.parameters()]).float().mean().item()
        print(f"epoch {epoch} train {train_loss:.3e} val {val_loss:.3e} lr {optimizer.param_groups[0]['lr']:.4f} flat {zeros:.3f}")


if __name__ == "__main__":
    main()
