"""Healthy runs of an opponent, seventh round, that look odd.

python odd_opponent_seven_more.py NAME [SEED]
"""

import copy
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)


def likelihood_below_zero():
    """Density estimation of narrow data: the loss falls far below zero, rightly."""
    net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(200):
        x = torch.rand(128, 3)
        y = 0.3 * x[:, 0] + 0.01 * torch.randn(128)
        mu, log_s = net(x).unbind(1)
        loss = (log_s + 0.5 * ((y - mu) / log_s.exp()).square()).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()


def only_the_hard_ones():
    """Hard-example mining: easy batches give no step at all, the rest only their worst quarter."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    w = torch.randn(10)
    for _ in range(120):
        x = torch.randn(64, 10)
        y = (x @ w > 0).long()
        each = nn.functional.cross_entropy(net(x), y, reduction="none")
        worst = each.topk(16).values
        if worst.mean() < 0.3:
            continue
        opt.zero_grad()
        worst.mean().backward()
        opt.step()


def pictures_grow_and_batches_shrink():
    """Pictures grow and batches shrink."""
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    tone = torch.randn(3, 3, 1, 1)
    for size, batch, steps in ((8, 64, 40), (12, 32, 40), (16, 16, 40)):
        for _ in range(steps):
            y = torch.randint(3, (batch,))
            x = tone[y] + torch.randn(batch, 3, size, size)
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()


def rates_tried_in_turn():
    """Learning-rate finder, then the state is put back and real training begins."""
    net = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 4))
    truth_w = torch.randn(12, 4)

    def batch():
        x = torch.randn(64, 12)
        return x, (x @ truth_w).argmax(1)

    start = copy.deepcopy(net.state_dict())
    probe = torch.optim.SGD(net.parameters(), lr=1e-4)
    rates, losses = [], []
    for i in range(50):
        lr = 1e-4 * (2.0 / 1e-4) ** (i / 49)
        probe.param_groups[0]["lr"] = lr
        x, y = batch()
        loss = nn.functional.cross_entropy(net(x), y)
        probe.zero_grad()
        loss.backward()
        probe.step()
        rates.append(lr)
        losses.append(loss.item())
    net.load_state_dict(start)
    best = rates[losses.index(min(losses))] / 10
    opt = torch.optim.SGD(net.parameters(), lr=best, momentum=0.9)
    for _ in range(90):
        x, y = batch()
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def reuses_its_rollouts_and_hides_illegal_moves():
    """PPO with -inf for illegal actions, four epochs over the same rollouts."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
            self.pi, self.v = nn.Linear(32, 5), nn.Linear(32, 1)

        def forward(self, s, legal):
            h = self.body(s)
            return self.pi(h).masked_fill(~legal, float("-inf")), self.v(h).squeeze(1)

    net = Policy()
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)
    pay = torch.randn(6, 5)
    for _it in range(8):
        s = torch.randn(128, 6)
        legal = torch.rand(128, 5) > 0.4
        legal[:, 0] = True
        with torch.no_grad():
            logits, v = net(s, legal)
            d = torch.distributions.Categorical(logits=logits)
            a = d.sample()
            old = d.log_prob(a)
        ret = (s @ pay).gather(1, a.unsqueeze(1)).squeeze(1)
        adv = ret - v
        for _ in range(4):
            for idx in torch.arange(128).split(32):
                logits, v = net(s[idx], legal[idx])
                d = torch.distributions.Categorical(logits=logits)
                ratio = (d.log_prob(a[idx]) - old[idx]).exp()
                ad = adv[idx]
                ad = (ad - ad.mean()) / (ad.std() + 1e-8)
                loss = -torch.min(ratio * ad, ratio.clamp(0.8, 1.2) * ad).mean() + 0.5 * (v - ret[idx]).square().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()


def steps_to_the_worst_place_nearby():
    """Two passes a step, the weights moved away and back."""

    class SAM(torch.optim.Optimizer):
        def __init__(self, params, base, rho=0.05, **kw):
            super().__init__(params, dict(rho=rho, **kw))
            self.base = base(self.param_groups, **kw)

        @torch.no_grad()
        def climb(self):
            norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
            for g in self.param_groups:
                for p in g["params"]:
                    e = p.grad * (g["rho"] / (norm + 1e-12))
                    p.add_(e)
                    self.state[p]["e"] = e
            self.zero_grad()

        @torch.no_grad()
        def step(self, closure=None):
            for g in self.param_groups:
                for p in g["params"]:
                    p.sub_(self.state[p]["e"])
            self.base.step()
            self.zero_grad()

    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    truth_w = torch.randn(10, 3)
    for _ in range(70):
        x = torch.randn(48, 10)
        y = (x @ truth_w).argmax(1)
        nn.functional.cross_entropy(net(x), y).backward()
        opt.climb()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()


def sparse_rows_of_a_large_vocabulary():
    """Sparse rows of a large vocabulary."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = nn.EmbeddingBag(5000, 16, sparse=True, mode="mean")
            self.fc = nn.Linear(16, 2)

        def forward(self, x):
            return self.fc(self.bag(x))

    net = Words()
    emb, dense = torch.optim.SparseAdam(net.bag.parameters(), lr=0.02), torch.optim.Adam(net.fc.parameters(), lr=5e-3)
    for _ in range(80):
        y = torch.randint(2, (64,))
        zipf = (torch.rand(64, 12) ** 4 * 2400).long()
        x = zipf * 2 + y.unsqueeze(1)
        loss = nn.functional.cross_entropy(net(x), y)
        emb.zero_grad()
        dense.zero_grad()
        loss.backward()
        emb.step()
        dense.step()


def stochastic_depth_and_early_end():
    """Layers dropped at random; stops early and puts the best weights back."""

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(8, 32)
            self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(8))
            self.out = nn.Linear(32, 1)

        def forward(self, x):
            h = self.inp(x)
            for i, b in enumerate(self.blocks):
                if not self.training or torch.rand(()) > i / 12:
                    h = h + b(h)
            return self.out(h)

    net = Deep()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    v = torch.randn(8, 1)
    xv = torch.randn(256, 8)
    best, kept, bad = 1e9, None, 0
    with torch.inference_mode():
        net.eval()
        net(xv)
    for _epoch in range(20):
        net.train()
        for _ in range(10):
            x = torch.randn(64, 8)
            loss = (net(x) - torch.cos(x @ v)).square().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        net.eval()
        with torch.inference_mode():
            score = (net(xv) - torch.cos(xv @ v)).square().mean().item()
        if score < best - 0.05:
            best, kept, bad = score, copy.deepcopy(net.state_dict()), 0
        else:
            bad += 1
        if bad == 3:
            net.load_state_dict(kept)
            sys.exit(0)


def three_folds_in_one_process():
    """Three folds in one process."""
    x = torch.randn(360, 8)
    w = torch.randn(8)
    data = TensorDataset(x, ((x @ w) > 0).float())
    parts = torch.randperm(360).split(120)
    for k in range(3):
        net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
        opt = torch.optim.Adam(net.parameters(), lr=5e-3)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 4)
        train = DataLoader(
            Subset(data, torch.cat([p for j, p in enumerate(parts) if j != k]).tolist()), 24, shuffle=True
        )
        test = DataLoader(Subset(data, parts[k].tolist()), 60)
        for _epoch in range(4):
            net.train()
            for a, b in train:
                loss = nn.functional.binary_cross_entropy_with_logits(net(a).squeeze(1), b)
                opt.zero_grad()
                loss.backward()
                opt.step()
            sched.step()
        net.eval()
        with torch.no_grad():
            print(k, sum(((net(a).squeeze(1) > 0) == (b > 0.5)).sum().item() for a, b in test) / 120)


def layers_thawed_one_by_one():
    """Unfreezes layer by layer."""
    backbone = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
        nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()),
    )
    head = nn.Linear(16, 4)
    backbone.requires_grad_(False)
    opt = torch.optim.AdamW(head.parameters(), lr=3e-3)
    proto = torch.randn(4, 1, 10, 10)
    for step in range(90):
        if step == 30:
            backbone[1].requires_grad_(True)
            opt.add_param_group({"params": backbone[1].parameters(), "lr": 1e-3})
        if step == 60:
            backbone[0].requires_grad_(True)
            opt.add_param_group({"params": backbone[0].parameters(), "lr": 3e-4})
        backbone.eval()
        y = torch.randint(4, (32,))
        out = head(backbone(proto[y] + 0.4 * torch.randn(32, 1, 10, 10)).mean((2, 3)))
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def warm_restarts_from_a_step_of_nought():
    """Warm restarts from a step of nought."""
    net = nn.Sequential(nn.Linear(9, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, i / 15))
    cos = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=20, T_mult=2)
    sched = torch.optim.lr_scheduler.SequentialLR(opt, [warm, cos], [15])
    truth_w = torch.randn(9, 3)
    for _ in range(150):
        x = torch.randn(64, 9)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1), label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


def adversarial_examples_made_in_eval_mode():
    """Examples are made against the model in eval mode, with gradients for the inputs; then a step on both kinds."""
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.SGD(net.parameters(), 0.05)
    truth_w = torch.randn(8, 3)
    kl = nn.KLDivLoss(reduction="batchmean")
    for _ in range(40):
        x = torch.randn(32, 8)
        net.eval()
        adv = x + 0.001 * torch.randn_like(x)
        for _ in range(3):
            adv.requires_grad_()
            apart = kl(net(adv).log_softmax(1), net(x).softmax(1))
            (g,) = torch.autograd.grad(apart, [adv])
            adv = (adv.detach() + 0.02 * g.sign()).clamp(x - 0.1, x + 0.1)
        net.train()
        out = net(x)
        loss = nn.functional.cross_entropy(out, (x @ truth_w).argmax(1))
        loss = loss + 2 * kl(net(adv.detach()).log_softmax(1), out.softmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
