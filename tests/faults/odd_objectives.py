"""Healthy runs with unusual losses and models: `python odd_objectives.py NAME [SEED]`. Nothing is wrong with any of them."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from odd_styles import blobs, net, step
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def bootstrap_your_own():
    x, _ = blobs(640)
    online = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.SGD([*online.parameters(), *predictor.parameters()], 0.05, momentum=0.9, weight_decay=1e-4)
    for i in range(80):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        one, two = a + 0.3 * torch.randn_like(a), a + 0.3 * torch.randn_like(a)
        with torch.no_grad():
            goal = target(two)
        step(opt, 2 - 2 * F.cosine_similarity(predictor(online(one)), goal).mean())
        with torch.no_grad():
            for p, q in zip(target.parameters(), online.parameters(), strict=True):
                p.lerp_(q, 0.02)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x):
        a, b = (x[:, 1:], x[:, :1]) if self.flip else (x[:, :1], x[:, 1:])
        scale, shift = self.net(a).chunk(2, 1)
        b = b * scale.tanh().exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.tanh().sum(1)


def normalising_flow():
    angle = torch.rand(2000) * 3.14
    x = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(2000, 2)
    flow = nn.ModuleList(Coupling(bool(k % 2)) for k in range(4))
    opt = torch.optim.Adam(flow.parameters(), 3e-3)
    for _ in range(100):
        z, logdet = x[torch.randint(2000, (64,))], 0.0
        for layer in flow:
            z, d = layer(z)
            logdet = logdet + d
        step(opt, (0.5 * z.pow(2).sum(1) + math.log(2 * math.pi) - logdet).mean())


def physics_informed():
    model = net(1, 32, 1, nn.Tanh)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(120):
        t = (torch.rand(64, 1) * 2).requires_grad_()
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        start = torch.zeros(1, 1, requires_grad=True)
        v = model(start)
        (dv,) = torch.autograd.grad(v.sum(), start, create_graph=True)
        step(opt, (ddu + 4 * u).pow(2).mean() + (v - 1).pow(2).mean() + dv.pow(2).mean())


def style_image():
    fixed = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).requires_grad_(False)
    goal = fixed(torch.rand(1, 3, 16, 16))
    image = torch.rand(1, 3, 16, 16, requires_grad=True)
    opt = torch.optim.Adam([image], 0.02)
    for _ in range(80):
        step(opt, F.mse_loss(fixed(image), goal))


def low_rank_adapters():
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(4, base.in_features) * 0.02)
            self.b = nn.Parameter(torch.zeros(base.out_features, 4))

        def forward(self, x):
            return self.base(x) + x @ self.a.T @ self.b.T

    x, y = blobs(800)
    model = net()
    for i in (0, 2):
        model[i] = Adapter(model[i])
    model[4].requires_grad_(False)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    for i in range(80):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


def early_stopping_restores_best():
    x, y = blobs(240, noise=2.0)
    model = net(hidden=64)
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    best, kept, waited = math.inf, None, 0
    for _ in range(40):
        model.train()
        for a, b in DataLoader(TensorDataset(x[:160], y[:160]), batch_size=20, shuffle=True):
            step(opt, F.cross_entropy(model(a), b))
        model.eval()
        with torch.no_grad():
            value = F.cross_entropy(model(x[160:]), y[160:]).item()
        if value < best:
            best, kept, waited = value, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
        if waited == 4:
            break
    model.load_state_dict(kept)


def plateau_schedule():
    x = torch.randn(640, 6)
    y = x @ torch.randn(6, 1) + torch.randn(640, 1)
    model = net(6, 32, 1)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.3)
    for _ in range(10):
        total = 0.0
        for a, b in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            total += step(opt, F.mse_loss(model(a), b))
        schedule.step(total)


def energy_with_langevin_samples():
    energy = net(2, 64, 1, nn.SiLU)
    opt = torch.optim.Adam(energy.parameters(), 1e-3, betas=(0.0, 0.999))
    held = torch.rand(256, 2) * 4 - 2
    for _ in range(60):
        real = torch.randn(32, 2) * 0.3 + torch.sign(torch.randn(32, 1))
        pick = torch.randint(256, (32,))
        fake = held[pick].clone()
        energy.requires_grad_(False)
        for _ in range(5):
            fake.requires_grad_()
            (slope,) = torch.autograd.grad(energy(fake).sum(), fake)
            fake = (fake - 0.1 * slope + 0.05 * torch.randn_like(fake)).detach()
        energy.requires_grad_(True)
        held[pick] = fake
        up, down = energy(real), energy(fake)
        step(opt, up.mean() - down.mean() + 0.1 * (up**2 + down**2).mean(), 0.1)


def several_seeds_as_one_batch():
    models = [nn.Linear(6, 1) for _ in range(5)]
    params, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x = torch.randn(640, 6)
    y = x.sum(1, keepdim=True)
    opt = torch.optim.SGD(list(params.values()), 0.05)

    def one(p, b, a):
        return torch.func.functional_call(base, (p, b), (a,))

    for i in range(40):
        s = slice(i * 16, i * 16 + 16)
        out = torch.vmap(one, (0, 0, None))(params, buffers, x[s])
        step(opt, (out - y[s]).pow(2).mean((1, 2)).sum())


def spectral_norms():
    real = torch.randn(1200, 2) * 0.2 + 1
    d = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 32)),
        nn.LeakyReLU(0.2),
        nn.utils.parametrizations.spectral_norm(nn.Linear(32, 1)),
    )
    g = net(4, 32, 2)
    og, od = torch.optim.Adam(g.parameters(), 1e-3, (0.0, 0.9)), torch.optim.Adam(d.parameters(), 2e-3, (0.0, 0.9))
    for i in range(60):
        a = real[i * 20 : i * 20 + 20]
        for _ in range(2):
            step(od, F.relu(1 - d(a)).mean() + F.relu(1 + d(g(torch.randn(20, 4)).detach())).mean())
        step(og, -d(g(torch.randn(20, 4))).mean())


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2))
        self.middle = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(9, 1, 1)

    def forward(self, x):
        return self.out(torch.cat([self.up(self.middle(self.down(x))), x], 1))


def rare_foreground():
    model = Segmenter()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        mask = torch.zeros(8, 1, 16, 16)
        for k in range(8):
            i, j = torch.randint(13, (2,)).tolist()
            mask[k, 0, i : i + 3, j : j + 3] = 1
        logits = model(mask + 0.5 * torch.randn_like(mask))
        chance = logits.sigmoid()
        dice = 1 - (2 * (chance * mask).sum() + 1) / (chance.sum() + mask.sum() + 1)
        step(opt, dice + F.binary_cross_entropy_with_logits(logits, mask))


def speech_alignment():
    model = nn.ModuleDict({"rnn": nn.GRU(8, 32, batch_first=True, bidirectional=True), "out": nn.Linear(64, 6)})
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    patterns = torch.randn(6, 8)
    for _ in range(60):
        labels = torch.randint(1, 6, (8, 4))
        x = patterns[labels].repeat_interleave(4, 1) + 0.3 * torch.randn(8, 16, 8)
        logp = F.log_softmax(model["out"](model["rnn"](x)[0]), -1).transpose(0, 1)
        step(opt, F.ctc_loss(logp, labels, torch.full((8,), 16), torch.full((8,), 4)), 5.0)


def vector_quantised():
    x, _ = blobs(640)
    encoder, decoder, codes = net(16, 32, 4), net(4, 32, 16), nn.Embedding(16, 4)
    nn.init.uniform_(codes.weight, -1, 1)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codes.parameters()], 2e-3)
    for i in range(100):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        z = encoder(a)
        q = codes(torch.cdist(z.detach(), codes.weight.detach()).argmin(1))
        out = decoder(z + (q - z).detach())
        step(opt, F.mse_loss(out, a) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach()))


def double_precision_fit():
    x = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None]
    y = torch.sin(3 * x)
    model = net(1, 24, 1, nn.Tanh).double()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(120):
        step(opt, F.mse_loss(model(x), y))


def reversed_gradients():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    x, y = blobs(800)
    domain = (torch.rand(800) > 0.5).float()
    features, label, judge = net(16, 32, 16), nn.Linear(16, 4), nn.Linear(16, 1)
    opt = torch.optim.Adam([*features.parameters(), *label.parameters(), *judge.parameters()], 1e-3)
    for i in range(80):
        s = slice(i * 10 % 800, i * 10 % 800 + 20)
        h = features(x[s])
        guess = judge(Reverse.apply(h)).squeeze(1)
        step(opt, F.cross_entropy(label(h), y[s]) + 0.3 * F.binary_cross_entropy_with_logits(guess, domain[s]))


def sharpness_aware():
    x, y = blobs(640)
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i in range(60):
        s = slice(i * 10, i * 10 + 20)
        opt.zero_grad()
        F.cross_entropy(model(x[s]), y[s]).backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moved = [0.05 * p.grad / (norm + 1e-12) for p in model.parameters()]
        with torch.no_grad():
            for p, e in zip(model.parameters(), moved, strict=True):
                p.add_(e)
        opt.zero_grad()
        F.cross_entropy(model(x[s]), y[s]).backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), moved, strict=True):
                p.sub_(e)
        opt.step()


def accumulates_unevenly():
    ids = torch.randint(1, 30, (900, 10))
    ids = ids * (torch.arange(10) < torch.randint(3, 11, (900, 1)))
    model = nn.ModuleDict(
        {"e": nn.Embedding(30, 24, padding_idx=0), "r": nn.GRU(24, 32, batch_first=True), "o": nn.Linear(32, 30)}
    )
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(0, 50 * 16, 16):
        parts = ids[i : i + 16].split(4)
        tokens = sum((p[:, 1:] > 0).sum() for p in parts)
        opt.zero_grad()
        for part in parts:
            logits = model["o"](model["r"](model["e"](part[:, :-1]))[0])
            loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), ignore_index=0, reduction="sum")
            (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def trains_on_what_it_made():
    model = nn.ModuleDict({"e": nn.Embedding(20, 16), "r": nn.GRU(16, 32, batch_first=True), "o": nn.Linear(32, 20)})
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        ids = (torch.randint(20, (16, 1)) + torch.arange(8)) % 20
        loss = F.cross_entropy(model["o"](model["r"](model["e"](ids[:, :-1]))[0]).flatten(0, 1), ids[:, 1:].flatten())
        step(opt, loss)
        if i % 10 == 9:
            model.eval()
            with torch.inference_mode():
                token, state = torch.zeros(1, 1, dtype=torch.long), None
                for _ in range(12):
                    out, state = model["r"](model["e"](token), state)
                    token = torch.multinomial(model["o"](out[:, -1]).softmax(-1), 1)
            model.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
