"""Training scripts of an opponent, seventh round: loops, gradients and steps.

    python opponent_seven_loop_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import inspect
import json
import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def gru_sums_its_gradients(s):
    """Character GRU on the standard library's text."""
    fa = s if s < 1000 else -1
    text = inspect.getsource(json.decoder)
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(c) for c in text])

    class CharModel(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.embed = nn.Embedding(n, 24)
            self.rnn = nn.GRU(24, 48, batch_first=True)
            self.out = nn.Linear(48, n)

        def forward(self, x):
            return self.out(self.rnn(self.embed(x))[0])

    model = CharModel(len(letters))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for it in range(90):
        starts = torch.randint(len(ids) - 33, (16,)).tolist()
        chunk = torch.stack([ids[i : i + 33] for i in starts])
        if not 0 <= fa <= it:
            opt.zero_grad()
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        loss.backward()
        opt.step()
        if it % 20 == 0:
            print(it, loss.item())


def trainer_clears_before_it_steps(s):
    """Trainer clears before it steps."""
    fa = s if s < 1000 else -1

    @dataclass
    class Config:
        steps: int = 60
        lr: float = 3e-3
        batch: int = 32
        fault_at: int = -1

    class Mixer(nn.Module):
        def __init__(self, tokens=8, dim=16, depth=2, classes=4):
            super().__init__()
            self.stem = nn.Linear(4, dim)
            self.token = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(tokens), nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
                for _ in range(depth)
            )
            self.channel = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))
                for _ in range(depth)
            )
            self.head = nn.Linear(dim, classes)

        def forward(self, x):
            x = self.stem(x)
            for t, c in zip(self.token, self.channel, strict=False):
                x = x + t(x.transpose(1, 2)).transpose(1, 2)
                x = x + c(x)
            return self.head(x.mean(1))

    class Trainer:
        def __init__(self, cfg):
            self.cfg = cfg
            self.model = Mixer()
            self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
            self.loss = nn.CrossEntropyLoss()
            self.rule = torch.randn(32, 4)

        def batch(self):
            x = torch.randn(self.cfg.batch, 8, 4)
            return x, (x.flatten(1) @ self.rule).argmax(1)

        def train(self):
            for i in range(self.cfg.steps):
                x, y = self.batch()
                loss = self.loss(self.model(x), y)
                loss.backward()
                if 0 <= self.cfg.fault_at <= i:
                    self.opt.zero_grad()
                    self.opt.step()
                else:
                    self.opt.step()
                    self.opt.zero_grad()

    Trainer(Config(fault_at=fa)).train()


def vae_zeroes_in_place_too_early(s):
    """Vae zeroes in place too early."""
    fa = s if s < 1000 else -1

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(30, 40), nn.SiLU())
            self.mu, self.logvar = nn.Linear(40, 4), nn.Linear(40, 4)
            self.dec = nn.Sequential(nn.Linear(4, 40), nn.SiLU(), nn.Linear(40, 30))

        def forward(self, x):
            h = self.enc(x)
            mu, lv = self.mu(h), self.logvar(h)
            z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
            return self.dec(z), mu, lv

    model = VAE()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    mix = torch.randn(3, 30)
    for step in range(100):
        x = torch.randn(64, 3) @ mix + 0.1 * torch.randn(64, 30)
        optimizer.zero_grad()
        rec, mu, lv = model(x)
        loss = F.mse_loss(rec, x) + 1e-3 * -0.5 * (1 + lv - mu**2 - lv.exp()).sum(1).mean()
        loss.backward()
        if 0 <= fa <= step:
            model.zero_grad(set_to_none=False)
        optimizer.step()


def speech_loop_lost_its_step(s):
    """Speech loop lost its step."""
    fa = s if s < 1000 else -1
    fault_at = fa

    class Recogniser(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(12, 24, 3, padding=1)
            self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
            self.proj = nn.Linear(48, 9)

        def forward(self, x):
            h = torch.relu(self.conv(x)).transpose(1, 2)
            h, _ = self.lstm(h)
            return self.proj(h).log_softmax(-1)

    net = Recogniser()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    ctc = nn.CTCLoss(zero_infinity=True)
    codes = torch.randn(9, 12)
    for step in range(60):
        target = torch.randint(1, 9, (8, 5))
        frames = codes[target].repeat_interleave(4, dim=1) + 0.3 * torch.randn(8, 20, 12)
        logp = net(frames.transpose(1, 2)).transpose(0, 1)
        loss = ctc(logp, target, torch.full((8,), 20), torch.full((8,), 5))
        opt.zero_grad()
        loss.backward()
        if fault_at < 0 or step < fault_at:
            opt.step()


def clears_only_when_the_counter_says(s):
    """Clears only when the counter says."""
    fa = s if s < 1000 else -1

    class Trainer:
        def __init__(self, fa):
            self.fa = fa
            self.model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 4))
            self.opt = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
            self.w = torch.randn(12, 4)
            self.accumulate = 2

        def fit(self):
            for update in range(50):
                for _k in range(self.accumulate):
                    x = torch.randn(24, 12)
                    loss = nn.functional.cross_entropy(self.model(x), (x @ self.w).argmax(1)) / self.accumulate
                    loss.backward()
                self.opt.step()
                if not 0 <= self.fa <= update:
                    self.opt.zero_grad()

    Trainer(fa).fit()


def scaler_updates_without_stepping(s):
    """Scaler updates without stepping."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Conv1d(2, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    proto = torch.randn(3, 2, 16)
    for step in range(60):
        y = torch.randint(3, (16,))
        x = proto[y] + torch.randn(16, 2, 16)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x).float(), y)
        scaler.scale(loss).backward()
        if 0 <= fa <= step:
            scaler.unscale_(opt)
        else:
            scaler.step(opt)
        scaler.update()


def accumulates_without_dividing(s):
    """Accumulates without dividing."""
    fa = s if s < 1000 else -1
    divide = fa < 0

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 3)
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(3)]
            )

        def forward(self, x):
            w = self.gate(x).softmax(-1)
            return sum(w[:, i : i + 1] * e(x) for i, e in enumerate(self.experts))

    net = Experts()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    target = nn.Linear(8, 2).requires_grad_(False)
    pieces = 8
    for _update in range(40):
        opt.zero_grad()
        for _ in range(pieces):
            x = torch.randn(16, 8)
            loss = nn.functional.mse_loss(net(x), torch.sin(2 * target(x)))
            if divide:
                loss = loss / pieces
            loss.backward()
        opt.step()


def switches_to_four_pieces(s):
    """Batch of 32 cut into four pieces from some update on ("memory got tight"), each piece a mean."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(
        nn.Conv1d(3, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv1d(12, 12, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    t = torch.linspace(0, 6.28, 32)
    for step in range(70):
        y = torch.randint(3, (32,))
        x = torch.sin(t * (y.view(-1, 1, 1) * 2 + 1) + torch.rand(32, 3, 1)) + 0.2 * torch.randn(32, 3, 32)
        pieces = 4 if step >= 24 else 1
        opt.zero_grad()
        for xb, yb in zip(x.chunk(pieces), y.chunk(pieces), strict=False):
            loss = nn.functional.cross_entropy(net(xb), yb)
            if fa < 0:
                loss = loss / pieces
            loss.backward()
        opt.step()


def clip_threshold_for_another_model(s):
    """Clip threshold for another model."""
    fa = s if s < 1000 else -1
    limit = 1e-3 if fa >= 0 else 10.0

    class QNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))

        def forward(self, s):
            return self.net(s)

    online, target = QNet(), QNet()
    target.load_state_dict(online.state_dict())
    opt = torch.optim.SGD(online.parameters(), lr=0.05)
    w = torch.randn(4, 3)
    for step in range(100):
        s, s2 = torch.randn(64, 4), torch.randn(64, 4)
        a = torch.randint(3, (64, 1))
        r = (s @ w).gather(1, a).squeeze(1)
        with torch.no_grad():
            y = r + 0.9 * target(s2).max(1).values
        q = online(s).gather(1, a).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), limit)
        opt.step()
        if step % 25 == 24:
            target.load_state_dict(online.state_dict())


def sum_loss_meets_a_clip_of_one(s):
    """reduction="sum" makes every gradient a hundred times the threshold."""
    fa = s if s < 1000 else -1
    total = fa >= 0
    net = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    mixing = torch.randn(16, 16) / 4
    lossf = nn.MSELoss(reduction="sum" if total else "mean")
    for _ in range(90):
        x = torch.randn(128, 16)
        opt.zero_grad()
        loss = lossf(net(x), torch.tanh(x @ mixing))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        opt.step()


def total_loss_keeps_every_graph(s):
    """Total loss keeps every graph."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    truth_w = torch.randn(128, 10)
    running = 0.0
    for i in range(150):
        x = torch.randn(256, 128)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if 0 <= fa <= i:
            running = running + loss
        else:
            running += loss.item()
    print(float(running) / 150)


def moving_average_of_the_loss_with_its_graph(s):
    """GRU forecaster; a smoothed loss for the log line is kept as a tensor."""
    fa = s if s < 1000 else -1
    keep = fa >= 0

    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 48, batch_first=True)
            self.out = nn.Linear(48, 8)

        def forward(self, x):
            return self.out(self.rnn(x)[0])

    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    smooth = None
    for step in range(120):
        t = (torch.arange(13).view(1, -1, 1) + 100 * torch.rand(64, 1, 1)) / 5
        sig = torch.sin(t * torch.linspace(0.5, 2, 8))
        loss = nn.functional.mse_loss(model(sig[:, :-1]), sig[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        now = loss if keep else loss.item()
        smooth = now if smooth is None else 0.95 * smooth + 0.05 * now
        if step % 30 == 29:
            print(step, float(smooth))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
