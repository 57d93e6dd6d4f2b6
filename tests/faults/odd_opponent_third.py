"""Healthy runs that look odd, by an opponent, third round: `python odd_opponent_third.py NAME [SEED]`."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.utils import prune
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def pictures(n=320, size=16, classes=4):
    y = torch.randint(classes, (n,))
    base = F.interpolate(torch.rand(classes, 1, 4, 4), size=size, mode="bilinear")
    return (base[y] + 0.15 * torch.randn(n, 1, size, size)), y


def pick(x, y, n=32):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def range_test_of_the_rate():
    """The rate grows from 1e-6 until the loss explodes; then all is put back and training begins."""
    x, y = clouds()
    model = plain()
    before = copy.deepcopy(model.state_dict())
    opt = optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    best, history = math.inf, []
    for i in range(90):
        for g in opt.param_groups:
            g["lr"] = 1e-6 * 10 ** (i / 12)
        a, b = pick(x, y)
        loss = F.cross_entropy(model(a), b)
        update(opt, loss)
        history.append(loss.item())
        best = min(best, history[-1])
        if history[-1] > 4 * best or not math.isfinite(history[-1]):
            break
    model.load_state_dict(before)
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(100):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


class Rounded(torch.autograd.Function):
    """Rounds to eight levels; the gradient passes as if it had not."""

    @staticmethod
    def forward(ctx, w):
        scale = w.abs().max() / 7
        return (w / scale).round() * scale

    @staticmethod
    def backward(ctx, grad):
        return grad


class RoundedLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, Rounded.apply(self.weight), self.bias)


def trains_for_few_bits():
    """Quantisation-aware training: layers compute with rounded weights from the start."""
    x, y = clouds()
    model = nn.Sequential(RoundedLinear(10, 48), nn.ReLU6(), RoundedLinear(48, 48), nn.ReLU6(), RoundedLinear(48, 4))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(80):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


class Momentum(nn.Module):
    """Contrastive learning with a queue of keys made by a slow copy of the encoder."""

    def __init__(self, width=10, d=16, size=256):
        super().__init__()
        self.query = plain(width, 48, d)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(size, d), dim=1))
        self.at = 0

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
            k = F.normalize(self.key(b), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().T], 1) / 0.07
        self.queue[self.at : self.at + len(k)] = k
        self.at = (self.at + len(k)) % len(self.queue)
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def contrast_with_a_queue():
    """All targets are zero by design, and the loss rises while the queue fills with harder keys."""
    x, _ = clouds(800)
    model = Momentum()
    opt = optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for _ in range(100):
        a = x[torch.randint(800, (32,))]
        update(opt, model(a + 0.3 * torch.randn_like(a), a + 0.3 * torch.randn_like(a)))


def prunes_in_three_rounds():
    """Two thirds, then nine tenths of the weights are set to zero; the loss jumps and recovers."""
    x, y = clouds()
    model = plain(hidden=96)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(120):
        if step in {40, 65, 90}:
            for m in model:
                if isinstance(m, nn.Linear):
                    prune.l1_unstructured(m, "weight", amount=0.5)
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


class Equilibrium(nn.Module):
    """A layer whose output is its own fixed point; the gradient is found by a second fixed point, in a hook."""

    def __init__(self, width=10, d=24):
        super().__init__()
        self.inp, self.f = nn.Linear(width, d), nn.Linear(d, d)
        with torch.no_grad():
            self.f.weight.mul_(0.5)
        self.out = nn.Linear(d, 4)

    def forward(self, x):
        u = self.inp(x)
        with torch.no_grad():
            z = torch.zeros_like(u)
            for _ in range(12):
                z = torch.tanh(self.f(z) + u)
        z = torch.tanh(self.f(z) + u)
        if self.training:
            start = z.clone().detach().requires_grad_()
            again = torch.tanh(self.f(start) + u)

            def solve(grad):
                g = grad
                for _ in range(8):
                    g = torch.autograd.grad(again, start, g, retain_graph=True)[0] + grad
                return g

            z.register_hook(solve)
        return self.out(z)


def deep_equilibrium():
    x, y = clouds()
    model = Equilibrium()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        a, b = pick(x, y, 16)
        update(opt, F.cross_entropy(model(a), b))


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, z, steps=20, dt=0.1):
        path = [z]
        for _ in range(steps):
            k1 = self.field(z)
            z = z + dt * self.field(z + 0.5 * dt * k1)
            path.append(z)
        return torch.stack(path, 1)


def differential_equation():
    """A module that is called forty times in a step, fitted to spirals with RMSprop."""
    true = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    model = Flow()
    opt = optim.RMSprop(model.parameters(), lr=3e-3)
    for _ in range(50):
        z = torch.randn(16, 2)
        path = [z]
        for _k in range(20):
            path.append(path[-1] + 0.1 * (path[-1] @ true.T) * 0.5)
        update(opt, (model(z) - torch.stack(path, 1)).abs().mean())


def twin_delayed_critics():
    """Actor steps every second time, targets follow slowly, and the value of a state grows for a long while."""
    actor, critics = nn.Sequential(plain(3, 48, 1), nn.Tanh()), nn.ModuleList(plain(4, 48, 1) for _ in range(2))
    slow_actor, slow_critics = copy.deepcopy(actor), copy.deepcopy(critics)
    opt_a, opt_c = optim.Adam(actor.parameters(), 1e-3), optim.Adam(critics.parameters(), 1e-3)
    state, memory = torch.randn(3), []
    for step in range(240):
        with torch.no_grad():
            action = (actor(state) + 0.3 * torch.randn(1)).clamp(-1, 1)
        after = 0.9 * state + 0.3 * action + 0.05 * torch.randn(3)
        memory.append((state, action, 5 - after.square().sum(), after))
        state = after if step % 50 else torch.randn(3)
        if len(memory) < 48:
            continue
        rows = [memory[i] for i in torch.randint(len(memory), (32,)).tolist()]
        s, a, r, n = (torch.stack(column) for column in zip(*rows, strict=True))
        with torch.no_grad():
            na = (slow_actor(n) + (0.2 * torch.randn(32, 1)).clamp(-0.5, 0.5)).clamp(-1, 1)
            goal = r[:, None] + 0.97 * torch.min(*(c(torch.cat([n, na], 1)) for c in slow_critics))
        update(opt_c, sum(F.mse_loss(c(torch.cat([s, a], 1)), goal) for c in critics))
        if step % 2 == 0:
            update(opt_a, -critics[0](torch.cat([s, actor(s)], 1)).mean())
            with torch.no_grad():
                for slow, fast in ((slow_actor, actor), (slow_critics, critics)):
                    for p, q in zip(slow.parameters(), fast.parameters(), strict=True):
                        p.lerp_(q, 0.01)


def grows_a_block():
    """After a while a block is put in the middle and given to the optimizer as a new group."""
    x, y = clouds()
    model = plain()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(80):
        if step == 40:
            extra = nn.Linear(48, 48)
            nn.init.eye_(extra.weight)
            nn.init.zeros_(extra.bias)
            model.insert(4, extra)
            model.insert(5, nn.ReLU())
            opt.add_param_group({"params": extra.parameters(), "lr": 1e-3})
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


def accumulates_with_a_remainder():
    """Four batches make a step, and what is left at the end of the epoch makes one too."""
    x, y = clouds(360)
    model = plain(act=nn.GELU)
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    for _epoch in range(4):
        for i, (a, b) in enumerate(loader):
            left = len(loader) % 4 if i >= len(loader) - len(loader) % 4 else 4
            (F.cross_entropy(model(a), b) / left).backward()
            if i % 4 == 3 or i == len(loader) - 1:
                opt.step()
                opt.zero_grad()


class Packed(nn.Module):
    """Several short documents in one row, which must not see one another."""

    def __init__(self, vocab=30, d=24):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(vocab, d), nn.Linear(d, 3 * d)
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids, document):
        h = self.embed(ids)
        q, k, v = self.qkv(h).chunk(3, -1)
        n = ids.shape[1]
        allowed = (document[:, :, None] == document[:, None, :]) & torch.ones(n, n, dtype=torch.bool).tril()
        bias = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
        h = h + F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(self.norm(h))


def packs_documents():
    """A mask full of -inf, and targets ignored where one document ends."""
    model = Packed()
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        start = torch.randint(30, (12, 1))
        ids = (start + torch.arange(16) * 3) % 30
        document = (torch.arange(16) >= torch.randint(3, 13, (12, 1))).long()
        target = ids.roll(-1, dims=1)
        target[document != document.roll(-1, dims=1)] = -100
        target[:, -1] = -100
        update(opt, F.cross_entropy(model(ids, document).flatten(0, 1), target.flatten()))


def clipped_critic():
    """A Wasserstein critic whose weights are cut to a hundredth after every step."""
    gen, critic = plain(4, 32, 2), plain(2, 32, 1)
    opt_g, opt_c = optim.RMSprop(gen.parameters(), lr=5e-4), optim.RMSprop(critic.parameters(), lr=5e-4)
    for step in range(120):
        real = torch.randn(32, 2) * 0.3 + 2
        opt_c.zero_grad()
        (critic(gen(torch.randn(32, 4)).detach()).mean() - critic(real).mean()).backward()
        opt_c.step()
        with torch.no_grad():
            for p in critic.parameters():
                p.clamp_(-0.05, 0.05)
        if step % 5 == 4:
            opt_g.zero_grad()
            (-critic(gen(torch.randn(32, 4))).mean()).backward()
            opt_g.step()


def measures_accuracy_on_its_training_data():
    """After each epoch accuracy is measured on the training set and on the held-out set, both without gradients."""
    x, y = clouds(480)
    train, held = random_split(TensorDataset(x, y), [400, 80])
    model = plain()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(train, batch_size=40, shuffle=True)
    for _epoch in range(6):
        model.train()
        for a, b in loader:
            update(opt, F.cross_entropy(model(a), b))
        model.eval()
        with torch.no_grad():
            for each in (DataLoader(train, batch_size=40), DataLoader(held, batch_size=40)):
                sum((model(a).argmax(1) == b).sum().item() for a, b in each)


class Deep(nn.Module):
    """Residual blocks, each of which is left out now and then."""

    def __init__(self, drop=0.3):
        super().__init__()
        self.inp, self.out, self.drop = nn.Linear(10, 32), nn.Linear(32, 4), drop
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(5))

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            if not self.training or torch.rand(()).item() > self.drop:
                h = h + block(h)
        return self.out(h)


def leaves_layers_out():
    x, y = clouds()
    model = Deep()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(80):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


def rates_that_fall_with_depth():
    """Fine-tuning: the lower the layer the smaller its rate, warm-up, then linearly to exactly zero."""
    x, y = clouds()
    model = plain(hidden=64, act=nn.GELU)
    layers = [m for m in model if isinstance(m, nn.Linear)]
    groups = [{"params": m.parameters(), "lr": 1e-3 * 0.05 ** (len(layers) - 1 - i)} for i, m in enumerate(layers)]
    opt = optim.AdamW(groups, weight_decay=0.01)
    total, warm = 90, 9
    schedule = optim.lr_scheduler.LambdaLR(
        opt, lambda i: i / warm if i < warm else max(0.0, (total - i) / (total - warm))
    )
    for _ in range(total):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))
        schedule.step()


def mixture_of_gaussians():
    """A density network: the negative log likelihood goes well below zero as the peaks become narrow."""
    model = plain(1, 48, 9, nn.Tanh)
    opt = optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(200):
        x = torch.rand(64, 1) * 2 - 1
        y = torch.where(torch.rand(64, 1) < 0.5, x, -x) + 0.01 * torch.randn(64, 1)
        weight, mean, log_scale = model(x).chunk(3, 1)
        log_scale = log_scale.clamp(-6, 3)
        each = -0.5 * ((y - mean) / log_scale.exp()).square() - log_scale - 0.92
        update(opt, -torch.logsumexp(F.log_softmax(weight, 1) + each, 1).mean())


def hardest_triplets():
    """A margin that most triplets keep soon: whole batches give a loss and gradients of exactly zero."""
    x, y = clouds(noise=0.4)
    model = plain(10, 48, 8)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        a, b = pick(x, y, 24)
        z = F.normalize(model(a), dim=1)
        d = 1 - z @ z.T
        same = b[:, None] == b[None]
        near, far = (d * same).max(1).values, (d + 9 * same).min(1).values
        update(opt, F.relu(near - far + 0.2).mean())


def one_batch_again_and_again():
    """The first check of every new model: can it learn a single batch by heart?"""
    x, y = pictures(16)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 4))
    opt = optim.Adam(model.parameters(), lr=5e-3)
    for a, b in DataLoader(TensorDataset(x.repeat(60, 1, 1, 1), y.repeat(60)), batch_size=16):
        update(opt, F.cross_entropy(model(a), b))


def steps_by_hand():
    """No optimizer at all: w -= rate * w.grad, as in a first lesson."""
    x = torch.linspace(-math.pi, math.pi, 400)[:, None]
    powers, y = x ** torch.tensor([1.0, 2.0, 3.0]), x.sin()
    model = nn.Linear(3, 1)
    for _ in range(150):
        loss = (model(powers) - y).square().sum()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 1e-6 * p.grad


def pictures_become_larger():
    """Training on small pictures first, then on larger ones, with a new rate for each size."""
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 4),
    )
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = pictures()
    for size, lr in ((8, 0.1), (12, 0.05), (16, 0.02)):
        for g in opt.param_groups:
            g["lr"] = lr
        for _ in range(25):
            a, b = pick(x, y)
            update(opt, F.cross_entropy(model(F.interpolate(a, size=size)), b))


def frozen_statistics():
    """Fine-tuning with train() for the model and eval() for its batch norms, as detectors do."""
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 4),
    )
    x, y = pictures()
    with torch.no_grad():
        model(x)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(60):
        model.train()
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


def teaches_itself():
    """A student learns from its own slow copy, whose outputs are centred and sharpened."""
    x, _ = clouds(800)
    student = plain(10, 48, 24)
    teacher = copy.deepcopy(student).requires_grad_(False)
    centre = torch.zeros(24)
    opt = optim.AdamW(student.parameters(), lr=1e-3, weight_decay=0.04)
    for step in range(100):
        for g in opt.param_groups:
            g["lr"] = 1e-3 * min(1, (step + 1) / 20)
        a = x[torch.randint(800, (48,))]
        views = [a + 0.3 * torch.randn_like(a) for _ in range(2)]
        with torch.no_grad():
            t = [teacher(v) for v in views]
        s = [student(v) / 0.1 for v in views]
        pairs = [(0, 1), (1, 0)]
        loss = sum(-(F.softmax((t[i] - centre) / 0.05, 1) * F.log_softmax(s[j], 1)).sum(1).mean() for i, j in pairs) / 2
        update(opt, loss)
        with torch.no_grad():
            centre.lerp_(torch.cat(t).mean(0), 0.1)
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.01)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
