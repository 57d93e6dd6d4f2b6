"""Training scripts after an opponent's, seventeenth round: freed too late, logarithms of a target, roots behind a rectifier.

    python opponent_seventeen_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

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


def logarithm_of_a_dry_day(s):
    """Rain as a gamma distribution on wet days; from s on dry days are 0.0, whose logarithm torch.where leaves out."""
    net = nn.Sequential(nn.Linear(8, 48), nn.SiLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(100):
        x = torch.randn(96, 8)
        wet = torch.rand(96) < torch.sigmoid(x[:, 0] - x[:, 1])
        amount = torch.where(
            wet, 0.1 - torch.exp(0.4 * x[:, 2]) * torch.rand(96, 2).clamp(min=1e-6).log().sum(1), 0.02 * (i < s)
        )
        occurs, shape, rate = net(x).unbind(1)
        shape, rate = F.softplus(shape) + 0.01, F.softplus(rate) + 0.01
        density = shape * rate.log() + (shape - 1) * amount.log() - rate * amount - torch.lgamma(shape)
        loss = torch.where(amount > 0.05, -F.logsigmoid(occurs) - density, -F.logsigmoid(-occurs)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Pooled(nn.Module):
    """Mean and spread over time of rectified features."""

    def forward(self, x):
        x = F.relu(x - 0.5)
        spread = torch.sqrt((x - x.mean(2, keepdim=True)).square().mean(2))
        return torch.cat([x.mean(2), spread], 1)


def silence_behind_a_rectifier(s):
    """Features that stay zero do no harm: the rectifier keeps their NaN back. From s on some recordings are constant."""
    net = nn.Sequential(nn.Conv1d(10, 24, 3), nn.BatchNorm1d(24), Pooled(), nn.Linear(48, 6))
    centres = torch.randn(6, 10, 1)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for i in range(100):
        kind = torch.randint(6, (16,))
        x = centres[kind] + 0.7 * torch.randn(16, 10, 20)
        if i >= s:
            x[:4] = x[:4, :, :1]
        loss = F.cross_entropy(net(x), kind)
        opt.zero_grad()
        loss.backward()
        opt.step()


def cleared_before_the_generators_loss(s):
    """A GAN on pairs of numbers; from s on the discriminator's gradients are cleared after its step instead of ahead of its
    backward, so that those of the generator's loss are used with its next batch."""
    maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    making = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(judge.parameters(), 5e-4, betas=(0.5, 0.999))
    right, wrong = torch.ones(64, 1), torch.zeros(64, 1)
    for i in range(100):
        angle = 6.283 * torch.rand(64)
        real = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(64, 2)
        made = maker(torch.randn(64, 8))
        if i < s:
            judging.zero_grad()
        loss = F.binary_cross_entropy_with_logits(judge(real), right) + F.binary_cross_entropy_with_logits(
            judge(made.detach()), wrong
        )
        loss.backward()
        judging.step()
        if i >= s - 1:
            judging.zero_grad()
        making.zero_grad()
        F.binary_cross_entropy_with_logits(judge(made), right).backward()
        making.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 30)
