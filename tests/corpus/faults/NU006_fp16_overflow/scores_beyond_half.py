"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class _Scores(nn.Module):
    """Attention that divides its scores by the width after the product."""

    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        return self.v(x) + scores.softmax(-1) @ self.v(x)


class _Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.attention, self.out = nn.Linear(4, 32), _Scores(32), nn.Linear(32, 1)

    def forward(self, x, gain):
        return self.out(self.attention(torch.relu(self.inp(x)) * gain) / gain).mean(1)


def scores_beyond_half(s):
    """Queries and keys are far from the end of float16, but their product is not, and softmax makes NaN of it."""
    net = _Reader()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1000)
    for i in range(s + 20 if s < 1000 else 60):
        x = torch.randn(16, 6, 4)
        with torch.autocast("cpu", dtype=torch.float16):
            guess = net(x, 300.0 if i >= s else 4.0)
        loss = F.mse_loss(guess.float(), 2 * x[:, :, 0].mean(1, keepdim=True))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scores_beyond_half(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
