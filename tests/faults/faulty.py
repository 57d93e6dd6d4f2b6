"""Training scripts with a fault: `python faulty.py NAME [ONSET] [SEED]`. They know nothing of firstfault.

Each function is an ordinary loop in a style of its own; `s` is the step at which the fault begins. The truth (name, step,
module) stands in faulty.toml and is not read by anything under test.
"""

import math
import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


class Conv(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def images(n=400, classes=4):
    y = torch.randint(classes, (n,))
    x = torch.randn(n, 1, 10, 10) * 0.5
    for i in range(n):
        x[i, 0, y[i] * 2 : y[i] * 2 + 3] += 1.5
    return x, y


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


# -- data -----------------------------------------------------------------------------------------------------------------


def nan_in_batch(s):
    x, y = blobs()
    model, steps = mlp(), 30
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(steps), batches(x, y), strict=False):
        if i == s:
            a = (a - a.mean(0)) / (a.std(0) * 0 + 0)  # a constant column divided by its deviation
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()


def nan_in_images_sgd(s):
    x, y = images()
    x[37] = math.nan
    model = Conv()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    crit = nn.CrossEntropyLoss()
    for i in range(24):
        idx = torch.arange(i * 16, i * 16 + 16) % 400
        if i == s:
            idx[3] = 37
        else:
            idx[idx == 37] = 38
        out = model(x[idx])
        loss = crit(out, y[idx])
        if not torch.isfinite(loss):
            raise ValueError(f"loss is {loss.item()} at iteration {i}")
        opt.zero_grad()
        loss.backward()
        opt.step()


def outlier_regression(s):
    x = torch.randn(800, 8)
    y = x @ torch.randn(8, 1) + 0.1 * torch.randn(800, 1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(40):
        a, b = x[i * 20 : i * 20 + 20], y[i * 20 : i * 20 + 20]
        if i == s:
            a = a * 2000.0
            b = b * 2000.0
        loss = F.mse_loss(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def outlier_images(s):
    x, y = images(600)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i, (a, b) in zip(range(36), batches(x, y), strict=False):
        if i == s:
            a = a * -2550.0  # bytes read as signed, and never divided by 255
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Labelled(Dataset):
    def __init__(self, bad, width=16):
        self.x, self.y = blobs(width=width)
        self.bad = bad

    def __len__(self):
        return 480

    def __getitem__(self, i):
        return self.x[i], self.y[i] if i != self.bad else torch.tensor(7)


def label_too_large(s):
    data = Labelled(s * 16 + 5)
    model = mlp()
    opt = torch.optim.Adam(model.parameters())
    crit = nn.CrossEntropyLoss()
    for a, b in DataLoader(data, batch_size=16):
        opt.zero_grad()
        loss = crit(model(a), b)
        loss.backward()
        opt.step()


def label_minus_one(s):
    x, y = images()
    model = Conv()
    opt = torch.optim.AdamW(model.parameters())
    for i in range(20):
        b = y[i * 16 : i * 16 + 16].clone()
        if i == s:
            b[2] = -1
        loss = F.nll_loss(F.log_softmax(model(x[i * 16 : i * 16 + 16]), -1), b)
        loss.backward()
        opt.step()
        opt.zero_grad()


class Tagger(nn.Module):
    def __init__(self, vocabulary=40, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, tags)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def all_ignored(s):
    ids = torch.randint(40, (400, 6))
    tags = ids % 5
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(25):
        a, b = ids[i * 16 : i * 16 + 16], tags[i * 16 : i * 16 + 16].clone()
        if i == s:
            b[:] = -100
        loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


# -- model ----------------------------------------------------------------------------------------------------------------


def head_replaced_after_optimizer(_):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model[4] = nn.Linear(32, 4)
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def adapter_not_in_optimizer(_):
    x, y = images()
    model = Conv()
    opt = torch.optim.SGD([*model.stem.parameters(), *model.head.parameters()], 0.05)
    for _, (a, b) in zip(range(25), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Detaching(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32))
        self.decoder = nn.Linear(32, 4)
        self.cut = False

    def forward(self, x):
        z = self.encoder(x)
        if self.cut:
            z = z.detach()
        return self.decoder(z)


def detached(s):
    x, y = blobs()
    model = Detaching()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        model.cut = i >= s
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(16, 32)
        self.mid = nn.Linear(32, 32)
        self.back = nn.Linear(32, 4)

    def forward(self, x):
        with torch.no_grad():  # somebody measured the activation range here
            h = F.gelu(self.mid(F.gelu(self.front(x))))
        return self.back(h)


def no_grad_in_forward(_):
    x, y = blobs()
    model = Quantised()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        F.cross_entropy(model(a), b).backward()
        opt.step()
        opt.zero_grad()


def dead_relu_after_big_step(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i == s - 1:
            with torch.no_grad():
                model[2].bias -= 60.0


def dead_relu_from_init(_):
    x, y = images()
    model = Conv()
    nn.init.constant_(model.body[0].bias, -40.0)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def vanishing_sigmoids(_):
    x, y = blobs()
    layers = []
    for i in range(12):
        layers += [nn.Linear(16 if i == 0 else 24, 24), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(24, 4))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def exploding_rnn(_):
    x = torch.randn(600, 30, 4)
    y = x.sum((1, 2))[:, None] / 10
    cell = nn.RNN(4, 32, nonlinearity="relu", batch_first=True)
    with torch.no_grad():
        cell.weight_hh_l0.copy_(torch.eye(32) + 0.02 * torch.randn(32, 32))
    head = nn.Linear(32, 1)
    model = nn.ModuleDict({"cell": cell, "head": head})
    opt = torch.optim.SGD(model.parameters(), 2e-3)
    for i in range(40):
        a, b = x[i * 15 : i * 15 + 15], y[i * 15 : i * 15 + 15]
        loss = F.mse_loss(head(cell(a)[0][:, -1]), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


# -- numerics -------------------------------------------------------------------------------------------------------------


def log_of_probability(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i, (a, b) in zip(range(40), batches(x, y), strict=False):
        logits = model(a)
        if i >= s:
            logits = logits * 400.0  # a temperature somebody set too low
        p = F.softmax(logits, -1)
        loss = -torch.log(p[range(len(b)), (b + (i >= s)) % 4]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))

    def forward(self, a, b):
        return torch.sqrt(((self.net(a) - self.net(b)) ** 2).sum(-1))


def weights_sum_to_zero(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        keep = (torch.rand(16) > 0.5).float()
        if i == s:
            keep[:] = 0
        loss = (F.cross_entropy(model(a), b, reduction="none") * keep).sum() / keep.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Normalising(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return self.scale * x / x.pow(2).mean(-1, keepdim=True).sqrt()


def zero_sample_in_rms_norm(s):
    x, y = blobs()
    model = nn.Sequential(Normalising(), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        if i == s:
            a[3] = 0.0
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def sqrt_of_distance(s):
    x, y = blobs()
    model = Distance()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(30):
        a, b = x[i * 16 : i * 16 + 16], x[i * 16 + 100 : i * 16 + 116].clone()
        same = y[i * 16 : i * 16 + 16] == y[i * 16 + 100 : i * 16 + 116]
        if i == s:
            b[4] = a[4]  # a pair of one and the same sample
        d = model(a, b)
        loss = torch.where(same, d, F.relu(2 - d)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def std_of_constant(s):
    x, y = images()
    model = Conv()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i, (a, b) in zip(range(25), batches(x, y), strict=False):
        out = model(a)
        spread = (out * (0.0 if i == s else 1.0)).var(1).sqrt()
        loss = F.cross_entropy(out, b) + 0.01 * spread.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 4.0
        scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
        return scores.softmax(-1) @ self.v(x)


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16, padding_idx=0)
        self.layers = nn.ModuleList(Attention() for _ in range(2))
        self.out = nn.Linear(16, 3)

    def forward(self, ids):
        mask = ids != 0
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x, mask)
        return self.out(x.mean(1))


def empty_sentence(s):
    ids = torch.randint(1, 30, (480, 7))
    ids[:, 5:] *= torch.rand(480, 2) > 0.5
    y = ids[:, 0] % 3
    model = Pooler()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(30):
        a, b = ids[i * 16 : i * 16 + 16].clone(), y[i * 16 : i * 16 + 16]
        if i == s:
            a[9] = 0
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 4)

    def forward(self, x, padding):
        return self.head(self.norm(x + self.attn(x, x, x, key_padding_mask=padding)[0]).mean(1))


def padded_encoder(s):
    x = torch.randn(400, 6, 16)
    y = x[:, 0, :4].argmax(-1)
    model = Encoder()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(24):
        padding = torch.zeros(16, 6, dtype=torch.bool)
        padding[:, 4:] = True
        if i == s:
            padding[7] = True
        loss = F.cross_entropy(model(x[i * 16 : i * 16 + 16], padding), y[i * 16 : i * 16 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 64)
        self.mid = nn.Linear(64, 64)
        self.out = nn.Linear(64, 4)
        self.gain = 1.0

    def forward(self, x):
        x = F.relu(self.inp(x)) * self.gain
        x = F.relu(self.mid(x))
        return self.out(x / self.gain)


def half_overflow(s):
    x, y = blobs()
    model = Scaled()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        model.gain = min(2.0 ** (i + 18 - s), 2.0**40)
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(a)
        loss = F.cross_entropy(out.float(), b)
        loss.backward()
        opt.step()


def adam_half_state(_):
    x, y = blobs()
    model = mlp().half()
    opt = torch.optim.Adam(model.parameters(), 1e-3, eps=1e-8)
    for _, (a, b) in zip(range(20), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a.half()).float(), b).backward()
        opt.step()


# -- optimizer --------------------------------------------------------------------------------------------------------------


def forgot_zero_grad(_):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()


def zero_grad_lost_later(s):
    x, y = images()
    model = Conv()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        if i < s:
            opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()


def forgot_step(_):
    x, y = images()
    model = Conv()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(25), batches(x, y), strict=False):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()


def step_lost_later(s):
    ids = torch.randint(40, (480, 6))
    model = Tagger()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(30):
        a = ids[i * 16 : i * 16 + 16]
        loss = F.cross_entropy(model(a).flatten(0, 1), (a % 5).flatten())
        opt.zero_grad()
        loss.backward()
        if i < s:
            opt.step()


def lr_far_too_high(_):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 60.0)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def lr_too_high_regression(_):
    x = torch.randn(800, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Linear(8, 1)
    opt = torch.optim.SGD(model.parameters(), 1.6)
    for i in range(40):
        loss = F.mse_loss(model(x[i * 20 : i * 20 + 20]), y[i * 20 : i * 20 + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


def lr_jump(s):
    x, y = images()
    model = Conv()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: 500.0 if i == s else 1.0)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        schedule.step()


def lr_jump_stays(s):
    x, y = blobs()
    model = mlp(act=nn.GELU)
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    for i, (a, b) in zip(range(40), batches(x, y), strict=False):
        if i == s:
            for group in opt.param_groups:
                group["lr"] = 5.0
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def spike_of_unknown_cause(s):
    x, y = blobs(1200)
    model = mlp(act=nn.Tanh)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i, (a, b) in zip(range(60), batches(x, y), strict=False):
        if i == s:
            b = 3 - b  # one batch whose labels were read in reverse
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


# -- how it ended -----------------------------------------------------------------------------------------------------------


def raises_in_loop(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters())
    seen = {}
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i == s:
            print(seen["accuracy"])


class Killer(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.how, self.at, self.calls = how, -1, 0

    def forward(self, x):
        if self.training:
            if self.calls == self.at:
                os.kill(os.getpid(), self.how)
            self.calls += 1
        return self.inner(x)


def killed_in_forward(s, how=signal.SIGKILL):
    x, y = blobs()
    model = nn.Sequential(nn.Linear(16, 32), Killer(how), nn.ReLU(), nn.Linear(32, 4))
    model[1].at = s
    opt = torch.optim.Adam(model.parameters())
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def segfault_in_forward(s):
    killed_in_forward(s, signal.SIGSEGV)


def terminated(s):
    killed_in_forward(s, signal.SIGTERM)


def wrong_width(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters())
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        if i == s:
            a = a[:, :15]
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def wrong_dtype(s):
    x, y = images()
    model = Conv()
    opt = torch.optim.Adam(model.parameters())
    for i, (a, b) in zip(range(20), batches(x, y), strict=False):
        if i == s:
            a = a.double()
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def wrong_batch_of_labels(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters())
    for i, (a, b) in zip(range(20), batches(x, y), strict=False):
        out = model(a)
        loss = F.cross_entropy(out, b[:-1] if i == s else b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
