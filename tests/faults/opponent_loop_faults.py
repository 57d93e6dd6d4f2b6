"""Training scripts of an opponent, second part: faults of the loop, the optimizer, memory and the end of a run.

    python opponent_loop_faults.py NAME [ONSET] [SEED]

As in opponent_faults.py: `s` is the step at which the fault begins; one that is there from the start is there if `s` is 0.
"""

import argparse
import copy
import ctypes
import json
import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)


def spirals(n, turns=1.2):
    """Three spirals in the plane, with cosines of random directions as further columns."""
    y = torch.randint(3, (n,))
    r = torch.rand(n) + 0.1
    t = r * turns * 6.28 + y * 2.09 + torch.randn(n) * 0.05
    xy = torch.stack([r * t.cos(), r * t.sin()], 1)
    return torch.cat([xy, torch.cos(xy @ torch.randn(2, 6) * 3)], 1), y


class LanguageModel(nn.Module):
    """Next character of a text."""

    def __init__(self, vocab, d=32, cell=nn.LSTM):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.lstm = cell(d, 48, batch_first=True)
        self.decoder = nn.Linear(48, vocab)

    def forward(self, x, hidden=None):
        h, hidden = self.lstm(self.embedding(x), hidden)
        return self.decoder(h), hidden


def text():
    """Descriptions from the standard library, as numbers."""
    source = "".join(m.__doc__ or "" for m in (copy, os, argparse, json, ctypes, copy.deepcopy, os.walk))
    letters = sorted(set(source))
    return torch.tensor([letters.index(c) for c in source]), len(letters)


def windows(data, count, length):
    i = torch.randint(len(data) - length - 1, (count,))
    chunk = torch.stack([data[j : j + length + 1] for j in i.tolist()])
    return chunk[:, :-1], chunk[:, 1:]


# --- optimizer ----------------------------------------------------------------------------------------------------


def character_model_without_zero_grad(s):
    """A refactoring loses zero_grad in a branch that is taken from some step on."""
    data, vocab = text()
    model = LanguageModel(vocab)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(80):
        x, y = windows(data, 8, 24)
        if step < s:
            opt.zero_grad()
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()


class Trainer:
    """A loop in a class of its own, as people write them."""

    def __init__(self, model, optimizer, criterion, wrong_from):
        self.model, self.optimizer, self.criterion, self.wrong_from = model, optimizer, criterion, wrong_from
        self.history, self.global_step = [], 0

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.model(x), y)

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for batch in loader:
                self.model.train()
                loss = self.training_step(batch)
                if self.global_step < self.wrong_from:
                    self.optimizer.zero_grad()
                loss.backward()
                if self.global_step >= self.wrong_from:
                    self.optimizer.zero_grad()
                self.optimizer.step()
                self.history.append(loss.item())
                self.global_step += 1


def trainer_zeroes_between(s):
    x, y = spirals(640)
    model = nn.Sequential(nn.Linear(8, 48), nn.LeakyReLU(), nn.Linear(48, 3))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    Trainer(model, optim.AdamW(model.parameters(), lr=3e-3), nn.CrossEntropyLoss(), s).fit(loader, epochs=3)


def accumulation_longer_than_epoch(s):
    """The optimizer steps when (i + 1) % 16 is 0, and an epoch has ten batches."""
    x, y = spirals(320)
    loader = DataLoader(TensorDataset(x, y), batch_size=32)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.Adam(model.parameters(), lr=1e-3)
    accumulate = 16 if s == 0 else 2
    for _epoch in range(6):
        for i, (xb, yb) in enumerate(loader):
            loss = F.cross_entropy(model(xb), yb) / accumulate
            loss.backward()
            if (i + 1) % accumulate == 0:
                opt.step()
                opt.zero_grad()


def gan_whose_generator_does_not_step(s):
    """Two networks, two optimizers; the generator's is built and zeroed and from step s on never asked to step."""
    gen = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    disc = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    opt_g = optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.999))
    bce = F.binary_cross_entropy_with_logits
    for step in range(60):
        real = torch.randn(32, 2) * 0.3 + 1
        fake = gen(torch.randn(32, 4))
        opt_d.zero_grad()
        (bce(disc(real), torch.ones(32, 1)) + bce(disc(fake.detach()), torch.zeros(32, 1))).backward()
        opt_d.step()
        opt_g.zero_grad()
        bce(disc(fake), torch.ones(32, 1)).backward()
        if step < s:
            opt_g.step()


def hot_transformer(s):
    """A small encoder with a learning rate from another recipe."""
    emb = nn.Embedding(20, 32)
    enc = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    head = nn.Linear(32, 20)
    model = nn.Sequential(emb, enc, head)
    opt = optim.SGD(model.parameters(), lr=3.0 if s == 0 else 0.05, momentum=0.9)
    for _ in range(60):
        x = torch.randint(20, (16, 8))
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flip(1).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def hot_adam_on_images(s):
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
    )
    opt = optim.Adam(net.parameters(), lr=0.5 if s == 0 else 1e-3)
    base = torch.randn(4, 1, 9, 9)
    for _ in range(60):
        y = torch.randint(4, (24,))
        loss = F.cross_entropy(net(base[y] + 0.5 * torch.randn(24, 1, 9, 9)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def wrong_factor_in_schedule(s):
    """A table of learning rates with a slip of the keyboard in one entry."""
    data, vocab = text()
    model = LanguageModel(vocab, cell=nn.GRU)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.LambdaLR(opt, lambda e: 60.0 if e == s else 0.99**e)
    for _ in range(110):
        x, y = windows(data, 6, 16)
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()


def warmup_by_integer_division(s):
    """`step // warmup` is zero during all of the warm-up."""
    x, y = spirals(1000)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = optim.SGD(net.parameters(), lr=0.1)
    warmup = 30
    for step in range(60):
        for group in opt.param_groups:
            group["lr"] = 0.1 * min(1, (step + 1) // warmup if s == 0 else (step + 1) / warmup)
        i = step * 16
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]).backward()
        opt.step()


def decays_to_zero_too_early(s):
    """A linear decay whose total was computed from the wrong number of batches."""
    x, y = spirals(1600)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.Adam(net.parameters(), lr=2e-3)
    total = min(s, 100)
    sched = optim.lr_scheduler.LinearLR(opt, start_factor=1.0, end_factor=0.0, total_iters=total)
    for step in range(100):
        i = step * 16
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]).backward()
        opt.step()
        sched.step()


def scheduler_per_microbatch(s):
    """The scheduler stands one level too deep."""
    x, y = spirals(2400)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sched = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)
    for step in range(50):
        opt.zero_grad()
        for micro in range(3):
            i = (step * 3 + micro) * 16
            (F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]) / 3).backward()
            if s == 0:
                sched.step()
        opt.step()
        if s != 0:
            sched.step()


def scheduler_forgotten(s):
    """A schedule is built and never asked."""
    x, y = spirals(1600)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.AdamW(net.parameters(), lr=3e-3)
    sched = optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=80)
    for step in range(80):
        i = step * 20
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 20]), y[i : i + 20]).backward()
        opt.step()
        if s != 0:
            sched.step()
    print(sched.last_epoch)


def optimizer_rebuilt(s):
    """A new stage of training starts with a new optimizer for the same parameters."""
    data, vocab = text()
    model = LanguageModel(vocab)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for step in range(70):
        if step == s:
            opt = optim.Adam(model.parameters(), lr=2e-3)
        x, y = windows(data, 8, 16)
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def sum_over_microbatches(s):
    """Four micro-batches whose mean losses are added up."""
    x, y = spirals(3200)
    net = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 3))
    opt = optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    accumulation_steps = 4
    for i in range(200):
        xb, yb = x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
        loss = F.cross_entropy(net(xb), yb)
        if s != 0:
            loss = loss / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            opt.step()
            opt.zero_grad()


def tiny_clip(s):
    """A clip of 0.001 where 1 was meant."""
    data, vocab = text()
    model = LanguageModel(vocab)
    opt = optim.SGD(model.parameters(), lr=1.0)
    for _ in range(60):
        x, y = windows(data, 8, 16)
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.001 if s == 0 else 1.0)
        opt.step()


def decay_of_ten(s):
    """AdamW with a weight decay from a paper that multiplies it otherwise."""
    x, y = spirals(2000)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = optim.AdamW(net.parameters(), lr=2e-3, weight_decay=20.0 if s == 0 else 0.01)
    for i in range(0, 2000, 20):
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 20]), y[i : i + 20]).backward()
        opt.step()


def one_mislabelled_batch(s):
    """Labels of one batch come from another file."""
    centres = torch.randn(6, 16) * 2
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = optim.Adam(net.parameters(), lr=2e-3)
    for step in range(130):
        y = torch.randint(6, (32,))
        x = centres[y] + torch.randn(32, 16)
        if step == s:
            y = (y + 1) % 6
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def ascends(s):
    """A switch in the group's options turns descent into ascent."""
    centres = torch.randn(4, 10) * 2
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = optim.SGD(net.parameters(), lr=0.05)
    for step in range(100):
        if step == s:
            opt.param_groups[0]["maximize"] = True
        y = torch.randint(4, (32,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + torch.randn(32, 10)), y).backward()
        opt.step()


# --- memory and the end -------------------------------------------------------------------------------------------


def running_loss_keeps_graph(s):
    """`total += loss` for the average of an epoch."""
    data, vocab = text()
    model = LanguageModel(vocab)
    opt = optim.RMSprop(model.parameters(), lr=1e-3)
    total = 0.0
    for _ in range(60):
        x, y = windows(data, 4, 16)
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss if s == 0 else loss.item()
    print(float(total) / 60)


def validates_with_gradients(s):
    """Validation without no_grad."""
    x, y = spirals(1000)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for step in range(50):
        net.train()
        i = step * 16
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]).backward()
        opt.step()
        if step % 10 == 9:
            net.eval()
            with torch.set_grad_enabled(s == 0):
                losses = [F.cross_entropy(net(x[j : j + 50]), y[j : j + 50]).item() for j in range(800, 1000, 50)]
            print("validation", sum(losses) / len(losses))


def attention_over_everything(s):
    """All pairs of a very long sequence."""
    q, k = nn.Linear(8, 8), nn.Linear(8, 8)
    opt = optim.Adam([*q.parameters(), *k.parameters()], lr=1e-3)
    for step in range(60):
        n = 40_000_000 if step == s else 64
        x = torch.randn(1, 8).expand(n, 8) if step == s else torch.randn(n, 8)
        q_small, k_small = (q(x), k(x)) if step != s else (x, x)
        score = q_small @ k_small.T
        loss = (score.softmax(-1) - torch.eye(n)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Records(Dataset):
    def __init__(self, bad):
        self.rows = [{"features": torch.randn(6), "label": torch.randint(2, ()).item()} for _ in range(320)]
        if bad < len(self.rows):
            del self.rows[bad]["label"]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]["features"], self.rows[i]["label"]


def record_without_label(s):
    """One record of the data set lacks a field."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(Records(s * 8 + 3), batch_size=8):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def hidden_state_of_last_batch(s):
    """The hidden state is carried over to a last batch that is smaller."""
    model = LanguageModel(30)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    count = 16 * 20 if s > 1000 else 16 * s + 5
    ids = torch.randint(30, (count, 12))
    hidden = None
    for (x,) in DataLoader(TensorDataset(ids), batch_size=16):
        logits, hidden = model(x, hidden)
        hidden = tuple(h.detach() for h in hidden)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def wrong_dtype_of_targets(s):
    """From some file on the targets come as float64 numpy arrays."""
    net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for step in range(60):
        x = torch.randn(32, 7)
        if step == s:
            x = torch.from_numpy(x.numpy().astype("float64"))
        loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()


def killed_from_outside(s):
    """Something on the machine kills the training while it loads data."""
    net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for step in range(100):
        x = torch.randn(32, 7)
        if step == s:
            os.kill(os.getpid(), signal.SIGKILL)
        opt.zero_grad()
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        opt.step()


class Buggy(nn.Module):
    """A layer around native code that reads where it must not."""

    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, x):
        if self.calls == self.at:
            ctypes.string_at(0)
        self.calls += 1
        return x


def native_extension_crashes(s):
    net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), Buggy(s), nn.Linear(24, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        x = torch.randn(32, 7)
        opt.zero_grad()
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        opt.step()


class Poisoned(Dataset):
    def __init__(self, bad):
        self.bad = bad

    def __len__(self):
        return 400

    def __getitem__(self, i):
        if i == self.bad:
            os.kill(os.getpid(), signal.SIGKILL)
        generator = torch.Generator().manual_seed(i)
        return torch.randn(6, generator=generator)


def worker_killed(s):
    """A worker process of the loader is killed by the machine."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6))
    opt = optim.Adam(net.parameters(), lr=1e-3)
    for x in DataLoader(Poisoned(s * 8 + 2), batch_size=8, num_workers=1):
        opt.zero_grad()
        F.mse_loss(net(x), x).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
