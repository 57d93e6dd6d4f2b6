"""Fits a small colour field to views of one scene; a learnable prompt embedding modulates the field."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class PromptProcessor(nn.Module):
    """Holds the learnable text embeddings of the view-dependent prompts (front, side, back)."""

    def __init__(self, dim=16, n_dir=3, seed=0):
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.text_embeddings = nn.Parameter(torch.randn(n_dir, dim, generator=g) * 0.5)

    def forward(self, direction):
        return self.text_embeddings[direction]


class Geometry(nn.Module):
    def __init__(self, dim=16, hidden=48, n_freq=3):
        super().__init__()
        self.register_buffer("freqs", math.pi * 2.0 ** torch.arange(n_freq))
        self.inp = nn.Linear(2 + 4 * n_freq, hidden)
        self.mod = nn.Linear(dim, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 3)

    def forward(self, xy, emb):
        a = (xy[:, None] * self.freqs[:, None]).flatten(1)
        h = self.inp(torch.cat([xy, a.sin(), a.cos()], 1))
        h = F.silu(h * (1 + self.mod(emb)))
        return self.out(F.silu(self.mid(h)))


class Scene:
    """Ground truth colours: a shared base pattern, tinted and shifted per viewing direction."""

    tint = torch.tensor([[0.6, 0.0, -0.3], [-0.2, 0.5, 0.1], [0.1, -0.5, 0.5]])
    shift = torch.tensor([[0.0, 0.0], [0.3, -0.2], [-0.25, 0.3]])

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def rays(self, n):
        xy = torch.rand(n, 2, generator=self.g) * 2 - 1
        d = torch.randint(0, 3, (n,), generator=self.g)
        u = xy + self.shift[d]
        base = torch.stack([torch.sin(3 * u[:, 0]), torch.cos(2.5 * u[:, 1]), torch.sin(2 * u.sum(1))], 1) * 0.7
        return xy, d, base + self.tint[d] + 0.03 * torch.randn(n, 3, generator=self.g)


class System:
    def __init__(self, cfg):
        self.cfg = cfg
        self.geometry = Geometry()
        self.prompt_processor = PromptProcessor()
        self.configure()

    def configure(self):
        self.scene, self.val_scene = Scene(0), Scene(1)

    def configure_optimizers(self):
        params = [{"params": self.geometry.parameters(), "lr": self.cfg["lr"], "name": "geometry"}]
        return torch.optim.Adam(params, betas=(0.9, 0.99), eps=1e-10)

    def training_step(self, n_rays):
        xy, d, rgb = self.scene.rays(n_rays)
        return F.mse_loss(self.geometry(xy, self.prompt_processor(d)), rgb)

    @torch.no_grad()
    def validation_step(self):
        xy, d, rgb = self.val_scene.rays(1024)
        return F.mse_loss(self.geometry(xy, self.prompt_processor(d)), rgb).item()

    def fit(self):
        optimizer = self.configure_optimizers()
        running = 0.0
        for step in range(1, self.cfg["max_steps"] + 1):
            loss = self.training_step(self.cfg["rays"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
            if step % 60 == 0:
                mse = self.validation_step()
                print(f"step {step}: train mse {running / 60:.5f}, val mse {mse:.5f}, psnr {10 * math.log10(4 / mse):.2f}")
                running = 0.0


if __name__ == "__main__":
    torch.manual_seed(0)
    System({"lr": 3e-3, "lr_embed": 1e-2, "rays": 256, "max_steps": 360}).fit()
