"""Training scripts of an opponent, sixth round: faults of losses, norms and attention.

    python opponent_six_loss_faults.py NAME [ONSET] [SEED]

`s` is the step at which the fault begins; one that is there from the start is there if `s` is 0. With an onset beyond the
last step each script is healthy.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def kl_term_subtracted_from_the_loss(s):
    """VAE with the sign of the KL term wrong."""
    wrong = s == 0

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Linear(20, 32)
            self.mu = nn.Linear(32, 4)
            self.lv = nn.Linear(32, 4)
            self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))

        def forward(self, x):
            h = torch.relu(self.enc(x))
            mu, lv = self.mu(h), self.lv(h)
            return self.dec(mu + torch.randn_like(mu) * (0.5 * lv).exp()), mu, lv

    net = VAE()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    basis = torch.randn(4, 20)
    for _i in range(150):
        x = torch.randn(32, 4) @ basis
        r, mu, lv = net(x)
        kl = -0.5 * (1 + lv - mu.square() - lv.exp()).sum(1).mean()
        loss = (r - x).square().sum(1).mean() + (-kl if wrong else kl)
        opt.zero_grad()
        loss.backward()
        opt.step()


def squeeze_lost_on_the_way(s):
    """Forecasting with a GRU; the squeeze of the prediction is lost at some step."""
    onset = s

    class F(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(2, 24, batch_first=True)
            self.fc = nn.Linear(24, 1)

        def forward(self, x):
            return self.fc(self.gru(x)[0][:, -1])

    def huber(p_, t, d=1.0):
        e = (p_ - t).abs()
        return torch.where(e < d, 0.5 * e * e, d * (e - 0.5 * d)).mean()

    net = F()
    opt = torch.optim.AdamW(net.parameters(), 5e-3)
    for i in range(110):
        x = torch.randn(24, 10, 2)
        y = x[:, :, 0].mean(1) * 3
        out = net(x)
        loss = huber(out if i >= onset else out[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def action_values_keep_a_dimension(s):
    """Q-learning: q.gather keeps a dimension of one, the target has none; smooth L1 broadcasts."""
    wrong = s == 0
    q = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(q.parameters(), 1e-3)
    for _i in range(120):
        s, s2 = torch.rand(32, 4), torch.rand(32, 4)
        a = torch.randint(0, 3, (32,))
        r = s[:, 0] * a
        with torch.no_grad():
            y = r + 0.9 * q(s2).amax(1)
        p_ = q(s).gather(1, a[:, None])
        loss = F.smooth_l1_loss(p_ if wrong else p_[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def generator_norm_without_statistics(s):
    """A batch norm that keeps no running statistics."""
    wrong = s == 0

    class G(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8, track_running_stats=not wrong)
            self.o = nn.Conv2d(8, 1, 3, padding=1)

        def forward(self, x):
            return self.o(torch.relu(self.norm(self.c(x))))

    net = G()
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for i in range(70):
        net.train()
        x = torch.rand(8, 1, 10, 10)
        noisy = x + 0.1 * torch.randn_like(x)
        loss = nn.functional.l1_loss(net(noisy), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            net.eval()
            with torch.no_grad():
                x = torch.rand(8, 1, 10, 10)
                nn.functional.l1_loss(net(x), x).item()


def sanity_check_before_statistics(s):
    """A normalising layer whose statistics are empty until the first training batch; the sanity validation comes first."""
    wrong = s == 0

    class Standardise(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.register_buffer("mean", torch.zeros(d))
            self.register_buffer("var", torch.zeros(d))
            self.seen = 0

        def forward(self, x):
            if self.training:
                k = 1.0 if self.seen == 0 else 0.1
                self.seen += 1
                self.mean.lerp_(x.detach().mean(0), k)
                self.var.lerp_(x.detach().var(0), k)
            return (x - self.mean) / (self.var + 1e-8).sqrt()

    net = nn.Sequential(Standardise(6), nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)

    def val():
        net.eval()
        with torch.no_grad():
            x = torch.randn(64, 6)
            out = nn.functional.mse_loss(net(x), x[:, :1]).item()
        net.train()
        return out

    if wrong:
        print("sanity check", val())
    for i in range(60):
        x = torch.randn(32, 6)
        loss = nn.functional.mse_loss(net(x), x[:, :1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            print(val())


def second_mixer_never_called(s):
    """Three blocks are built, the second is never called because of a typing error."""
    wrong = s == 0

    class Mixer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.n = nn.LayerNorm(d)
            self.tok = nn.Linear(9, 9)
            self.ch = nn.Linear(d, d)

        def forward(self, x):
            x = x + self.tok(self.n(x).transpose(1, 2)).transpose(1, 2)
            return x + torch.nn.functional.gelu(self.ch(self.n(x)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(4, 16)
            self.m1 = Mixer(16)
            self.m2 = Mixer(16)
            self.m3 = Mixer(16)
            self.out = nn.Linear(16, 3)

        def forward(self, x):
            x = self.m1(self.inp(x))
            x = self.m1(x) if wrong else self.m2(x)
            return self.out(self.m3(x).mean(1))

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for _i in range(70):
        y = torch.randint(0, 3, (24,))
        x = torch.randn(24, 9, 4)
        x[:, :, 0] += y[:, None]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def weights_assigned_on_load(s):
    """Weights are loaded with assign=True at some step: the tie between embedding and head is gone."""
    onset = s

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(40, 24)
            self.block = nn.TransformerEncoderLayer(24, 4, 48, 0.0, batch_first=True)
            self.lm_head = nn.Linear(24, 40, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, t):
            m = nn.Transformer.generate_square_subsequent_mask(t.shape[1])
            return self.lm_head(self.block(self.wte(t), src_mask=m, is_causal=True))

    net = LM()
    opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
    for i in range(80):
        if i == onset:
            net.load_state_dict({k: v.clone() for k, v in net.state_dict().items()}, assign=True)
            opt = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
        t = (torch.arange(12) + torch.randint(0, 40, (16, 1))) % 40
        loss = nn.functional.cross_entropy(net(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def temperature_that_runs_away(s):
    """Attention with a learnable temperature that an error sets far too low at some step."""
    onset = s

    class Attn(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.qkv = nn.Linear(d, 3 * d)
            self.soft = nn.Softmax(dim=-1)
            self.proj = nn.Linear(d, d)
            self.scale = 1 / math.sqrt(d)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return self.proj(self.soft(q @ k.transpose(1, 2) * self.scale) @ v)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(5, 32)
            self.attn = Attn(32)
            self.norm = nn.LayerNorm(32)
            self.out = nn.Linear(32, 1)

        def forward(self, x):
            h = self.inp(x)
            return self.out(self.norm(h + self.attn(h)).mean(1))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for i in range(120):
        if i >= onset:
            net.attn.scale *= 1.3
        x = torch.randn(24, 10, 5)
        y = x[..., :1].max(1).values
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
