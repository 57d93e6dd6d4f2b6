"""Faults of the loop, its schedule, its clipping and its scaler: `python loop_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in loop_faults.toml.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, OneCycleLR, SequentialLR, StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=12, hidden=24, classes=4, act=nn.GELU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.LayerNorm(hidden), nn.Linear(hidden, classes))


class Tagger(nn.Module):
    """Labels every token of a sequence."""

    def __init__(self, vocabulary=20, width=16, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def sequences(n=512, length=12):
    x = torch.randint(20, (n, length))
    return x, (x + x.roll(1, 1)) % 5


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def clears_too_late(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(*blobs()), strict=False):
        if i < s:
            opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        if i >= s:
            opt.zero_grad()
        opt.step()


def clears_the_model_too_late(s):
    model = Tagger()
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for i, (a, b) in zip(range(30), batches(*sequences()), strict=False):
        loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        if i < s:
            model.zero_grad(set_to_none=False)
        loss.backward()
        if i >= s:
            model.zero_grad(set_to_none=False)
        opt.step()


def rate_goes_to_zero(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    plan = LambdaLR(opt, lambda i: 1.0 if i < s else 0.0)
    for _, (a, b) in zip(range(s + 25), batches(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        plan.step()


def rate_set_negative(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(*sequences()), strict=False):
        opt.param_groups[0]["lr"] = 1e-3 if i < s else -1e-3
        opt.zero_grad()
        F.cross_entropy(model(a).flatten(0, 1), b.flatten()).backward()
        opt.step()


def tiny_rate(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-10)
    for _, (a, b) in zip(range(30), batches(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def rate_falls_by_a_typo(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i, (a, b) in zip(range(s + 20), batches(*sequences()), strict=False):
        if i == s:
            for group in opt.param_groups:
                group["lr"] *= 1e-5
        opt.zero_grad()
        F.cross_entropy(model(a).flatten(0, 1), b.flatten()).backward()
        opt.step()


def schedule_per_microbatch(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    plan = CosineAnnealingLR(opt, T_max=80)
    data = batches(*blobs())
    for _ in range(20):
        opt.zero_grad()
        for _ in range(4):
            a, b = next(data)
            (F.cross_entropy(model(a), b) / 4).backward()
            plan.step()
        opt.step()


def schedule_in_two_places(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    plan = SequentialLR(opt, [LinearLR(opt, 0.1, 1.0, 10), CosineAnnealingLR(opt, 60)], [10])
    for i, (a, b) in zip(range(30), batches(*sequences()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a).flatten(0, 1), b.flatten()).backward()
        opt.step()
        plan.step()
        if i >= s:
            plan.step()


def schedule_forgotten(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    plan = CosineAnnealingLR(opt, T_max=40)
    for _, (a, b) in zip(range(40), batches(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
    print(plan.get_last_lr())


def schedule_first(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    plan = OneCycleLR(opt, 3e-3, total_steps=40)
    for _, (a, b) in zip(range(25), batches(*sequences()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a).flatten(0, 1), b.flatten()).backward()
        plan.step()
        opt.step()


def step_schedule_first(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    plan = StepLR(opt, 10)
    for _, (a, b) in zip(range(25), batches(*blobs()), strict=False):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        plan.step()
        opt.step()


def accumulates_full_means(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.02)
    data = batches(*blobs())
    for i in range(25):
        opt.zero_grad()
        for _ in range(4):
            a, b = next(data)
            loss = F.cross_entropy(model(a), b)
            (loss if i >= s else loss / 4).backward()
        opt.step()


def accumulates_full_means_of_a_regression(s):
    x = torch.randn(600, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(20):
        opt.zero_grad()
        for _ in range(3):
            at = torch.randint(600, (16,))
            F.mse_loss(model(x[at]), y[at]).backward()
        opt.step()


def weighs_short_microbatches_like_long_ones(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    data = batches(*sequences())
    for _ in range(20):
        opt.zero_grad()
        for k in range(2):
            a, b = next(data)
            b = b.clone()
            if k:
                b[:, 3:] = -100
            (F.cross_entropy(model(a).flatten(0, 1), b.flatten()) / 2).backward()
        opt.step()


def clips_to_a_crumb(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(30), batches(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        opt.step()


def clips_before_backward(s):
    model = Tagger()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for i, (a, b) in zip(range(30), batches(*sequences()), strict=False):
        loss = 20 * F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        opt.zero_grad(set_to_none=False)
        if i >= s:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        loss.backward()
        if i < s:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def clips_after_the_step(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), batches(*blobs()), strict=False):
        opt.zero_grad()
        (10 * F.cross_entropy(model(a), b)).backward()
        opt.step()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clips_scaled_gradients(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for i, (a, b) in zip(range(30), batches(*blobs()), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        if i < s:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def scaler_without_autocast(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for _, (a, b) in zip(range(20), batches(*sequences()), strict=False):
        opt.zero_grad()
        scaler.scale(F.cross_entropy(model(a).flatten(0, 1), b.flatten())).backward()
        scaler.step(opt)
        scaler.update()


def autocast_goes_missing(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(s + 15), batches(*blobs()), strict=False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=i < s):
            loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def divides_by_a_fixed_scale(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=8)
    x, y = blobs()
    for _ in range(34):
        opt.zero_grad()
        scale = scaler.get_scale()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[:256]), y[:256])
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        for p in model.parameters():
            p.grad.mul_(scale / 8.0)
        scaler.step(opt)
        scaler.update()


def scale_collapses(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for i, (a, b) in zip(range(s + 20), batches(*sequences()), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        scaler.scale(loss).backward()
        if i >= s:
            model.head.weight.grad[0, 0] = float("inf")
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
