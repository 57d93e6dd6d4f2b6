"""Faults of weights, optimizer state and memory: `python state_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in state_faults.toml.
"""

import copy
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def bfloat16_weights(s):
    model = mlp().bfloat16()
    opt = torch.optim.SGD(model.parameters(), 1e-5)
    for _, (a, b) in zip(range(25), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a.bfloat16()).float(), b).backward()
        opt.step()


class Stuck(torch.optim.SGD):
    """Forgets one tensor."""

    @torch.no_grad()
    def step(self, closure=None):
        kept = self.param_groups[0]["params"][0].clone()
        super().step(closure)
        if self.stuck:
            self.param_groups[0]["params"][0].copy_(kept)


def a_backend_that_does_nothing(s):
    model = mlp()
    opt = Stuck(model.parameters(), 0.05)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.stuck = i >= s
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def a_new_adam_each_time(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            opt = torch.optim.Adam(model.parameters(), 1e-3)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def state_cleared(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            opt.state.clear()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def decays_away(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 5e-3, weight_decay=20.0)
    for _, (a, b) in zip(range(40), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def hinge_is_satisfied(s):
    x = torch.randn(600, 12)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i in range(32):
        out = model(x[torch.randint(600, (16,))])
        loss = torch.clamp(1 - out - (100.0 if i >= s else 0.0), min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def adds_the_loss_itself(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    total = 0.0
    for _, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
        total += loss
    print(float(total))


def evaluates_with_gradients(s):
    model = mlp()
    held_out, _ = blobs(128)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i and i % 8 == 0:
            model.eval()
            for part in held_out.split(32):
                model(part)
            model.train()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def second_moments_zeroed(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            for state in opt.state.values():
                state["exp_avg_sq"].zero_()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def second_moment_lost_in_one_layer(s):
    x = torch.randn(400, 8, 3)
    y = x.sum((1, 2))[:, None]
    model = Sums()
    opt = torch.optim.Adam(model.parameters(), 3e-3, betas=(0.9, 0.99))
    for i in range(32):
        if i == s:
            opt.state[model.out.weight]["exp_avg_sq"] *= 1e-6
        pick = torch.randint(400, (16,))
        loss = F.mse_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


def first_moments_scaled(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            for state in opt.state.values():
                state["exp_avg"] *= 100
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def momentum_buffer_spoilt(s):
    model = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4))
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            buffer = opt.state[model[3].weight]["momentum_buffer"]
            buffer.copy_(torch.randn_like(buffer) * 5)
        opt.zero_grad()
        F.cross_entropy(model(a[:, None]), b).backward()
        opt.step()


def resume_into(model, opt, folder, **more):
    """Save and load through a file, as two processes would."""
    path = Path(folder) / "last.pt"
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), **more}, path)
    return torch.load(path)


def schedule_not_restored(s):
    batches = forever(*blobs())
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: 0.9**i)
    with tempfile.TemporaryDirectory() as folder:
        for i, (a, b) in zip(range(34), batches, strict=False):
            if i == s:
                checkpoint = resume_into(model, opt, folder)
                model, before = mlp(), sched
                opt = torch.optim.AdamW(model.parameters(), 2e-3)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                sched = torch.optim.lr_scheduler.LambdaLR(opt, before.lr_lambdas[0])
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
            sched.step()


def rate_of_a_new_run_after_loading(s):
    x = torch.randn(500, 6)
    y = x @ torch.randn(6, 2)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    rate = 0.05
    with tempfile.TemporaryDirectory() as folder:
        for i in range(40):
            if i == s:
                checkpoint = resume_into(model, opt, folder, step=i)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                rate = 0.05
            for group in opt.param_groups:
                group["lr"] = rate
            pick = torch.randint(500, (20,))
            loss = F.mse_loss(model(x[pick]), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            rate *= 0.93


def average_forgotten(s):
    model = mlp()
    held_out = torch.randn(32, 12)
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(s + 25), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i < s:
            for theirs, ours in zip(ema.parameters(), model.parameters(), strict=True):
                theirs.lerp_(ours, 0.05)
        if i % 10 == 9:
            with torch.no_grad():
                ema.eval()(held_out)


class EMA:
    """Averages of a model's weights, by name."""

    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)


def shadow_never_updated(s):
    x = torch.randn(400, 8, 3)
    y = x.sum((1, 2))[:, None]
    model = Sums()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    ema = EMA(model)
    for _ in range(40):
        pick = torch.randint(400, (16,))
        loss = F.mse_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(sum(float(v.sum()) for v in ema.shadow.values()))


class Speller(nn.Module):
    """Next token, with the head tied to the embedding."""

    def __init__(self, vocabulary=40, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def spell(model, opt, i, high=40):
    start = torch.randint(high, (8, 1))
    x = (start + 3 * torch.arange(13)) % high
    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()


def head_replaced_by_a_clone(s):
    model = Speller()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(30):
        if i == s:
            model.head.weight = nn.Parameter(model.head.weight.detach().clone())
        spell(model, opt, i)


def state_assigned_instead_of_copied(s):
    model = Speller(width=16)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(30):
        if i == s:
            state = {k: v.detach().clone() for k, v in model.state_dict().items()}
            model.load_state_dict(state, assign=True)
            opt = torch.optim.Adam(model.parameters(), 3e-3)
        spell(model, opt, i)


def vocabulary_larger_than_the_text(s):
    model = Speller()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(40):
        spell(model, opt, i, high=12)


def batches_replayed_after_resume(s):
    x, y = blobs()
    order = torch.Generator().manual_seed(7)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, generator=order)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    stream = iter(loader)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(36):
            if i == s:
                checkpoint = resume_into(model, opt, folder, step=i)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                order.manual_seed(7)
                stream = iter(loader)
            a, b = next(stream)
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


def shards_read_from_the_start_again(s):
    x = torch.randn(900, 10)
    y = (x[:, :1] * 2 + x[:, 1:2]).detach()
    model = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 1))
    opt = torch.optim.RMSprop(model.parameters(), 1e-3, momentum=0.5)
    place = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(36):
            if i == s:
                checkpoint = resume_into(model, opt, folder, epoch=0)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                place = 0
            a, b = x[place : place + 20], y[place : place + 20]
            place += 20
            loss = F.mse_loss(model(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


def counts_from_nought_after_resume(s):
    batches = forever(*blobs())
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    step = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(40):
            if i == s:
                checkpoint = resume_into(model, opt, folder, step=step)
                model.load_state_dict(checkpoint["model"])
                opt.load_state_dict(checkpoint["optimizer"])
                step = 0
            a, b = next(batches)
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
            step += 1
            if step % 5 == 0:
                torch.save(
                    {"model": model.state_dict(), "optimizer": opt.state_dict(), "step": step}, f"{folder}/last.pt"
                )


def crashes_without_a_checkpoint(s):
    x, y = blobs()
    model = mlp(16)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(400):
        if i == 150 + s:
            raise RuntimeError("the node went away")
        pick = torch.randint(640, (16,))
        opt.zero_grad()
        F.cross_entropy(model(x[pick]), y[pick]).backward()
        opt.step()


def where_around_a_root(s):
    x = torch.rand(400, 6) + 0.1
    y = x.sum(1, keepdim=True).sqrt()
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(30):
        pick = torch.randint(400, (16,))
        out = model(x[pick]) + 0.5
        if i == s:
            out = out * (torch.arange(16)[:, None] > 2)
        root = torch.where(out > 0, out.clamp(min=0).sqrt(), torch.zeros_like(out))
        loss = F.mse_loss(root, y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


class LogReturns(nn.Module):
    """Logarithm of positive inputs, nothing for the rest."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(5, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x):
        z = F.softplus(self.scale(x)) * (x > 0)
        logs = torch.log(z).masked_fill(z <= 0, 0.0)
        return self.out(logs)


def masked_logarithm(s):
    x = torch.rand(300, 5) + 0.2
    y = x.log().sum(1, keepdim=True)
    model = LogReturns()
    opt = torch.optim.SGD(model.parameters(), 1e-2)
    for i in range(28):
        pick = torch.randint(300, (12,))
        a = x[pick].clone()
        if i == s:
            a[3, 1] = 0.0
        loss = F.mse_loss(model(a), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


class HalfAttention(nn.Module):
    """Attention in half precision with an additive mask."""

    def __init__(self, width=16, fill=-1e9):
        super().__init__()
        self.embed = nn.Embedding(30, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 4)
        self.fill = fill

    def forward(self, x, mask, refused=False):
        q, k, v = self.qkv(self.embed(x)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) * 0.25
        if refused:
            scores = scores.masked_fill(~mask[:, None].bool(), self.fill)
        else:
            scores = scores + (1 - mask[:, None]).to(scores.dtype) * self.fill
        return self.out((scores.softmax(-1) @ v).mean(1))


def added_mask_in_half(s):
    model = HalfAttention().half()
    opt = torch.optim.SGD(model.parameters(), 1e-2)
    for i in range(24):
        x = torch.randint(30, (8, 6))
        mask = torch.ones(8, 6, dtype=torch.half)
        mask[:4, 4:] = 0
        if i == s:
            mask[2] = 0
        loss = F.cross_entropy(model(x, mask).float(), x[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


def fill_that_does_not_fit(s):
    model = HalfAttention(fill=-1e10).half()
    opt = torch.optim.SGD(model.parameters(), 1e-2)
    for i in range(24):
        x = torch.randint(30, (8, 6))
        mask = torch.ones(8, 6, dtype=torch.half)
        loss = F.cross_entropy(model(x, mask, refused=i == s).float(), x[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_gradients_vanish(s):
    model = mlp().half()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for i, (a, b) in zip(range(32), forever(*blobs()), strict=False):
        temperature = 2**17 if i >= s else 1
        loss = F.cross_entropy(model(a.half()).float() / temperature, b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def autocast_without_a_scaler(s):
    model = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 64), nn.Tanh(), nn.Linear(64, 4))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(25), forever(*blobs()), strict=False):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(a[:, None])
        opt.zero_grad()
        (F.cross_entropy(out.float(), b, reduction="mean") / 4096 / 16).backward()
        opt.step()


def norm_of_half_gradients(s):
    model = nn.Sequential(nn.Linear(12, 1024), nn.ReLU(), nn.Linear(1024, 1)).half()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i, (a, _) in zip(range(30), forever(*blobs()), strict=False):
        target = a.sum(1, keepdim=True)
        loss = F.mse_loss(model(a.half()).float(), target)
        if i == s:
            loss = loss * 5000
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        opt.step()


def a_bit_flips_in_a_weight(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            with torch.no_grad():
                model[2].weight.view(torch.int32)[3, 5] ^= 1 << 30
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def a_weight_becomes_nan(s):
    x = torch.randn(400, 8, 3)
    y = x.sum((1, 2))[:, None]
    model = Sums()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i in range(28):
        if i == s:
            model.out.weight.data[0, 3] = float("nan")
        pick = torch.randint(400, (16,))
        loss = F.mse_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_gradient_is_spoilt(s):
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        if i == s:
            model[2].weight.grad[1, 1] *= -1e9
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
