"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tones(nn.Module):
    """Convolutions over a recording, and a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, 12, 9, 4, 4), nn.GroupNorm(3, 12), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv1d(12, 24, 5, 2, 2), nn.GroupNorm(4, 24), nn.SiLU())
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.head(self.deep(self.stem(x)).mean(2))


def freed_after_the_optimizer_was_made(s):
    """The head is trained first; from s on the deeper convolutions get gradients too, but the optimizer was made without them."""
    net = Tones()
    for part in (net.stem, net.deep):
        part.requires_grad_(False)
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    time = torch.arange(256) / 256
    for i in range(100):
        if i == s:
            net.deep.requires_grad_(True)
        pitch = torch.randint(4, (32,))
        wave = torch.sin(6.283 * 10 * 1.3 ** pitch[:, None] * time + 6.283 * torch.rand(32, 1))
        loss = F.cross_entropy(net((wave + 0.5 * torch.randn_like(wave))[:, None]), pitch)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    freed_after_the_optimizer_was_made(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
