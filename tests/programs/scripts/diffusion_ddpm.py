"""Denoising diffusion on 8x8 digits: a small U-Net with time embeddings, the noise as target, an average of the weights."""

import copy
import math

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
timesteps, epochs = 100, 3
images = torch.tensor(load_digits().images).float().unsqueeze(1) / 8 - 1
dataloader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, drop_last=True)
betas = torch.linspace(1e-4, 0.05, timesteps)
alphas_cumprod = torch.cumprod(1 - betas, 0)
sqrt_alphas_cumprod, sqrt_one_minus = alphas_cumprod.sqrt(), (1 - alphas_cumprod).sqrt()


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        half = self.dim // 2
        frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        embeddings = time[:, None] * frequencies[None, :]
        return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, dim_out, time_dim):
        super().__init__()
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(4, dim_out)
        self.act = nn.SiLU()
        self.time = nn.Linear(time_dim, dim_out)
        self.residual = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, t):
        h = self.act(self.norm(self.proj(x))) + self.time(self.act(t))[:, :, None, None]
        return h + self.residual(x)


class Unet(nn.Module):
    def __init__(self, dim=16, time_dim=32):
        super().__init__()
        self.time_mlp = nn.Sequential(
            SinusoidalPositionEmbeddings(dim), nn.Linear(dim, time_dim), nn.GELU(), nn.Linear(time_dim, time_dim)
        )
        self.init_conv = nn.Conv2d(1, dim, 3, padding=1)
        self.down1 = Block(dim, dim, time_dim)
        self.downsample = nn.Conv2d(dim, 2 * dim, 4, 2, 1)
        self.mid = Block(2 * dim, 2 * dim, time_dim)
        self.upsample = nn.ConvTranspose2d(2 * dim, dim, 4, 2, 1)
        self.up1 = Block(2 * dim, dim, time_dim)
        self.final_conv = nn.Conv2d(dim, 1, 1)

    def forward(self, x, time):
        t = self.time_mlp(time)
        skip = self.down1(self.init_conv(x), t)
        h = self.mid(self.downsample(skip), t)
        return self.final_conv(self.up1(torch.cat((self.upsample(h), skip), dim=1), t))


def q_sample(x_start, t, noise):
    return sqrt_alphas_cumprod[t][:, None, None, None] * x_start + sqrt_one_minus[t][:, None, None, None] * noise


class EMA:
    def __init__(self, model, decay):
        self.decay, self.ema_model = decay, copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for average, current in zip(self.ema_model.parameters(), model.parameters()):
            average.lerp_(current, 1 - self.decay)


@torch.no_grad()
def sample(model, n):
    img = torch.randn(n, 1, 8, 8)
    for i in reversed(range(timesteps)):
        t = torch.full((n,), i, dtype=torch.long)
        noise = model(img, t)
        mean = (img - betas[i] * noise / sqrt_one_minus[i]) / (1 - betas[i]).sqrt()
        img = mean + betas[i].sqrt() * torch.randn_like(img) if i else mean
    return img


model = Unet()
ema = EMA(model, 0.95)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(epochs):
    for step, (batch,) in enumerate(dataloader):
        optimizer.zero_grad()
        t = torch.randint(0, timesteps, (batch.shape[0],)).long()
        noise = torch.randn_like(batch)
        loss = F.smooth_l1_loss(noise, model(q_sample(batch, t, noise), t))
        if step % 5 == 0:
            print("Loss:", loss.item())
        loss.backward()
        optimizer.step()
        ema.update(model)
print(sample(ema.ema_model, 4).std().item())
