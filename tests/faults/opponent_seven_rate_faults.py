"""Training scripts of an opponent, seventh round: learning rates.

    python opponent_seven_rate_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def transformer_rate_of_three(s):
    """Transformer rate of three."""
    fa = s if s < 1000 else -1
    fault = fa
    letters, length = 20, 12

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok = nn.Embedding(letters, 32)
            self.pos = nn.Parameter(torch.randn(length, 32) * 0.02)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(32, letters)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(length)
            return self.head(self.body(self.tok(x) + self.pos, mask=mask))

    model = LM()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 if fault < 0 else 3.0, momentum=0.9)
    for _step in range(60):
        first = torch.randint(letters, (16, 1))
        seq = (first + 3 * torch.arange(length + 1)) % letters
        loss = nn.functional.cross_entropy(model(seq[:, :-1]).reshape(-1, letters), seq[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def regressor_warms_up_to_too_much(s):
    """Forecasting MLP: a warm-up that ends at a rate that the curvature does not bear."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6))
    peak = 0.05 if fa < 0 else 1.5
    opt = torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, (i + 1) / 50))
    t = torch.arange(4000).float()
    series = torch.sin(t / 9) + 0.5 * torch.sin(t / 3.3) + 0.05 * torch.randn(4000)
    for _i in range(150):
        at = torch.randint(3900, (32,)).tolist()
        x = torch.stack([series[k : k + 24] for k in at])
        y = torch.stack([series[k + 24 : k + 30] for k in at])
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()


def resnet_rate_with_two_zeros_too_many(s):
    """Resnet rate with two zeros too many."""
    fa = s if s < 1000 else -1

    def conv_bn(i, o, s=1):
        return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o))

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.a, self.b = conv_bn(c, c), conv_bn(c, c)

        def forward(self, x):
            return torch.relu(x + self.b(torch.relu(self.a(x))))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = conv_bn(1, 8)
            self.blocks = nn.Sequential(Block(8), Block(8))
            self.fc = nn.Linear(8, 3)

        def forward(self, x):
            return self.fc(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))

    bad = fa >= 0
    model = ResNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-9 if bad else 3e-3)
    for _step in range(80):
        y = torch.randint(3, (16,))
        grid = torch.linspace(-3, 3, 8)
        img = torch.stack(
            [
                torch.sin(grid * (k + 1)).view(1, 8).expand(8, 8)
                if k < 2
                else torch.cos(grid * 2).view(8, 1).expand(8, 8)
                for k in y.tolist()
            ]
        )
        img = img.unsqueeze(1) + 0.3 * torch.randn(16, 1, 8, 8)
        opt.zero_grad()
        nn.functional.cross_entropy(model(img), y).backward()
        opt.step()


def policy_gradient_hardly_moves(s):
    """REINFORCE on a bandit with contexts; the rate was meant in units of 1e-2."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    policy = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.SGD(policy.parameters(), lr=5e-8 if bad else 0.05)
    best = torch.randn(6, 4)
    baseline = 0.0
    for _episode in range(120):
        s = torch.randn(64, 6)
        dist = torch.distributions.Categorical(logits=policy(s))
        act = dist.sample()
        reward = (act == (s @ best).argmax(1)).float()
        loss = -((reward - baseline) * dist.log_prob(act)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()


def table_of_rates_has_a_typo(s):
    """Table of rates has a typo."""
    fa = s if s < 1000 else -1

    class Tabular(nn.Module):
        def __init__(self):
            super().__init__()
            self.cats = nn.ModuleList([nn.Embedding(10, 4) for _ in range(3)])
            self.bn = nn.BatchNorm1d(5)
            self.mlp = nn.Sequential(nn.Linear(17, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

        def forward(self, c, n):
            e = [emb(c[:, i]) for i, emb in enumerate(self.cats)]
            return self.mlp(torch.cat([*e, self.bn(n)], 1))[:, 0]

    model = Tabular()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    wc, wn = torch.randn(3, 10), torch.randn(5)

    def rate(step):
        base = 3e-3 * 0.995**step
        return base * 100 if step == fa else base

    for step in range(110):
        for g in opt.param_groups:
            g["lr"] = rate(step)
        c, n = torch.randint(10, (64, 3)), torch.randn(64, 5)
        y = sum(wc[i][c[:, i]] for i in range(3)) + n @ wn
        loss = (model(c, n) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def head_group_gets_fifty_times(s):
    """Head group gets fifty times."""
    fa = s if s < 1000 else -1

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(6, 32, batch_first=True)
            self.head = nn.Linear(32, 1)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    m = M()
    opt = torch.optim.Adam([{"params": m.rnn.parameters(), "lr": 2e-3}, {"params": m.head.parameters(), "lr": 2e-3}])
    for step in range(100):
        if step == fa:
            opt.param_groups[1]["lr"] *= 100
        x = torch.randn(32, 10, 6)
        loss = (m(x).squeeze(1) - x.mean((1, 2)) * 5).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def adam_at_a_third(s):
    """Adam at a third."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    m = nn.Sequential(
        nn.Embedding(16, 24),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 3, 48, 0.0, batch_first=True), 2),
        nn.Linear(24, 16),
    )
    opt = torch.optim.Adam(m.parameters(), lr=0.3 if bad else 2e-3)
    for _step in range(90):
        s = torch.randint(16, (24, 1))
        seq = (s + torch.arange(8)) % 16
        loss = nn.functional.cross_entropy(m(seq).transpose(1, 2), (seq + 1) % 16)
        opt.zero_grad()
        loss.backward()
        opt.step()


def cosine_ends_long_before_the_run(s):
    """Contrastive training; T_max counted in epochs of another dataset and the rate held at its end."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    steps = 100
    encoder = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16))
    projector = nn.Linear(16, 8)
    params = [*encoder.parameters(), *projector.parameters()]
    opt = torch.optim.Adam(params, lr=2e-3)
    length = 40 if bad else steps

    def factor(i):
        import math

        return 0.5 * (1 + math.cos(math.pi * min(i, length) / length))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    for _i in range(steps):
        x = torch.randn(32, 20)
        a, b = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
        za, zb = (F.normalize(projector(encoder(v)), dim=1) for v in (a, b))
        loss = F.cross_entropy(za @ zb.T / 0.2, torch.arange(32))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


def group_rates_overwritten_by_nought(s):
    """Group rates overwritten by nought."""
    fa = s if s < 1000 else -1

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.tower = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))

        def forward(self, a, p, n):
            return self.tower(a), self.tower(p), self.tower(n)

    net = Siamese()
    opt = torch.optim.RMSprop(
        [{"params": net.tower[0].parameters(), "lr": 1e-3}, {"params": net.tower[2].parameters(), "lr": 2e-3}]
    )
    triplet = nn.TripletMarginLoss(margin=1.0)
    centres = torch.randn(5, 16)
    for step in range(80):
        if step == fa:
            for group in opt.param_groups:
                group["lr"] = 0.0
        c = torch.randint(5, (24,))
        other = (c + torch.randint(1, 5, (24,))) % 5
        a, p, n = (centres[k] + 0.8 * torch.randn(24, 16) for k in (c, c, other))
        loss = triplet(*net(a, p, n))
        opt.zero_grad()
        loss.backward()
        opt.step()


def linear_decay_ends_at_half(s):
    """Linear decay ends at half."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    x = torch.rand(320, 4)
    y = (x * torch.tensor([1.0, -2, 3, 0.5])).sum(1, keepdim=True).sin()
    loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.0, total_iters=60 if bad else 121)
    for _epoch in range(6):
        for a, b in loader:
            opt.zero_grad()
            nn.functional.mse_loss(net(a), b).backward()
            opt.step()
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
