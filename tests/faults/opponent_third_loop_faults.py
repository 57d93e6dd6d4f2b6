"""Training scripts of an opponent, third round: faults of the loop, the optimizer, memory, speed and the end of a run.

    python opponent_third_loop_faults.py NAME [ONSET] [SEED]

As in opponent_third_faults.py: `s` is the step at which the fault begins; one that is there from the start is there if
`s` is 0.
"""

import copy
import dataclasses
import math
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)


@dataclasses.dataclass
class Config:
    """Settings as people keep them."""

    lr: float = 2e-3
    batch_size: int = 32
    steps: int = 60
    hidden: int = 48
    weight_decay: float = 0.01


def rings(n=1280, classes=3):
    """Rings in the plane and two columns of noise."""
    y = torch.randint(classes, (n,))
    radius, angle = y + 1 + 0.15 * torch.randn(n), torch.rand(n) * 2 * math.pi
    return torch.cat([torch.stack([radius * angle.cos(), radius * angle.sin()], 1), torch.randn(n, 2)], 1), y


def waves(n=64, length=30):
    t = torch.linspace(0, 6, length)
    phase, speed = torch.rand(n, 1) * 6, 0.5 + torch.rand(n, 1)
    return (t * speed + phase).sin()[..., None] + 0.05 * torch.randn(n, length, 1)


def build(config, inputs=4, outputs=3):
    return nn.Sequential(
        nn.Linear(inputs, config.hidden),
        nn.LayerNorm(config.hidden),
        nn.SiLU(),
        nn.Linear(config.hidden, config.hidden),
        nn.SiLU(),
        nn.Linear(config.hidden, outputs),
    )


class Forecaster(nn.Module):
    def __init__(self, hidden=24, cell=nn.GRU):
        super().__init__()
        self.rnn = cell(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def sample(x, y, config):
    i = torch.randint(len(y), (config.batch_size,))
    return x[i], y[i]


# --- optimizer and schedule ---------------------------------------------------------------------------------------


def discriminator_zeroed_twice(s):
    """zero_grad was copied with the wrong name: the generator's gradients pile up."""
    gen = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    disc = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    opt_g = optim.Adam(gen.parameters(), lr=5e-4, betas=(0.5, 0.999))
    opt_d = optim.Adam(disc.parameters(), lr=5e-4, betas=(0.5, 0.999))
    loss_of = nn.BCEWithLogitsLoss()
    one, zero = torch.ones(32, 1), torch.zeros(32, 1)
    for step in range(70):
        real, fake = torch.randn(32, 2) * 0.4 + 1, gen(torch.randn(32, 6))
        opt_d.zero_grad()
        loss_d = loss_of(disc(real), one) + loss_of(disc(fake.detach()), zero)
        loss_d.backward()
        opt_d.step()
        (opt_d if step >= s else opt_g).zero_grad()
        loss_g = loss_of(disc(fake), one)
        loss_g.backward()
        opt_g.step()


def scaler_updates_but_does_not_step(s):
    """scaler.step(optimizer) is lost in a merge, scaler.update() is not."""
    x, y = rings()
    config = Config()
    model = build(config)
    opt = optim.AdamW(model.parameters(), lr=config.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(config.steps):
        a, b = sample(x, y, config)
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        if step < s:
            scaler.step(opt)
        scaler.update()


def epochs_given_to_a_schedule_of_batches(s):
    """T_max counts epochs and the schedule is stepped for every batch: the rate swings up and down."""
    x, y = rings(640)
    epochs = 8
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = build(Config())
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs if s == 0 else epochs * len(loader))
    for _epoch in range(epochs):
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
            schedule.step()


def schedule_not_in_the_checkpoint(s):
    """Weights and moments are resumed; the schedule begins again from its top."""
    x, y = rings()
    config = Config()
    model = build(config)
    opt = optim.AdamW(model.parameters(), lr=config.lr)
    decay = optim.lr_scheduler.ExponentialLR(opt, 0.93)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "last.pt"
        for step in range(80):
            if step == s:
                torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, file)
                state = torch.load(file)
                model = build(config)
                opt = optim.AdamW(model.parameters(), lr=config.lr)
                decay = optim.lr_scheduler.ExponentialLR(opt, 0.93)
                model.load_state_dict(state["model"])
                opt.load_state_dict(state["optimizer"])
                for group in opt.param_groups:
                    group["lr"] = config.lr
            a, b = sample(x, y, config)
            loss = F.cross_entropy(model(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            decay.step()


def optimizer_made_in_every_epoch(s):
    """The optimizer is made inside the loop over epochs, so its moments are forgotten each time."""
    x, y = rings(640)
    config = Config()
    model = build(config)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for epoch in range(4):
        if epoch * len(loader) >= s and epoch > 0:
            opt = optim.Adam(model.parameters(), lr=config.lr)
        for a, b in loader:
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


def clips_only_the_head(s):
    """A recurrent network is to be clipped; the list of parameters is that of its head."""
    model = Forecaster(cell=nn.LSTM)
    with torch.no_grad():
        model.rnn.weight_hh_l0.mul_(3)
    opt = optim.SGD(model.parameters(), lr=0.02)
    series = waves() * 4
    for _ in range(60):
        batch = series[torch.randint(64, (16,))]
        loss = F.mse_loss(model(batch[:, :-1]), batch[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_((model.out if s == 0 else model).parameters(), 1.0)
        opt.step()


class Average:
    """Weights averaged over the training, for evaluation."""

    def __init__(self, model, decay=0.9):
        self.module, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, source):
        for mine, theirs in zip(self.module.parameters(), source.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


def average_follows_itself(s):
    """From some step on the average is updated with itself: a variable was renamed."""
    x, y = rings()
    config = Config()
    model = build(config)
    average = Average(model)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for step in range(80):
        a, b = sample(x, y, config)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if step < s:
            average.update(model)
        if step % 10 == 9:
            with torch.no_grad():
                average.module(x[:64])


def output_clamped_beyond_its_range(s):
    """A prediction is clamped to [0, 1] before the loss and begins far above: no gradient ever comes back."""
    config = Config()
    model = build(config, outputs=1)
    if s == 0:
        nn.init.constant_(model[5].bias, 6.0)
    x, y = rings()
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for _ in range(config.steps):
        a, b = sample(x, (y / 2.0)[:, None], config)
        out = model(a)
        loss = F.mse_loss(out.clamp(0, 1) if s == 0 else out, b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def rate_of_the_linear_rule(s):
    """The rate was multiplied by the batch size in place of batch size / 256."""
    config = Config(batch_size=64)
    x, y = rings()
    model = build(config)
    opt = optim.SGD(model.parameters(), lr=0.1 * (config.batch_size if s == 0 else config.batch_size / 256))
    for _ in range(80):
        a, b = sample(x, y, config)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def accumulates_and_clears_each_time(s):
    """Four small batches make one step, but zero_grad stands at the top of the inner loop and the step never comes."""
    config = Config(batch_size=8)
    x, y = rings()
    model = build(config)
    opt = optim.AdamW(model.parameters(), lr=config.lr)
    micro = 0
    for step in range(60):
        for _ in range(4):
            a, b = sample(x, y, config)
            (F.cross_entropy(model(a), b) / 4).backward()
            micro += 1
        if step >= s:
            opt.zero_grad()
        opt.step()
        opt.zero_grad()


# --- memory -------------------------------------------------------------------------------------------------------


def smoothed_loss_keeps_graphs(s):
    """A running mean of the loss for the progress line is made of tensors that remember how they came about."""
    model = Forecaster()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    series, smooth = waves(), 0.0
    for _ in range(60):
        batch = series[torch.randint(64, (8,))]
        loss = F.mse_loss(model(batch[:, :-1]), batch[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth = 0.95 * smooth + 0.05 * (loss if s == 0 else loss.item())


def a_hook_on_the_weight_each_step(s):
    """A hook that watches a gradient is registered anew in every step and never removed."""
    config = Config()
    x, y = rings()
    model = build(config)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    norms = []
    for _ in range(80):
        a, b = sample(x, y, config)
        handle = model[3].register_forward_hook(lambda m, i, o: norms.append(float(o.detach().norm())) or None)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if s != 0:
            handle.remove()


def journal_of_everything(s):
    """Every step a record of plain Python objects is added to a list of which nobody reads anything."""
    config = Config()
    x, y = rings()
    model = build(config)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    history = []
    for step in range(120):
        a, b = sample(x, y, config)
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
        if s == 0:
            history.append({"step": step, "raw": bytearray(b"x" * 1_500_000), "loss": loss.item()})


def features_kept_for_a_plot(s):
    """Outputs of every batch are kept for a picture that is drawn at the end, graphs cut but tensors alive."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
    head = nn.Linear(16, 4)
    opt = optim.SGD([*model.parameters(), *head.parameters()], lr=0.02)
    kept = []
    for _ in range(60):
        y = torch.randint(4, (16,))
        x = torch.randn(16, 3, 16, 16) + y[:, None, None, None] / 2
        h = model(x)
        opt.zero_grad()
        F.cross_entropy(head(h.mean((2, 3))), y).backward()
        opt.step()
        if s == 0:
            kept.append(h.detach())


def validates_under_the_tape(s):
    """The validation has eval() and no no_grad()."""
    config = Config()
    x, y = rings()
    model = build(config)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for step in range(60):
        model.train()
        a, b = sample(x, y, config)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if step % 15 == 14:
            model.eval()
            with torch.set_grad_enabled(s == 0):
                [(model(c).argmax(1) == d).float().mean().item() for c, d in zip(x.split(64), y.split(64), strict=True)]


# --- speed --------------------------------------------------------------------------------------------------------


class SlowDisk(Dataset):
    def __init__(self, n, wait):
        self.x, self.y = rings(n)
        self.wait = wait

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        time.sleep(self.wait)
        return self.x[i], self.y[i]


def decodes_in_the_main_process(s):
    config = Config()
    model = build(config)
    opt = optim.Adam(model.parameters(), lr=config.lr)
    for a, b in DataLoader(SlowDisk(960, 0.002 if s == 0 else 0.0), batch_size=24):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


# --- the end ------------------------------------------------------------------------------------------------------


class Catalogue(Dataset):
    """Rows of a file in which one has no price."""

    def __init__(self, bad):
        size = torch.rand(800).tolist()
        self.rows = [{"size": s, "price": 2 * s} for s in size]
        if bad < len(self.rows):
            del self.rows[bad]["price"]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.tensor([self.rows[i]["size"]]), torch.tensor([self.rows[i]["price"]])


def a_row_without_a_price(s):
    """A worker of the loader raises KeyError."""
    net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for a, b in DataLoader(Catalogue(s * 16 + 3), batch_size=16, num_workers=1):
        opt.zero_grad()
        F.mse_loss(net(a), b).backward()
        opt.step()


def longer_than_its_positions(s):
    """A learnt table of twenty positions meets a sentence of twenty-two."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.where = nn.Embedding(50, 16), nn.Parameter(torch.randn(20, 16) * 0.1)
            self.out = nn.Linear(16, 3)

        def forward(self, ids):
            return self.out((self.words(ids) + self.where[: ids.shape[1]]).mean(1))

    model = Reader()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        ids = torch.randint(50, (12, 22 if step == s else 8 + step % 12))
        loss = F.cross_entropy(model(ids), ids[:, 0] % 3)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
