"""Regress smoothed fields on a small latitude/longitude grid with attention."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
NLAT, NLON = 6, 8


class AttentionS2(nn.Module):
    """Global attention on the sphere, keys weighted by the quadrature."""

    def __init__(self, channels, num_heads, drop_rate=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.drop_rate = drop_rate
        self.q_proj = nn.Linear(channels, channels)
        self.k_proj = nn.Linear(channels, channels)
        self.v_proj = nn.Linear(channels, channels)
        self.out_proj = nn.Linear(channels, channels)
        lat = (torch.arange(NLAT) + 0.5) * math.pi / NLAT
        self.register_buffer("log_quad", lat.sin().log().repeat_interleave(NLON))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (p(x).view(b, n, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        drop_rate = self.drop_rate if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.log_quad.expand(n, n), dropout_p=drop_rate)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, c))


class S2Block(nn.Module):
    def __init__(self, channels, heads, drop_rate):
        super().__init__()
        self.norm0, self.norm1 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = AttentionS2(channels, heads, drop_rate)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x):
        x = x + self.attention(self.norm0(x))
        return x + self.mlp(self.norm1(x))


class S2Transformer(nn.Module):
    def __init__(self, channels=32, heads=4, depth=2, drop_rate=0.1):
        super().__init__()
        theta = (torch.arange(NLAT) + 0.5) * math.pi / NLAT
        phi = torch.arange(NLON) * 2 * math.pi / NLON
        tt, pp = torch.meshgrid(theta, phi, indexing="ij")
        xyz = torch.stack([tt.sin() * pp.cos(), tt.sin() * pp.sin(), tt.cos()], dim=-1).view(-1, 3)
        self.register_buffer("xyz", xyz)
        self.encoder = nn.Linear(1 + 3, channels)
        self.blocks = nn.Sequential(*[S2Block(channels, heads, drop_rate) for _ in range(depth)])
        self.decoder = nn.Linear(channels, 1)

    def forward(self, field):
        x = torch.cat([field, self.xyz.expand(field.size(0), -1, -1)], dim=-1)
        return self.decoder(self.blocks(self.encoder(x)))


class FieldDataset(Dataset):
    def __init__(self, size, seed):
        gen = torch.Generator().manual_seed(seed)
        xyz = S2Transformer(4, 1, 1).xyz
        coef = torch.randn(size, 3, generator=gen)
        field = coef @ xyz.T + 0.4 * torch.randn(size, NLAT * NLON, generator=gen)
        kernel = torch.softmax(4.0 * xyz @ xyz.T, dim=-1)
        target = torch.tanh(1.5 * field @ kernel.T)
        self.field, self.target = field.unsqueeze(-1), target.unsqueeze(-1)

    def __len__(self):
        return len(self.field)

    def __getitem__(self, i):
        return self.field[i], self.target[i]


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(F.mse_loss(model(f), t).item() for f, t in loader) / len(loader)


def main():
    torch.manual_seed(333)
    train = DataLoader(FieldDataset(1920, 1), batch_size=32, shuffle=True)
    valid = DataLoader(FieldDataset(200, 2), batch_size=50)
    model = S2Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3, eta_min=3e-4)
    for epoch in range(3):
        model.train()
        acc = 0.0
        for field, target in train:
            optimizer.zero_grad(set_to_none=True)
            loss = F.mse_loss(model(field), target)
            loss.backward()
            optimizer.step()
            acc += loss.item()
        scheduler.step()
        print(f"Epoch {epoch} accumulated training loss: {acc / len(train):.4f} validation loss: {validate(model, valid):.4f}")
    print(f"validation loss of the final model: {validate(model, valid):.6f}")


if __name__ == "__main__":
    main()
