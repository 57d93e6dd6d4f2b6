"""Healthy runs of an opponent, seventh round, that look odd.

python odd_opponent_seven.py NAME [SEED]
"""

import collections
import random
import sys

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def alternates_between_two_halves():
    """Alternating least squares in the manner of coordinate descent: one half rests while the other learns."""

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(40, 6), nn.Embedding(50, 6)

        def forward(self, u, i):
            return (self.users(u) * self.items(i)).sum(1)

    net = Factors()
    ou, oi = torch.optim.Adam(net.users.parameters(), lr=2e-2), torch.optim.Adam(net.items.parameters(), lr=2e-2)
    a, b = torch.randn(40, 3), torch.randn(50, 3)
    for rnd in range(12):
        on, opt = (net.users, ou) if rnd % 2 == 0 else (net.items, oi)
        for m in (net.users, net.items):
            m.requires_grad_(m is on)
        for _ in range(8):
            u, i = torch.randint(40, (128,)), torch.randint(50, (128,))
            loss = (net(u, i) - (a[u] * b[i]).sum(1)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


def annealed_divergence_in_cycles():
    """Annealed divergence in cycles."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = (
                nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8)),
                nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20)),
            )

        def forward(self, x):
            mu, lv = self.enc(x).chunk(2, 1)
            return self.dec(mu + torch.randn_like(mu) * (lv / 2).exp()), mu, lv

    net = VAE()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    basis = torch.randn(4, 20)
    for step in range(160):
        beta = min(1.0, (step % 40) / 20)
        x = torch.randn(64, 4) @ basis
        r, mu, lv = net(x)
        loss = (r - x).square().sum(1).mean() + beta * (-0.5 * (1 + lv - mu.square() - lv.exp()).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def averages_the_weights_then_measures_again():
    """Averages the weights then measures again."""
    x = torch.randn(480, 12)
    loader = DataLoader(TensorDataset(x, (x[:, :4]).argmax(1)), 32, shuffle=True, drop_last=True)
    net = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    avg = AveragedModel(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    cos = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    swa = SWALR(opt, swa_lr=0.05, anneal_epochs=2)
    for epoch in range(9):
        for a, b in loader:
            loss = nn.functional.cross_entropy(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch >= 5:
            avg.update_parameters(net)
            swa.step()
        else:
            cos.step()
    update_bn(((a,)[0] for a, _ in loader), avg)
    avg.eval()
    with torch.no_grad():
        avg(x[:100])


def binary_weights_with_a_straight_path():
    """Binary weights with a straight path."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w):
            ctx.save_for_backward(w)
            return torch.where(w >= 0, 1.0, -1.0)

        @staticmethod
        def backward(ctx, g):
            (w,) = ctx.saved_tensors
            return g * (w.abs() <= 1)

    class BinaryLinear(nn.Linear):
        def forward(self, x):
            return nn.functional.linear(x, Sign.apply(self.weight) * self.weight.abs().mean().detach(), self.bias)

    net = nn.Sequential(
        BinaryLinear(16, 64),
        nn.BatchNorm1d(64),
        nn.Hardtanh(),
        BinaryLinear(64, 64),
        nn.BatchNorm1d(64),
        nn.Hardtanh(),
        nn.Linear(64, 3),
    )
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    truth_w = torch.randn(16, 3)
    for _ in range(120):
        x = torch.randn(64, 16)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def experts_without_a_customer():
    """Top-1 mixture: an expert without tokens does not run in that step."""

    class Mixture(nn.Module):
        def __init__(self, d=10, n=6):
            super().__init__()
            self.gate = nn.Linear(d, n)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 20), nn.GELU(), nn.Linear(20, 1)) for _ in range(n))

        def forward(self, x):
            p = self.gate(x).softmax(1)
            w, k = p.max(1)
            out = x.new_zeros(len(x), 1)
            for i, e in enumerate(self.experts):
                at = (k == i).nonzero().squeeze(1)
                if len(at):
                    out = out.index_add(0, at, w[at].unsqueeze(1) * e(x[at]))
            load = torch.bincount(k, minlength=p.shape[1]) / len(x)
            return out, (load * p.mean(0)).sum() * p.shape[1]

    net = Mixture()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
    v = torch.randn(10, 1)
    for _ in range(100):
        x = torch.randn(12, 10)
        y, balance = net(x)
        loss = (y - torch.sin(x @ v)).square().mean() + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()


def five_critic_steps_with_a_penalty():
    """Five critic steps with a penalty."""
    generator = nn.Sequential(nn.Linear(8, 48), nn.LeakyReLU(0.2), nn.Linear(48, 2))
    critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    og = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    od = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for _it in range(30):
        for _ in range(5):
            a = torch.rand(64) * 6.283
            real = torch.stack([a.cos(), a.sin()], 1) + 0.05 * torch.randn(64, 2)
            fake = generator(torch.randn(64, 8)).detach()
            mix = torch.rand(64, 1)
            mid = (mix * real + (1 - mix) * fake).requires_grad_()
            (g,) = torch.autograd.grad(critic(mid).sum(), mid, create_graph=True)
            loss_d = critic(fake).mean() - critic(real).mean() + 10 * (g.norm(dim=1) - 1).square().mean()
            od.zero_grad()
            loss_d.backward()
            od.step()
        loss_g = -critic(generator(torch.randn(64, 8))).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()


def gaps_in_the_measurements():
    """Series with missing values: NaN in the batch is right, the model fills it and sees a mask."""

    class Imputer(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 32, batch_first=True)
            self.out = nn.Linear(32, 4)

        def forward(self, x):
            known = ~torch.isnan(x)
            return self.out(self.rnn(torch.cat([torch.nan_to_num(x), known.float()], 2))[0])

    net = Imputer()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for _ in range(80):
        t = torch.arange(16).view(1, -1, 1) / 4 + 6 * torch.rand(32, 1, 1)
        full = torch.sin(t * torch.tensor([1.0, 1.5, 2.0, 2.5]))
        x = full.masked_fill(torch.rand_like(full) < 0.2, float("nan"))
        loss = (net(x) - full).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_precision_scaler_finds_its_scale():
    """Half precision scaler finds its scale."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=40)
    truth_w = torch.randn(16, 4)
    for _ in range(120):
        x = torch.randn(64, 16)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def hinge_satisfied_at_the_end():
    """Separable data and a hinge: most late batches have a loss of exactly nought."""
    net = nn.Linear(6, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    w = torch.randn(6)
    for _ in range(150):
        x = torch.randn(200, 6)
        x = x[(x @ w).abs() > 1.0][:48]
        y = (x @ w).sign()
        loss = torch.clamp(1 - y * net(x).squeeze(1), min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def keeps_a_replay_buffer_until_full():
    """DQN whose replay memory grows for the first part of the run, target network copied now and then."""
    random.seed(23)
    q, tq = (nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 2)) for _ in range(2))
    tq.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    memory = collections.deque(maxlen=400)
    s, eps = torch.randn(4), 1.0
    for t in range(500):
        with torch.no_grad():
            a = random.randrange(2) if random.random() < eps else int(q(s).argmax())
        r = float((s[0] > 0) == (a == 1))
        s2 = 0.8 * s + 0.6 * torch.randn(4)
        memory.append((s, a, r, s2))
        s, eps = s2, max(0.05, eps * 0.99)
        if t < 64 or t % 3:
            continue
        b = random.sample(memory, 32)
        states, next_states = torch.stack([m[0] for m in b]), torch.stack([m[3] for m in b])
        actions, rewards = torch.tensor([m[1] for m in b]), torch.tensor([m[2] for m in b])
        with torch.no_grad():
            y = rewards + 0.9 * tq(next_states).max(1).values
        loss = nn.functional.smooth_l1_loss(q(states).gather(1, actions[:, None]).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if t % 60 == 0:
            tq.load_state_dict(q.state_dict())


def lbfgs_on_all_points_in_double():
    """A physics-informed net: fixed collocation points, double precision, LBFGS."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()
    opt = torch.optim.LBFGS(net.parameters(), lr=1.0, max_iter=4, line_search_fn="strong_wolfe")
    t = torch.linspace(0, 2, 60, dtype=torch.double).view(-1, 1).requires_grad_()

    def closure():
        opt.zero_grad()
        u = net(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        loss = (du + 2 * u).square().mean() + (net(torch.zeros(1, 1, dtype=torch.double)) - 1).square().mean()
        loss.backward()
        return loss

    for _ in range(25):
        opt.step(closure)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
