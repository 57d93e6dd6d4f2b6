"""Training scripts of an opponent, fifth round: faults of the loop, the optimizer and resuming.

    python opponent_fifth_loop_faults.py NAME [ONSET] [SEED]

As in opponent_fifth_faults.py: with an onset beyond the last step each script is healthy.
"""

import copy
import dataclasses
import inspect
import sys
import tempfile
import textwrap
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)


@dataclasses.dataclass
class Settings:
    lr: float = 3e-3
    batch_size: int = 32
    steps: int = 120
    width: int = 32
    heads: int = 4


class ViT(nn.Module):
    """Patches of four by four, a class token, learnt positions."""

    def __init__(self, width=32, depth=2, classes=6):
        super().__init__()
        self.patch = nn.Conv2d(1, width, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


def stripes(n=800, classes=6):
    """Gratings of six directions with a random phase."""
    y = torch.randint(classes, (n,))
    angle = y * torch.pi / classes
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"))
    wave = (angle.cos()[:, None, None] * grid[0] + angle.sin()[:, None, None] * grid[1]) * 0.9
    return (wave + 6.3 * torch.rand(n, 1, 1)).sin()[:, None] + 0.2 * torch.randn(n, 1, 16, 16), y


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return F.relu(x + self.body(x))


def small_resnet(width=12, classes=6):
    stem = [nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    return nn.Sequential(*stem, Residual(width), Residual(width), *tail)


class CharModel(nn.Module):
    """Predicts the next letter from the state of a GRU."""

    def __init__(self, letters, width=48):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, letters)

    def forward(self, ids, state=None):
        h, state = self.gru(self.embed(ids), state)
        return self.out(h), state


def letters():
    words = inspect.getsource(textwrap)
    table = {c: i for i, c in enumerate(sorted(set(words)))}
    return torch.tensor([table[c] for c in words]), len(table)


def chunk(data, n=16, length=24):
    at = torch.randint(len(data) - length - 1, (n, 1)) + torch.arange(length + 1)
    return data[at][:, :-1], data[at][:, 1:]


class Ratings(Dataset):
    def __init__(self, users=80, items=50, n=3000):
        u, v = torch.randn(users, 4), torch.randn(items, 4)
        self.u, self.i = torch.randint(users, (n,)), torch.randint(items, (n,))
        self.r = (u[self.u] * v[self.i]).sum(1) / 2 + 3 + 0.2 * torch.randn(n)

    def __len__(self):
        return len(self.r)

    def __getitem__(self, k):
        return self.u[k], self.i[k], self.r[k]


class Factors(nn.Module):
    def __init__(self, users=80, items=50, width=16):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.mlp = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, u, i):
        return self.mlp(torch.cat([self.user(u), self.item(i)], -1)).squeeze(-1)


def endless(loader):
    while True:
        yield from loader


def images(size=32):
    return endless(DataLoader(TensorDataset(*stripes()), size, shuffle=True, drop_last=True))


def vit_never_zeroes(s):
    """optimizer.zero_grad() is missing in the loop of a vision transformer."""
    cfg = Settings(steps=60)
    model = ViT(cfg.width)
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for _, (x, y) in zip(range(cfg.steps), images(cfg.batch_size), strict=False):
        if s > 0:
            opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()


def zeroes_once_an_epoch_after_refactoring(s):
    """From some step on the call of zero_grad has moved out of the inner loop."""
    model = Factors()
    opt = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    step = 0
    for _ in range(2):
        opt.zero_grad()
        for u, i, r in DataLoader(Ratings(), 50, shuffle=True):
            if step < s:
                opt.zero_grad()
            loss = F.mse_loss(model(u, i), r)
            loss.backward()
            opt.step()
            step += 1


def rate_of_ten(s):
    """SGD with a learning rate of ten on a residual network."""
    model = small_resnet()
    opt = optim.SGD(model.parameters(), lr=10.0 if s == 0 else 0.05, momentum=0.9)
    for _, (x, y) in zip(range(60), images(), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


def adam_with_a_rate_of_one_half(s):
    """Adam with lr=0.5 on a language model of letters."""
    data, n = letters()
    model = CharModel(n)
    opt = optim.Adam(model.parameters(), lr=0.5 if s == 0 else 3e-3)
    for _ in range(80):
        x, y = chunk(data)
        loss = F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def rate_of_a_billionth(s):
    """lr=1e-9 where 1e-3 was meant."""
    data, n = letters()
    model = CharModel(n)
    opt = optim.AdamW(model.parameters(), lr=1e-9 if s == 0 else 1e-3, weight_decay=0.0)
    for _ in range(100):
        x, y = chunk(data)
        loss = F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def rate_set_by_a_callback(s):
    """A callback multiplies the rate by a hundred instead of dividing it."""
    model = Factors()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step, (u, i, r) in zip(range(120), endless(DataLoader(Ratings(), 40, shuffle=True)), strict=False):
        if step == s:
            for group in opt.param_groups:
                group["lr"] *= 100
        loss = F.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()


def per_epoch_decay_every_batch(s):
    """ExponentialLR with a factor meant for epochs is stepped after every batch."""
    model = ViT()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.ExponentialLR(opt, gamma=0.8)
    x, y = stripes(640)
    for _ in range(6):
        for a, b in DataLoader(TensorDataset(x, y), 32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
            if s == 0:
                schedule.step()
        if s != 0:
            schedule.step()


def scheduler_first(s):
    """The scheduler steps before the optimizer in each iteration."""
    model = small_resnet()
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    for _, (x, y) in zip(range(60), images(), strict=False):
        if s == 0:
            schedule.step()
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
        if s != 0:
            schedule.step()


def resumed_without_optimizer(s):
    """A run is resumed from a checkpoint that holds the weights and the step only."""
    data, n = letters()
    model = CharModel(n)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(110):
            if step == s:
                torch.save({"model": model.state_dict(), "step": step}, f"{folder}/ckpt.pt")
                saved = torch.load(f"{folder}/ckpt.pt")
                model = CharModel(n)
                model.load_state_dict(saved["model"])
                opt = optim.Adam(model.parameters(), lr=3e-3)
            x, y = chunk(data)
            loss = F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()


def scheduler_made_anew_on_resume(s):
    """Model and optimizer are loaded, but a new scheduler starts with its warm-up again."""

    def schedule_of(opt):
        warm = optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 15)
        return optim.lr_scheduler.SequentialLR(opt, [warm, optim.lr_scheduler.CosineAnnealingLR(opt, 85)], [15])

    model = ViT()
    opt = optim.AdamW(model.parameters(), lr=1.5e-3)
    schedule = schedule_of(opt)
    with tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in zip(range(100), images(), strict=False):
            if step == s:
                path = Path(folder) / "last.pt"
                torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, path)
                saved = torch.load(path)
                model = ViT()
                model.load_state_dict(saved["model"])
                opt = optim.AdamW(model.parameters(), lr=1.5e-3)
                opt.load_state_dict(saved["opt"])
                for g in opt.param_groups:
                    g.pop("initial_lr", None)
                    g["lr"] = 1.5e-3
                schedule = schedule_of(opt)
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
            schedule.step()


def clips_to_a_thousandth(s):
    """max_norm=0.001 where 1.0 was meant."""
    model = small_resnet()
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _, (x, y) in zip(range(80), images(), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if s == 0 else 5.0)
        opt.step()


def clips_after_stepping(s):
    """Gradients are clipped after the step has used them."""
    data, n = letters()
    model = CharModel(n)
    opt = optim.SGD(model.parameters(), lr=1.0)
    for _ in range(80):
        x, y = chunk(data)
        opt.zero_grad()
        F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten()).backward()
        if s == 0:
            opt.step()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            opt.step()


class Average:
    """A slow copy of a model."""

    def __init__(self, model, decay=0.95):
        self.decay, self.module = decay, copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for slow, now in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            slow.copy_(self.decay * slow + (1 - self.decay) * now)


def average_no_longer_updated(s):
    """After a change of the loop the slow copy, which is what is validated, is no longer updated."""
    model = Factors()
    slow = Average(model)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    data = Ratings()
    for step, (u, i, r) in zip(range(120), endless(DataLoader(data, 40, shuffle=True)), strict=False):
        loss = F.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < s:
            slow.update(model)
        if step % 30 == 29:
            with torch.no_grad():
                print("slow", F.mse_loss(slow.module(data.u[:200], data.i[:200]), data.r[:200]).item())


def four_microbatches_not_divided(s):
    """Accumulation over four batches is switched on and the loss is not divided by four."""
    model = Factors()
    opt = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    stream = endless(DataLoader(Ratings(), 25, shuffle=True))
    for step in range(90):
        opt.zero_grad()
        for _ in range(4 if step >= s else 1):
            u, i, r = next(stream)
            F.mse_loss(model(u, i), r).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
