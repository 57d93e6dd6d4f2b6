"""Healthy runs that look odd: `python odd.py NAME [SEED]`. Nothing is wrong with any of them."""

import math
import sys

import torch
import torch.nn.functional as F
from faulty import Attention, Conv, Pooler, Tagger, batches, blobs, images, mlp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def train(model, opt, x, y, steps=40, loss_fn=F.cross_entropy, after=None, size=16):
    for i, (a, b) in zip(range(steps), batches(x, y, size), strict=False):
        opt.zero_grad()
        loss_fn(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def twelve_steps():
    model = mlp()
    train(model, torch.optim.Adam(model.parameters(), 1e-2), *blobs(), steps=12)


def three_steps():
    model = mlp()
    train(model, torch.optim.SGD(model.parameters(), 1e-1), *blobs(), steps=3)


def overfits_to_zero():
    x, y = blobs(32)
    model = mlp(hidden=128)
    train(model, torch.optim.Adam(model.parameters(), 1e-2), x, y, steps=150)


def tiny_losses():
    x = torch.randn(640, 8) * 1e-3
    y = x.sum(1, keepdim=True)
    model = nn.Linear(8, 1)
    train(model, torch.optim.Adam(model.parameters(), 1e-4), x, y, loss_fn=F.mse_loss, steps=60)


def batch_of_one():
    model = mlp()
    train(model, torch.optim.SGD(model.parameters(), 0.01), *blobs(), steps=120, size=1)


def huge_initial_loss():
    x = torch.randn(1600, 6)
    y = 1000 + 200 * x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
    train(model, torch.optim.Adam(model.parameters(), 3e-2), x, y, loss_fn=F.mse_loss, steps=100)


def warm_up_from_zero():
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, i / 20))
    train(model, opt, *blobs(), steps=60, after=lambda _: schedule.step())


def one_cycle():
    model = Conv()
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.2, total_steps=61)
    train(model, opt, *images(), steps=60, after=lambda _: schedule.step())


def warm_restarts():
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 15)
    train(model, opt, *blobs(), steps=70, after=lambda _: schedule.step())


def step_decay():
    model = Conv()
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 20, 0.1)
    train(model, opt, *images(), steps=60, after=lambda _: schedule.step())


def last_batch_is_small():
    x, y = blobs(403)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(4):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


def heavy_dropout():
    model = nn.Sequential(
        nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.9), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.9), nn.Linear(64, 4)
    )
    train(model, torch.optim.Adam(model.parameters(), 1e-3), *blobs(), steps=60)


def sparse_embedding():
    ids = torch.randint(5000, (800, 6))
    model = nn.Sequential(nn.EmbeddingBag(5000, 16), nn.Linear(16, 3))
    train(model, torch.optim.Adam(model.parameters(), 1e-2), ids, ids[:, 0] % 3, steps=60)


def frozen_backbone():
    model = Conv()
    for p in model.stem.parameters():
        p.requires_grad_(False)
    for p in model.body.parameters():
        p.requires_grad_(False)
    train(model, torch.optim.Adam(model.head.parameters(), 1e-2), *images(), steps=40)


class WithTeacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.student = mlp(), mlp()

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        return F.mse_loss(self.student(x), target)


def distillation():
    x, _ = blobs()
    model = WithTeacher()
    opt = torch.optim.Adam(model.student.parameters(), 1e-3)
    for i in range(40):
        opt.zero_grad()
        model(x[i * 16 : i * 16 + 16]).backward()
        opt.step()


def unfreezes_later():
    x, y = images()
    model = Conv()
    for p in [*model.stem.parameters(), *model.body.parameters()]:
        p.requires_grad_(False)
    opt = torch.optim.Adam(model.head.parameters(), 1e-2)
    for i, (a, b) in zip(range(50), batches(x, y), strict=False):
        if i == 25:
            for p in [*model.stem.parameters(), *model.body.parameters()]:
                p.requires_grad_(True)
            opt.add_param_group({"params": [*model.stem.parameters(), *model.body.parameters()], "lr": 1e-3})
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def adversarial():
    real = torch.randn(1200, 2) * 0.3 + 1
    g = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    d = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    og, od = (
        torch.optim.Adam(g.parameters(), 2e-3, betas=(0.5, 0.999)),
        torch.optim.Adam(d.parameters(), 2e-3, betas=(0.5, 0.999)),
    )
    for i in range(60):
        batch, fake = real[i * 20 : i * 20 + 20], g(torch.randn(20, 4))
        od.zero_grad()
        (F.softplus(-d(batch)).mean() + F.softplus(d(fake.detach())).mean()).backward()
        od.step()
        og.zero_grad()
        F.softplus(-d(fake)).mean().backward()
        og.step()


def policy_gradient():
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(60):
        state = torch.randn(24, 4)
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=policy(state)).sample()
        reward = torch.where((state[:, 0] > 0) == (action == 1), 1.0, -1.0) * (1 + 5 * torch.rand(24))
        logp = torch.distributions.Categorical(logits=policy(state)).log_prob(action)
        opt.zero_grad()
        (-(logp * reward).mean()).backward()
        opt.step()


def accumulates():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(160), batches(x, y, 8), strict=False):
        (F.cross_entropy(model(a), b) / 4).backward()
        if i % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()


def scaler_skips_first():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    for _, (a, b) in zip(range(50), batches(x, y), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def bf16_autocast():
    x, y = images()
    model = Conv()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def noisy_labels():
    x, y = blobs()
    y = torch.randint(4, y.shape)
    model = mlp()
    train(model, torch.optim.Adam(model.parameters(), 1e-3), x, y, steps=80)


def heavy_tailed_data():
    x = torch.distributions.StudentT(2.5).sample((1600, 6))
    y = x.sum(1, keepdim=True) + torch.distributions.StudentT(2.5).sample((1600, 1))
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    train(model, torch.optim.Adam(model.parameters(), 1e-3), x, y, loss_fn=F.smooth_l1_loss, steps=100)


def heavy_tailed_mse():
    x = torch.randn(1600, 6)
    y = x.sum(1, keepdim=True) + torch.distributions.StudentT(2.2).sample((1600, 1))
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    train(model, torch.optim.Adam(model.parameters(), 1e-3), x, y, loss_fn=F.mse_loss, steps=100)


def padded_causal():
    ids = torch.randint(1, 30, (640, 7))
    ids[:, 4:] *= torch.rand(640, 3) > 0.5
    model = Pooler()
    train(model, torch.optim.AdamW(model.parameters(), 1e-3), ids, ids[:, 0] % 3, steps=50)


def masked_rows_that_are_handled():
    layer, head = Attention(), nn.Linear(16, 2)
    params = [*layer.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    for _ in range(40):
        x = torch.randn(8, 5, 16)
        mask = torch.rand(8, 5) > 0.4
        mask[:, 0] = True
        out = torch.nan_to_num(layer(x, mask))
        loss = F.cross_entropy(head(out.mean(1)), (x[:, 0, 0] > 0).long())
        opt.zero_grad()
        loss.backward()
        opt.step()


def safe_sqrt():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(40):
        a, b = x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
        out = model(a)
        distance = torch.cdist(out, out)
        loss = F.cross_entropy(out, b) - 0.001 * distance.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def evaluates_between():
    x, y = images()
    model = Conv()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(5):
        model.train()
        for a, b in DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[240:], y[240:]), batch_size=80):
                F.cross_entropy(model(a * (1 + epoch)), b)


def resumed():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    train(model, opt, x, y, steps=20)
    state = {"m": model.state_dict(), "o": opt.state_dict()}
    model2 = mlp()
    opt2 = torch.optim.Adam(model2.parameters(), 1e-3)
    model2.load_state_dict(state["m"])
    opt2.load_state_dict(state["o"])
    train(model2, opt2, x, y, steps=20)


def autoencoder():
    x, _ = images()
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(100, 32), nn.ReLU(), nn.Linear(32, 4), nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 100)
    )
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        a = x[i * 16 % 384 : i * 16 % 384 + 16]
        loss = F.mse_loss(model(a), a.flatten(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.lv, self.dec = nn.Linear(16, 32), nn.Linear(32, 4), nn.Linear(32, 4), nn.Linear(4, 16)

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * (lv / 2).exp()
        kl = -0.5 * (1 + lv - mu**2 - lv.exp()).sum(1).mean()
        return ((self.dec(z) - x) ** 2).sum(1).mean() + kl


def variational():
    x, _ = blobs()
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        loss = model(x[i * 8 % 600 : i * 8 % 600 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


def quasi_newton():
    x, y = blobs(200)
    model = mlp(act=nn.Tanh)
    opt = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=5)

    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(25):
        opt.step(closure)


def language_model():
    ids = torch.tensor(list((__doc__ * 60).encode()))
    model = nn.ModuleDict({"e": nn.Embedding(256, 32), "r": nn.LSTM(32, 64, batch_first=True), "o": nn.Linear(64, 256)})
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    for i in range(60):
        s = torch.stack([ids[(i * 97 + k * 31) % 4000 :][:33] for k in range(8)])
        h, _ = model["r"](model["e"](s[:, :-1]))
        loss = F.cross_entropy(model["o"](h).flatten(0, 1), s[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()


def tagging_with_ignored():
    ids = torch.randint(40, (640, 6))
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(40):
        a = ids[i * 16 : i * 16 + 16]
        b = torch.where(torch.rand(a.shape) < 0.85, -100, a % 5)
        loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def contrastive():
    x, _ = blobs()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.SGD(model.parameters(), 0.3, momentum=0.9)
    for i in range(60):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        z1 = F.normalize(model(a + 0.1 * torch.randn_like(a)), dim=1)
        z2 = F.normalize(model(a + 0.1 * torch.randn_like(a)), dim=1)
        loss = F.cross_entropy(z1 @ z2.T / 0.1, torch.arange(len(a)))
        opt.zero_grad()
        loss.backward()
        opt.step()


def gradient_penalty_negative_loss():
    x = torch.randn(800, 3)
    d = nn.Sequential(nn.Linear(3, 32), nn.LeakyReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(d.parameters(), 1e-3)
    for i in range(60):
        a = x[i * 12 : i * 12 + 12].clone().requires_grad_()
        (slope,) = torch.autograd.grad(d(a).sum(), a, create_graph=True)
        loss = d(torch.rand(12, 3)).mean() - d(a).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def raw_pixels():
    x, y = images()
    model = Conv()
    train(model, torch.optim.AdamW(model.parameters(), 1e-3), (x * 60 + 128).clamp(0, 255), y, steps=50)


def large_lr_sgd_that_works():
    model = Conv()
    train(model, torch.optim.SGD(model.parameters(), 0.15, momentum=0.9), *images(), steps=80)


def grokking_plateau_then_drop():
    x = torch.randint(2, (1600, 8)).float() * 2 - 1
    y = ((x[:, 0] * x[:, 1]) > 0).long()
    model = mlp(8, 64, 2)
    train(model, torch.optim.Adam(model.parameters(), 3e-3), x, y, steps=150)


def curriculum_gets_harder():
    x, y = blobs(1600)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(90):
        a, b = x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
        opt.zero_grad()
        F.cross_entropy(model(a + torch.randn_like(a) * (i // 30) * 1.5), b).backward()
        opt.step()


def stops_itself():
    model = mlp()
    train(model, torch.optim.Adam(model.parameters(), 1e-2), *blobs(), steps=30)
    sys.exit(0)


def deep_residual():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n, self.a, self.b = nn.LayerNorm(24), nn.Linear(24, 48), nn.Linear(48, 24)

        def forward(self, x):
            return x + self.b(F.gelu(self.a(self.n(x))))

    model = nn.Sequential(nn.Linear(16, 24), *[Block() for _ in range(10)], nn.Linear(24, 4))
    train(model, torch.optim.AdamW(model.parameters(), 1e-3), *blobs(), steps=50)


def poisson_counts():
    x = torch.randn(1000, 5)
    y = torch.poisson(torch.exp(x[:, 0] * 0.7 + 1))
    model = nn.Linear(5, 1)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(60):
        loss = F.poisson_nll_loss(model(x[i * 16 : i * 16 + 16]).squeeze(1), y[i * 16 : i * 16 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


def cyclic_learning_rate():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CyclicLR(opt, 1e-3, 0.1, step_size_up=12)
    train(model, opt, *blobs(), steps=70, after=lambda _: schedule.step())


def detached_target_network():
    q, target = mlp(4, 32, 3), mlp(4, 32, 3)
    opt = torch.optim.Adam(q.parameters(), 1e-3)
    for i in range(60):
        s, s2, a, r = torch.randn(16, 4), torch.randn(16, 4), torch.randint(3, (16,)), torch.randn(16)
        with torch.no_grad():
            goal = r + 0.9 * target(s2).max(1).values
        loss = F.smooth_l1_loss(q(s)[range(16), a], goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 9:
            target.load_state_dict(q.state_dict())


def two_towers_share_nothing():
    a, b = nn.Linear(8, 8), nn.Linear(8, 8)
    opt = torch.optim.Adam([*a.parameters(), *b.parameters()], 1e-2)
    for _ in range(40):
        x = torch.randn(16, 8)
        loss = -F.cosine_similarity(a(x), b(x.flip(1))).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def mixture_with_idle_experts():
    gate, experts, head = (
        nn.Linear(16, 6),
        nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(6)),
        nn.Linear(16, 4),
    )
    params = [*gate.parameters(), *experts.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, 3e-3)
    x, y = blobs()
    for i in range(50):
        a, b = x[i * 12 : i * 12 + 12], y[i * 12 : i * 12 + 12]
        weight, which = gate(a).softmax(-1).max(-1)
        out = torch.stack([experts[k](row) for k, row in zip(which.tolist(), a, strict=True)]) * weight[:, None]
        loss = F.cross_entropy(head(out), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def log_cosine_schedule_to_zero():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
    train(model, opt, *blobs(), steps=60, after=lambda _: schedule.step())


def gradient_noise_grows_late():
    model = mlp(hidden=64)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    train(model, opt, *blobs(64), steps=200)


def label_smoothing_soft_targets():
    x, y = blobs()
    soft = F.one_hot(y, 4) * 0.9 + 0.025
    model = mlp()
    train(model, torch.optim.Adam(model.parameters(), 1e-3), x, soft, steps=40)


def positional_constant_inputs():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.t, self.o = nn.Embedding(6, 16), nn.Embedding(40, 16), nn.Linear(16, 5)

        def forward(self, ids, positions):
            return self.o((self.t(ids) + self.p(positions)).mean(1))

    model = Positions()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        ids = torch.randint(40, (16, 6))
        loss = F.cross_entropy(model(ids, torch.arange(6)), ids[:, 0] % 5)
        opt.zero_grad()
        loss.backward()
        opt.step()


def inference_only():
    model = Conv().eval()
    with torch.no_grad():
        for _ in range(20):
            model(torch.randn(4, 1, 10, 10))


def zero_padded_relu_features():
    x, y = blobs()
    x = torch.cat([x, torch.zeros(len(x), 48)], 1) * (torch.rand(len(x), 64) > 0.5)
    model = mlp(64, 32, 4)
    train(model, torch.optim.Adam(model.parameters(), 1e-3), x, y, steps=40)


def infinite_mask_in_logits():
    model = mlp(16, 32, 6)
    x, y = blobs()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(40):
        logits = model(x[i * 16 : i * 16 + 16])
        logits = logits.masked_fill(torch.tensor([False] * 4 + [True] * 2), -math.inf)
        loss = F.cross_entropy(logits, y[i * 16 : i * 16 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
