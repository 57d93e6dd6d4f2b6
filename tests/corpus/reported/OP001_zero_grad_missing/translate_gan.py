import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset


def pairs(n, seed):
    g = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    c = 1.2 * torch.rand(n, 2, 1, 1, generator=g) - 0.6
    r = 0.25 + 0.3 * torch.rand(n, 1, 1, generator=g)
    d = ((xs - c[:, 0]) ** 2 + (ys - c[:, 1]) ** 2).sqrt()
    edge = torch.exp(-((d - r) / 0.1) ** 2)
    solid = torch.sigmoid((r - d) / 0.05)
    return TensorDataset(2 * edge[:, None] - 1, 2 * solid[:, None] - 1)


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, ch, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(ch, 2 * ch, 4, 2, 1), nn.LeakyReLU(0.2))
        self.mid = nn.Sequential(nn.Conv2d(2 * ch, 2 * ch, 3, 1, 1), nn.LeakyReLU(0.2))
        self.up = nn.Sequential(nn.ConvTranspose2d(2 * ch, ch, 4, 2, 1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(ch, 1, 4, 2, 1))

    def forward(self, x):
        return self.up(self.mid(self.down(x)))


class Discriminator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.net = nn.Sequential(
            spectral_norm(nn.Conv2d(2, ch, 4, 2, 1)), nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(ch, 2 * ch, 4, 2, 1)), nn.LeakyReLU(0.2),
            spectral_norm(nn.Conv2d(2 * ch, 1, 3, 1, 1)))

    def forward(self, x, y):
        return self.net(torch.cat([x, y], 1))


def toggle_grad(model, on):
    for p in model.parameters():
        p.requires_grad_(on)


class TrainFunction:
    def __init__(self, num_D_steps=2, pix_weight=50.0):
        self.G, self.D = Generator(), Discriminator()
        self.G_optim = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.D_optim = torch.optim.Adam(self.D.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.num_D_steps, self.pix_weight = num_D_steps, pix_weight

    def __call__(self, x, y):
        xs, ys = x.chunk(self.num_D_steps), y.chunk(self.num_D_steps)
        toggle_grad(self.D, True)
        self.D_optim.zero_grad()
        for step_index in range(self.num_D_steps):
            xb, yb = xs[step_index], ys[step_index]
            with torch.no_grad():
                fake = self.G(xb)
            D_loss = F.relu(1 - self.D(xb, yb)).mean() + F.relu(1 + self.D(xb, fake)).mean()
            D_loss.backward()
            self.D_optim.step()
        toggle_grad(self.D, False)
        self.G_optim.zero_grad()
        fake = self.G(x)
        pix = F.mse_loss(fake, y)
        G_loss = -self.D(x, fake).mean() + self.pix_weight * pix
        G_loss.backward()
        self.G_optim.step()
        return {"D": D_loss.item(), "G": G_loss.item(), "pix": pix.item()}


if __name__ == "__main__":
    torch.manual_seed(3)
    train_loader = DataLoader(pairs(1600, 0), batch_size=32, shuffle=True)
    val_x, val_y = pairs(200, 1).tensors
    train = TrainFunction()
    for epoch in range(3):
        logs = [train(x, y) for x, y in train_loader]
        with torch.no_grad():
            val = F.mse_loss(train.G(val_x), val_y).item()
        print(f"epoch {epoch} " + " ".join(f"{k} {np.mean([l[k] for l in logs]):.3f}" for k in ("D", "G", "pix")) + f" val pix {val:.3f}")
