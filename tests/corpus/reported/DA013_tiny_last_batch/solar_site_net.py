"""Site level generation forecast from satellite features and recent history."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class SiteSamples(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.sat = rng.randn(n, 20).astype(np.float32)
        self.history = rng.randn(n, 8).astype(np.float32)
        sun = np.tanh(self.sat[:, :5].sum(1) * 0.5)
        y = 0.8 * sun + 0.5 * self.history[:, -1] * (self.sat[:, 6] > 0) + 0.05 * rng.randn(n)
        self.y = y.astype(np.float32)[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"satellite": self.sat[i], "history": self.history[i], "generation": self.y[i]}


class PVDataModule:
    def __init__(self, n_train, n_val, batch_size):
        self.n_train, self.n_val, self.batch_size = n_train, n_val, batch_size

    def _dataloader(self, dataset, shuffle):
        return DataLoader(dataset, batch_size=self.batch_size, shuffle=shuffle)

    def train_dataloader(self):
        return self._dataloader(SiteSamples(self.n_train, seed=1), shuffle=True)

    def val_dataloader(self):
        return self._dataloader(SiteSamples(self.n_val, seed=2), shuffle=False)


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.BatchNorm1d(dim), nn.LeakyReLU(), nn.Linear(dim, dim),
            nn.BatchNorm1d(dim), nn.LeakyReLU(), nn.Linear(dim, dim),
        )

    def forward(self, x):
        return x + self.net(x)


class LateFusion(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.sat_encoder = nn.Sequential(nn.Linear(20, dim), nn.LeakyReLU())
        self.history_encoder = nn.Sequential(nn.Linear(8, dim), nn.LeakyReLU())
        self.fuse = nn.Linear(2 * dim, dim)
        self.blocks = nn.Sequential(ResBlock(dim), ResBlock(dim))
        self.out = nn.Sequential(nn.LeakyReLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        x = torch.cat([self.sat_encoder(batch["satellite"]), self.history_encoder(batch["history"])], dim=1)
        return self.out(self.blocks(self.fuse(x)))


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, model, datamodule):
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        train_loader, val_loader = datamodule.train_dataloader(), datamodule.val_dataloader()
        for epoch in range(self.max_epochs):
            model.train()
            losses = []
            for batch in train_loader:
                loss = nn.functional.mse_loss(model(batch), batch["generation"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            model.eval()
            with torch.no_grad():
                val = np.mean([nn.functional.mse_loss(model(b), b["generation"]).item() for b in val_loader])
            print(f"epoch {epoch} train/loss {np.mean(losses):.4f} val/loss {val:.4f}")


if __name__ == "__main__":
    torch.manual_seed(10)
    Trainer(max_epochs=4).fit(LateFusion(), PVDataModule(n_train=2561, n_val=400, batch_size=32))
