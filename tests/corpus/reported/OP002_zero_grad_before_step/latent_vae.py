"""Variational autoencoder for radar-like frames, with gradient accumulation."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RadarFrames(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        ys, xs = torch.meshgrid(torch.arange(16.), torch.arange(16.), indexing="ij")
        frames = torch.zeros(n, 1, 16, 16)
        for _ in range(2):
            cy = 3 + 10 * torch.rand(n, 1, 1, generator=g)
            cx = 3 + 10 * torch.rand(n, 1, 1, generator=g)
            s = 1.5 + 1.5 * torch.rand(n, 1, 1, generator=g)
            frames[:, 0] += torch.exp(-((ys - cy) ** 2 + (xs - cx) ** 2) / (2 * s ** 2))
        self.frames = (frames - 0.25) / 0.35

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        return self.frames[i]


class Encoder(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.SiLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.SiLU(),
            nn.Flatten(), nn.Linear(512, 2 * z))

    def forward(self, x):
        return self.net(x).chunk(2, dim=1)


class Decoder(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(z, 512), nn.SiLU(), nn.Unflatten(1, (32, 4, 4)),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), nn.SiLU(),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1))

    def forward(self, z):
        return self.net(z)


class VAE(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.encoder, self.decoder = Encoder(z), Decoder(z)

    def forward(self, x):
        mean, logvar = self.encoder(x)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp() if self.training else mean
        return self.decoder(z), mean, logvar


class VAETrainer:
    def __init__(self, accumulate=4, kl_weight=1e-3):
        torch.manual_seed(0)
        self.model = VAE()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.accumulate = accumulate
        self.kl_weight = kl_weight
        self.train_loader = DataLoader(RadarFrames(3200, 1), batch_size=8, shuffle=True)
        self.val_loader = DataLoader(RadarFrames(256, 2), batch_size=64)

    def loss(self, batch):
        rec, mean, logvar = self.model(batch)
        kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(1).mean()
        return F.mse_loss(rec, batch) + self.kl_weight * kl

    def fit(self, epochs=2):
        self.opt.zero_grad()
        for epoch in range(epochs):
            self.model.train()
            running = 0.0
            for idx, batch in enumerate(self.train_loader):
                loss = self.loss(batch)
                (loss / self.accumulate).backward()
                if (idx + 1) % self.accumulate == 0:
                    self.opt.step()
                self.opt.zero_grad()
                running += loss.item()
            print(f"epoch {epoch} train loss {running / len(self.train_loader):.4f} val loss {self.validate():.4f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        return sum(self.loss(b).item() for b in self.val_loader) / len(self.val_loader)


if __name__ == "__main__":
    VAETrainer().fit()
