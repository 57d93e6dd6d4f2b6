from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class LoaderConfig:
    train_view: str = "train"
    val_view: str = "val"
    test_view: str = "test"


@dataclass
class Config:
    loader: LoaderConfig = field(default_factory=LoaderConfig)
    batch_size: int = 25
    epochs: int = 12
    lr: float = 2e-3
    seed: int = 8


class KeypointDataset(Dataset):
    """One bright marker per image, its position is the target."""
    SIZES = {"train": (600, 0), "val": (200, 1), "test": (200, 2)}

    def __init__(self, view):
        n, seed = self.SIZES[view]
        g = torch.Generator().manual_seed(seed)
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, 20), torch.linspace(-1, 1, 20), indexing="ij")
        self.points = 1.6 * torch.rand(n, 2, generator=g) - 0.8
        d = (xs - self.points[:, 0, None, None]) ** 2 + (ys - self.points[:, 1, None, None]) ** 2
        self.images = (2.5 * torch.exp(-d / 0.05) + 0.35 * torch.randn(n, 20, 20, generator=g))[:, None]

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.images[i], self.points[i]


class LuxonisModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(24 * 25, 48), nn.ReLU(), nn.Linear(48, 2))

    def forward(self, x):
        return self.head(self.backbone(x))


class Core:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        views = {"train": cfg.loader.train_view, "val": cfg.loader.val_view, "test": cfg.loader.test_view}
        self.datasets = {name: KeypointDataset(view) for name, view in views.items()}
        self.loaders = {name: DataLoader(ds, batch_size=cfg.batch_size, shuffle=name == "train")
                        for name, ds in self.datasets.items()}
        self.model = LuxonisModel()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.criterion = nn.SmoothL1Loss(beta=0.1)

    def train(self):
        for epoch in range(self.cfg.epochs):
            self.model.train()
            total = 0.0
            for x, y in self.loaders["train"]:
                self.optimizer.zero_grad()
                loss = self.criterion(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            print(f"epoch {epoch} train/loss {total / len(self.loaders['train']):.4f} val/loss {self.evaluate('val'):.4f}")

    @torch.no_grad()
    def evaluate(self, name):
        self.model.eval()
        losses = [self.criterion(self.model(x), y).item() for x, y in self.loaders[name]]
        return sum(losses) / len(losses)


if __name__ == "__main__":
    core = Core(Config())
    core.train()
    print(f"test/loss {core.evaluate('test'):.4f}")
