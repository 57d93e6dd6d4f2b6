"""Training scripts of an opponent, sixth round: faults of numbers and precision.

    python opponent_six_number_faults.py NAME [ONSET] [SEED]

`s` is the step at which the fault begins; one that is there from the start is there if `s` is 0. With an onset beyond the
last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def focal_loss_of_a_sure_mistake(s):
    """Focal loss by hand with log(p) on sigmoid output; at some step a sure wrong answer gives p == 0 in float32."""
    onset = s

    class Focal(nn.Module):
        def forward(self, logit, y):
            p_ = logit.sigmoid()
            pt = torch.where(y > 0, p_, 1 - p_)
            return (-((1 - pt) ** 2) * torch.log(pt)).mean()

    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    crit = Focal()
    for i in range(90):
        x = torch.randn(32, 5)
        y = (x[:, :1] > 0).float()
        if i == onset:
            x[4] = torch.tensor([300.0, 0, 0, 0, 0])
            y[4] = 0
            x[5] = -x[4]
            y[5] = 1
        loss = crit(net(x) * 3, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def norm_of_an_empty_row(s):
    """Gradient penalty / feature norm of a zero vector: x.norm() built by hand from sum of squares under a square root."""
    onset = s

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(6, 16, bias=False)
            self.g = nn.Linear(16, 2)

        def forward(self, x):
            h = self.f(x)
            return self.g(h), (h * h).sum(1).sqrt()

    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for i in range(80):
        x = torch.randn(16, 6)
        y = (x[:, 0] > 0).long()
        if i == onset:
            x[9] = 0
        z, n = net(x)
        loss = nn.functional.cross_entropy(z, y) + 0.01 * (n - 1).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def entropy_with_a_masked_class(s):
    """Utility with a masked logarithm: torch.where(q > 0, q * log q, 0)."""
    onset = s
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))
    opt = torch.optim.SGD(net.parameters(), 0.05)
    for i in range(80):
        x = torch.randn(20, 8)
        y = x[:, :5].argmax(1)
        z = net(x)
        keep = torch.ones(20, 5)
        if i == onset:
            keep[3, 2] = 0.0
        q = z.softmax(1) * keep
        ent = torch.where(q > 0, q * q.log(), torch.zeros_like(q)).sum(1).mean()
        loss = nn.functional.cross_entropy(z, y) + 0.05 * ent
        opt.zero_grad()
        loss.backward()
        opt.step()


def node_without_neighbours(s):
    """Graph attention by hand: a node without neighbours gives a row of -inf."""
    onset = s

    class GAT(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.w = nn.Linear(i, o, bias=False)
            self.a = nn.Linear(2 * o, 1, bias=False)

        def forward(self, x, adj):
            h = self.w(x)
            n = len(h)
            e = F.leaky_relu(
                self.a(torch.cat([h[:, None].expand(n, n, -1), h[None].expand(n, n, -1)], -1))[..., 0], 0.2
            )
            return torch.softmax(e.masked_fill(adj == 0, float("-inf")), -1) @ h

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.g1 = GAT(6, 16)
            self.g2 = GAT(16, 3)

        def forward(self, x, adj):
            return self.g2(F.elu(self.g1(x, adj)), adj)

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    for i in range(60):
        y = torch.randint(0, 3, (20,))
        x = F.one_hot(y, 6).float() + 0.3 * torch.randn(20, 6)
        adj = ((y[:, None] == y[None]) & (torch.rand(20, 20) < 0.5)).float()
        adj.fill_diagonal_(1)
        if i == onset:
            adj[7] = 0
        loss = F.cross_entropy(net(x, adj), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def gate_of_an_inactive_sample(s):
    """Attention weights normalised by their sum, which is 0 for an inactive sample; and no eps."""
    onset = s

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.s = nn.Linear(4, 1)

        def forward(self, x, active):
            w_ = torch.sigmoid(self.s(x)) * active
            w_ = w_ / w_.sum(1, keepdim=True)
            return (w_ * x).sum(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = Gate()
            self.out = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))

        def forward(self, x, a):
            return self.out(self.gate(x, a))

    net = Net()
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for i in range(70):
        x = torch.randn(16, 5, 4)
        a = (torch.rand(16, 5, 1) < 0.8).float()
        a[:, 0] = 1
        if i == onset:
            a[2] = 0
        loss = nn.functional.l1_loss(net(x, a)[:, 0], x[:, 0, 0])
        opt.zero_grad()
        loss.backward()
        opt.step()


def padded_row_in_half_precision(s):
    """Additive mask (1-m) * -1e9 in half precision: -inf, and a fully padded row becomes NaN."""
    onset = s

    class Attn(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.q = nn.Linear(d, d)
            self.k = nn.Linear(d, d)
            self.v = nn.Linear(d, d)

        def forward(self, x, m):
            s = (self.q(x) @ self.k(x).transpose(1, 2)).half() / 4
            s = s + (1 - m[:, None].half()) * -1e9
            return s.softmax(-1).float() @ self.v(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(30, 16)
            self.attn = Attn(16)
            self.o = nn.Linear(16, 2)

        def forward(self, t, m):
            return self.o(self.attn(self.e(t), m).mean(1))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for i in range(60):
        t = torch.randint(0, 30, (12, 6))
        y = (t[:, 0] > 15).long()
        m = (torch.arange(6)[None] < torch.randint(2, 7, (12, 1))).float()
        if i == onset:
            m[4] = 0
        loss = nn.functional.cross_entropy(net(t, m), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_gradients_all_subnormal(s):
    """Everything in float16, no loss scaling, a loss averaged over very many elements."""
    wrong = s == 0
    d = torch.float16 if wrong else torch.float32
    net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 256)).to(d)
    opt = torch.optim.SGD(net.parameters(), 0.5)
    map_ = torch.randn(32, 256) / 6
    for _i in range(60):
        x = torch.randn(64, 32)
        y = 0.01 * (x @ map_)
        loss = nn.functional.mse_loss(net(x.to(d)), y.to(d)) * 0.01
        opt.zero_grad()
        loss.backward()
        opt.step()


def momentum_on_a_copy(s):
    """An own optimizer that works on a flat copy of non-contiguous weights: nothing reaches them."""
    wrong = s == 0

    class FlatMomentum(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for g in self.param_groups:
                for q in g["params"]:
                    if q.grad is None:
                        continue
                    b = self.state[q].setdefault("buf", torch.zeros_like(q).flatten())
                    b.mul_(0.9).add_(q.grad.reshape(-1))
                    if wrong:
                        q.reshape(-1).add_(b, alpha=-g["lr"])
                    else:
                        q.sub_(b.view(q.shape) * g["lr"])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(10, 32)
            self.b = nn.Linear(32, 1)
            self.a.weight = nn.Parameter(torch.randn(10, 32).mul(0.3).t())

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    net = Net()
    opt = FlatMomentum(net.parameters(), 5e-3)
    for _i in range(60):
        x = torch.randn(32, 10)
        y = x[:, :1].abs()
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def activation_of_broken_hardware(s):
    """One activation of one step comes back corrupted (a forward hook plays the broken hardware)."""
    onset = s

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1 = nn.Conv1d(1, 12, 3, padding=1)
            self.c2 = nn.Conv1d(12, 12, 3, padding=1)
            self.fc = nn.Linear(12, 2)
            self.broken = False

        def forward(self, x):
            h = torch.relu(self.c1(x))
            h2 = self.c2(h)
            return self.fc(torch.relu(h2).mean(-1))

    net = Conv()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    now = [0]

    def flip(m, i, o):
        if now[0] == onset:
            o = o.clone()
            o[0, 3, 5] = 3e8
            return o
        return None

    net.c2.register_forward_hook(flip)
    for i in range(90):
        now[0] = i
        y = torch.randint(0, 2, (16,))
        x = torch.randn(16, 1, 20) + y[:, None, None]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
