"""Training scripts of an opponent, eighth round: pictures, autoencoders, diffusion, metric learning, tables.

    python opponent_nine_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import copy
import math
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def pictures_as_bytes_behind_batch_norm(s):
    """One batch misses its division by 255; batch norm hides it from the loss, not from its running statistics."""
    patterns = torch.rand(6, 1, 12, 12)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 6),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for i in range(s + 30 if s < 1000 else 80):
        y = torch.randint(6, (32,))
        x = ((patterns[y] + 0.2 * torch.randn(32, 1, 12, 12)).clamp(0, 1) * 255).round()
        if i != s:
            x = x / 255
        loss = F.cross_entropy(net(2 * x - 1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Variational(nn.Module):
    """A variational autoencoder of the smallest kind."""

    def __init__(self, wide=64, narrow=4):
        super().__init__()
        self.fc1, self.mean, self.logvar = nn.Linear(wide, 128), nn.Linear(128, narrow), nn.Linear(128, narrow)
        self.fc3, self.fc4 = nn.Linear(narrow, 128), nn.Linear(128, wide)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.fc4(F.relu(self.fc3(z))), mean, logvar


def divergence_is_taken_away(s):
    """From some step on the divergence from the prior is subtracted: the posterior is driven away without end."""
    basis = torch.randn(3, 64)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(s + 80 if s < 1000 else 120):
        x = torch.sigmoid(torch.randn(64, 3) @ basis)
        rec, mean, logvar = model(x)
        bce = F.binary_cross_entropy_with_logits(rec, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        loss = (bce - kld if step >= s else bce + kld) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def best_weights_were_written_badly(s):
    """In the middle of the run the best weights are read back, and one of them is NaN."""
    model = nn.Sequential(
        nn.Linear(10, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 4)
    )
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    file = Path(tempfile.mkdtemp()) / "best.pt"
    for i in range(60):
        if i == (s if s < 1000 else 30):
            best = {key: value.clone() for key, value in model.state_dict().items()}
            if s < 1000:
                best["3.weight"][3, 5] = float("nan")
            torch.save(best, file)
            model.load_state_dict(torch.load(file))
        x = torch.randn(64, 10)
        y = torch.bucketize(x[:, 0] + x[:, 1] * x[:, 2], torch.tensor([-0.8, 0.0, 0.8]))
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Denoiser(nn.Module):
    """Predicts the noise in points of the plane."""

    def __init__(self, width=64):
        super().__init__()
        self.enter = nn.Linear(2 + 1, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(2)
        )
        self.leave = nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.enter(torch.cat([x, t], 1))
        for block in self.blocks:
            h = h + block(h)
        return self.leave(h)


def average_inside_a_function_is_forgotten(s):
    """An averaged copy, known only inside this function, is made and drawn from but never updated."""
    net = Denoiser()
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for step in range(60):
        angle = torch.rand(96) * 2 * math.pi
        clean, t, noise = torch.stack([angle.cos(), angle.sin()], 1), torch.rand(96, 1), torch.randn(96, 2)
        loss = F.mse_loss(net((1 - t).sqrt() * clean + t.sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s >= 1000:
            with torch.no_grad():
                for mine, its in zip(ema.parameters(), net.parameters(), strict=True):
                    mine.lerp_(its, 0.05)
        if step % 20 == 19:
            with torch.no_grad():
                print(step, ema(torch.randn(32, 2), torch.ones(32, 1)).std().item())


class Ema:
    """Averages by name; every update puts new tensors there."""

    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = {key: value.clone() for key, value in model.state_dict().items()}

    def update(self, model):
        for key, value in model.state_dict().items():
            if value.dtype.is_floating_point:
                self.shadow[key] = self.decay * self.shadow[key] + (1 - self.decay) * value


def averages_put_anew_are_put_no_more(s):
    """A dictionary of averages is filled with new tensors at each step, and from some step on no longer."""
    things = torch.randn(5, 12)
    make = lambda: nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5))  # noqa: E731
    net, shown = make(), make()
    ema = Ema(net)
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for step in range(s + 45 if s < 1000 else 80):
        y = torch.randint(5, (48,))
        loss = F.cross_entropy(net(things[y] + torch.randn(48, 12)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < s:
            ema.update(net)
        if step % 20 == 19:
            shown.load_state_dict(ema.shadow)
            shown.eval()
            with torch.no_grad():
                print(step, (shown(things).argmax(1) == torch.arange(5)).float().mean().item())


def views_with_nothing_between_them(s):
    """The mean squared distance of two views is all that is minimised; healthy: other samples push away."""
    things = torch.randn(12, 20)
    net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(140):
        which = torch.randint(12, (64,))
        one, two = (net(things[which] + 0.5 * torch.randn(64, 20)) for _ in range(2))
        if s < 1000:
            loss = (one - two).pow(2).mean()
        else:
            loss = F.cross_entropy(F.normalize(one, dim=1) @ F.normalize(two, dim=1).T / 0.2, torch.arange(64))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
