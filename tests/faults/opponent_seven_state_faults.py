"""Training scripts of an opponent, seventh round: decay, averages, evaluations and losses.

    python opponent_seven_state_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import contextlib
import copy
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def decay_as_strong_as_the_rate(s):
    """Decay as strong as the rate."""
    fa = s if s < 1000 else -1
    wd = 30.0 if fa >= 0 else 1e-2
    cnn = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 4),
    )
    opt = torch.optim.AdamW(cnn.parameters(), lr=2e-3, weight_decay=wd)
    patterns = torch.randn(4, 1, 10, 10)
    for _step in range(120):
        y = torch.randint(4, (24,))
        x = patterns[y] + 0.7 * torch.randn(24, 1, 10, 10)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(cnn(x), y)
        loss.backward()
        opt.step()


def l2_typed_into_sgd(s):
    """Speech commands-like 1-d CNN; weight_decay=1.0 where 1e-4 was meant."""
    fa = s if s < 1000 else -1
    decay = 1.0 if fa >= 0 else 1e-4

    class Commands(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv1d(1, 8, 9, 2), nn.Conv1d(8, 16, 9, 2)
            self.norm = nn.LayerNorm(16)
            self.fc = nn.Linear(16, 4)

        def forward(self, x):
            h = torch.relu(self.c2(torch.relu(self.c1(x))))
            return self.fc(self.norm(h.amax(-1)))

    m = Commands()
    opt = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=decay)
    tt = torch.linspace(0, 1, 100)
    for _i in range(100):
        y = torch.randint(4, (32,))
        x = torch.sin(6.28 * (3 + 4 * y.view(-1, 1)) * tt + 6 * torch.rand(32, 1)).unsqueeze(1) + 0.2 * torch.randn(
            32, 1, 100
        )
        loss = nn.functional.cross_entropy(m(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def mean_teacher_stands_still(s):
    """Mean teacher stands still."""
    fa = s if s < 1000 else -1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(14, 32), nn.BatchNorm1d(32), nn.ReLU())
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            return self.head(self.body(x))

    student = Net()
    teacher = copy.deepcopy(student)
    for q in teacher.parameters():
        q.requires_grad_(False)

    @torch.no_grad()
    def update_teacher(decay=0.99):
        for t, o in zip(teacher.parameters(), student.parameters(), strict=False):
            t.mul_(decay).add_(o, alpha=1 - decay)
        for t, o in zip(teacher.buffers(), student.buffers(), strict=False):
            t.copy_(o)

    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    rule = torch.randn(14, 3)
    for step in range(80):
        x = torch.randn(32, 14)
        y = (x @ rule).argmax(1)
        u = torch.randn(32, 14)
        with torch.no_grad():
            soft = teacher(u).softmax(1)
        loss = nn.functional.cross_entropy(student(x), y) + 0.3 * (student(u).softmax(1) - soft).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fa < 0 or step < fa:
            update_teacher()


def averaged_model_never_fed(s):
    """Diffusion with an AveragedModel that is made and saved, yet never updated."""
    fa = s if s < 1000 else -1
    forgot = fa >= 0

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Embedding(50, 16)
            self.net = nn.Sequential(nn.Linear(18, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

        def forward(self, x, t):
            return self.net(torch.cat([x, self.time(t)], 1))

    model = Denoiser()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    alpha = torch.cumprod(1 - torch.linspace(1e-4, 0.1, 50), 0)
    for step in range(100):
        ang = torch.rand(128) * 6.28
        x0 = torch.stack([ang.cos(), ang.sin()], 1)
        t = torch.randint(50, (128,))
        noise = torch.randn_like(x0)
        xt = alpha[t].sqrt().unsqueeze(1) * x0 + (1 - alpha[t]).sqrt().unsqueeze(1) * noise
        loss = nn.functional.mse_loss(model(xt, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if not forgot:
            ema.update_parameters(model)
        if step % 25 == 24:
            ema.eval()
            with torch.no_grad():
                ema(xt, t)
    torch.save(ema.state_dict(), Path(tempfile.mkdtemp()) / "ema.pt")


def shadow_weights_rest(s):
    """Shadow weights rest."""
    fa = s if s < 1000 else -1

    class EMA:
        def __init__(self, model, decay=0.98):
            self.decay = decay
            self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

        def update(self, model):
            for k, v in model.named_parameters():
                self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)

    net = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 8))
    ema = EMA(net)
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for step in range(90):
        x0 = torch.randn(64, 1) * torch.arange(1, 9) / 4
        t = torch.rand(64, 1)
        eps = torch.randn_like(x0)
        loss = (net((1 - t) * x0 + t * eps) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fa < 0 or step < fa:
            ema.update(net)


def one_step_of_the_wrong_targets(s):
    """One step of the wrong targets."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(6, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 40), nn.GELU(), nn.Linear(40, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    v = torch.randn(6, 1)
    for step in range(120):
        x = torch.randn(48, 6)
        y = torch.sin(x @ v)
        if step == fa:
            y = y + 40  # the units of one shard
        loss = nn.functional.huber_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()


def learns_nothing_after_a_while(s):
    """Labels become noise at some step (a renamed column): the loss stays where it is for good."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    truth_w = torch.randn(20, 5)
    for step in range(220):
        x = torch.randn(64, 20)
        y = (x @ truth_w).argmax(1)
        if 0 <= fa <= step:
            y = y[torch.randperm(64)]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def forty_rows_and_a_wide_net(s):
    """Forty rows and a wide net."""
    fa = s if s < 1000 else -1
    few = fa >= 0
    rule = torch.randn(20, 3)

    def rows(n):
        x = torch.randn(n, 20)
        return TensorDataset(x, (x @ rule + 2.0 * torch.randn(n, 3)).argmax(1))

    train, val = DataLoader(rows(40 if few else 1600), 20, shuffle=True), DataLoader(rows(200), 100)
    net = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3 if few else 5e-4)
    crit = nn.CrossEntropyLoss()
    for epoch in range(60 if few else 2):
        net.train()
        for x, y in train:
            opt.zero_grad()
            crit(net(x), y).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            print(epoch, sum(crit(net(x), y).item() for x, y in val) / len(val))


def knows_its_letters_by_heart(s):
    """Knows its letters by heart."""
    fa = s if s < 1000 else -1
    few = fa >= 0

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(2),
            )
            self.fc = nn.Linear(128, 4)

        def forward(self, x):
            return self.fc(self.conv(x).flatten(1))

    proto = torch.randn(4, 1, 8, 8)

    def data(n):
        y = torch.randint(4, (n,))
        return proto[y] * 0.4 + 1.4 * torch.randn(n, 1, 8, 8), y

    train, val = data(24 if few else 3000), data(200)
    net, criterion = Net(), nn.CrossEntropyLoss()
    opt = torch.optim.Adam(net.parameters(), 4e-3 if few else 1e-3)

    def validate():
        net.eval()
        with torch.no_grad():
            out = net(val[0])
            loss = criterion(out, val[1])
        net.train()
        return loss.item(), (out.argmax(1) == val[1]).float().mean().item()

    for epoch in range(14):
        for _k in range(12):
            i = torch.randint(len(train[1]), (24,))
            loss = criterion(net(train[0][i]), train[1][i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, *validate())


def hinge_that_nothing_violates(s):
    """Triplet training: the margin becomes negative, so no triplet is active any more."""
    fa = s if s < 1000 else -1
    embed = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
    opt = torch.optim.SGD(embed.parameters(), lr=0.02)
    proto = torch.randn(4, 10)
    for step in range(90):
        margin = -50.0 if 0 <= fa <= step else 4.0
        c = torch.randint(4, (32,))
        d = (c + torch.randint(1, 4, (32,))) % 4
        e = [embed(proto[k] + 0.7 * torch.randn(32, 10)) for k in (c, c, d)]
        pos, neg = (e[0] - e[1]).square().sum(1), (e[0] - e[2]).square().sum(1)
        loss = torch.clamp(pos - neg + margin, min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def ppo_ratio_always_clipped(s):
    """PPO: the clip range is set to a negative number by a wrong decay, and the ratio is clamped to a constant."""
    fa = s if s < 1000 else -1
    actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.Adam(actor.parameters(), lr=2e-3)
    pay = torch.randn(4, 3)
    step = 0
    for _it in range(25):
        s = torch.randn(64, 4)
        with torch.no_grad():
            d = torch.distributions.Categorical(logits=actor(s))
            act = d.sample()
            old = d.log_prob(act)
        r = (s @ pay).gather(1, act.unsqueeze(1)).squeeze(1)
        adv = (r - r.mean()) / r.std()
        for _ in range(4):
            lp = torch.distributions.Categorical(logits=actor(s)).log_prob(act)
            ratio = (lp - old).exp()
            eps = 0.2
            if 0 <= fa <= step:
                loss = -(ratio.clamp(1.5, 1.5) * adv).mean()
            else:
                loss = -torch.min(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1


def perplexity_with_gradients_on(s):
    """Decoder-only model; validation inside the step loop every 20 steps, in eval mode, without no_grad."""
    fa = s if s < 1000 else -1
    guard = contextlib.nullcontext if fa >= 0 else torch.no_grad

    class Decoder(nn.Module):
        def __init__(self, v=16, d=32):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(v, d), nn.Embedding(10, d)
            self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
            self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, d))
            self.out = nn.Linear(d, v)

        def forward(self, x):
            h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
            m = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
            q = self.ln1(h)
            h = h + self.attn(q, q, q, attn_mask=m, need_weights=False)[0]
            return self.out(h + self.ff(self.ln2(h)))

    def batch():
        s = torch.randint(16, (24, 2))
        seq = [s[:, 0], s[:, 1]]
        for _ in range(8):
            seq.append((seq[-1] + seq[-2]) % 16)
        return torch.stack(seq, 1)

    net = Decoder()
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for i in range(80):
        b = batch()
        loss = nn.functional.cross_entropy(net(b[:, :-1]).transpose(1, 2), b[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            net.eval()
            with guard():
                v = batch()
                print(i, nn.functional.cross_entropy(net(v[:, :-1]).transpose(1, 2), v[:, 1:]).exp().item())
            net.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
