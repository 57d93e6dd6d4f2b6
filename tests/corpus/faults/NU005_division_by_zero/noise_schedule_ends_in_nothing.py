"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def faces(n=720, size=8):
    """Pictures of one bright blob."""
    at = torch.rand(n, 2, 1, 1) * size
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
    return (-((grid - at) ** 2).sum(1, keepdim=True) / 4).exp() * 0.9 + 0.05


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(20, 32)
        self.inp, self.mid, self.out = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 64)
        self.scale = nn.Linear(32, 96)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.scale(self.time(t)))
        return self.out(F.silu(self.mid(h)) + h)


def noise_schedule_ends_in_nothing(s):
    """A diffusion loss is weighed by 1/(1 - alpha), and alpha of one step becomes exactly one."""
    model = Denoiser()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    alpha = torch.linspace(0.98, 0.05, 20)
    for step, (x,) in zip(range(110), stream(faces()), strict=False):
        if step == s:
            alpha[0] = 1.0
        t = torch.randint(20, (len(x),))
        t[0] = 0
        noise = torch.randn(len(x), 64)
        noisy = alpha[t, None].sqrt() * x.flatten(1) + (1 - alpha[t, None]).sqrt() * noise
        clean = (noisy - (1 - alpha[t, None]).sqrt() * model(noisy, t)) / alpha[t, None].sqrt()
        weight = 1 / (1 - alpha[t, None])
        loss = (weight * (clean - x.flatten(1)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    noise_schedule_ends_in_nothing(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
