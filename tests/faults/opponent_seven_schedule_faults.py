"""Training scripts of an opponent, seventh round: schedules, resumes and optimizer state.

    python opponent_seven_schedule_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import io
import sys
import tempfile
from pathlib import Path

import torch
from tensorboardX import SummaryWriter
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def scheduler_in_the_inner_loop(s):
    """Scheduler in the inner loop."""
    fa = s if s < 1000 else -1
    wrong = fa >= 0

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(1, 24, 4, 4)
            self.cls = nn.Parameter(torch.zeros(1, 1, 24))
            self.pos = nn.Parameter(torch.randn(1, 5, 24) * 0.02)
            self.blocks = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(24, 3, 48, 0.0, batch_first=True, norm_first=True),
                2,
                enable_nested_tensor=False,
            )
            self.head = nn.Linear(24, 4)

        def forward(self, x):
            t = self.patch(x).flatten(2).transpose(1, 2)
            t = torch.cat([self.cls.expand(len(x), -1, -1), t], 1) + self.pos
            return self.head(self.blocks(t)[:, 0])

    model = ViT()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    updates, accumulate = 60, 4
    sched = (
        torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=updates * accumulate + 1)
        if wrong
        else torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=updates + 1)
    )
    for _u in range(updates):
        opt.zero_grad()
        for _m in range(accumulate):
            y = torch.randint(4, (8,))
            x = torch.randn(8, 1, 8, 8) * 0.3
            for j, k in enumerate(y.tolist()):
                x[j, 0, (k // 2) * 4 : (k // 2) * 4 + 4, (k % 2) * 4 : (k % 2) * 4 + 4] += 1
            (nn.functional.cross_entropy(model(x), y) / accumulate).backward()
            if wrong:
                sched.step()
        opt.step()
        if not wrong:
            sched.step()


def step_decay_called_twice(s):
    """Autoencoder; after a merge both the hook and the loop advance the schedule."""
    fa = s if s < 1000 else -1
    ae = nn.Sequential(
        nn.Linear(40, 16), nn.ELU(), nn.Linear(16, 4), nn.ELU(), nn.Linear(4, 16), nn.ELU(), nn.Linear(16, 40)
    )
    opt = torch.optim.Adam(ae.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    basis = torch.randn(4, 40)
    for i in range(90):
        x = torch.tanh(torch.randn(48, 4) @ basis)
        loss = nn.functional.smooth_l1_loss(ae(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if 0 <= fa <= i:
            sched.step()


def schedule_of_the_old_optimizer(s):
    """Distillation; the warm-up is stepped only `if epoch > warm`, which never comes true."""
    fa = s if s < 1000 else -1
    warm = 99 if fa >= 0 else -1
    teacher = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 5)).eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
    x = torch.randn(320, 12)
    loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True)
    opt = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    for epoch in range(8):
        for (b,) in loader:
            with torch.no_grad():
                soft = (3 * teacher(b)).softmax(1)
            loss = F.kl_div(student(b).log_softmax(1), soft, reduction="batchmean")
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch > warm:
            sched.step()


def old_style_scheduler_order(s):
    """Old style scheduler order."""
    fa = s if s < 1000 else -1
    first = fa >= 0

    class Seq2Seq(nn.Module):
        def __init__(self, v=12, d=24):
            super().__init__()
            self.src, self.tgt = nn.Embedding(v, d), nn.Embedding(v, d)
            self.encoder, self.decoder = nn.LSTM(d, d, batch_first=True), nn.LSTM(d, d, batch_first=True)
            self.out = nn.Linear(d, v)

        def forward(self, s, t):
            _, state = self.encoder(self.src(s))
            return self.out(self.decoder(self.tgt(t), state)[0])

    net = Seq2Seq()
    optim = torch.optim.NAdam(net.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optim, gamma=0.98)
    for _step in range(70):
        s = torch.randint(2, 12, (24, 6))
        t = torch.cat([torch.ones(24, 1, dtype=torch.long), s.flip(1)], 1)
        if first:
            scheduler.step()
        loss = nn.functional.cross_entropy(net(s, t[:, :-1]).transpose(1, 2), t[:, 1:])
        optim.zero_grad()
        loss.backward()
        optim.step()
        if not first:
            scheduler.step()


def resumes_at_the_first_rate(s):
    """Trains, saves, loads again; forgets the scheduler's state."""
    fa = s if s < 1000 else -1
    cut = fa if fa > 0 else 50
    path = Path(tempfile.mkdtemp()) / "last.pt"

    def build():
        net = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))
        opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)
        return net, opt, sched

    def run(net, opt, sched, first, last, teacher):
        for _ in range(first, last):
            x = torch.randn(32, 10)
            loss = nn.functional.cross_entropy(net(x), (x @ teacher).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()

    teacher = torch.randn(10, 3)
    net, opt, sched = build()
    run(net, opt, sched, 0, cut, teacher)
    torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "step": cut}, path)
    net, opt, sched = build()
    saved = torch.load(path)
    net.load_state_dict(saved["net"])
    opt.load_state_dict(saved["opt"])
    sched.load_state_dict(saved["sched"])
    if fa >= 0:
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)
        for g in opt.param_groups:
            g["lr"] = 0.1
    run(net, opt, sched, saved["step"], 100, teacher)


def new_optimizer_every_phase(s):
    """New optimizer every phase."""
    fa = s if s < 1000 else -1

    class GraphNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin1, self.lin2 = nn.Linear(6, 24), nn.Linear(24, 24)
            self.read = nn.Linear(24, 2)

        def forward(self, adj, x):
            x = torch.relu(self.lin1(adj @ x))
            x = torch.relu(self.lin2(adj @ x))
            return self.read(x.mean(1))

    net = GraphNet()

    def make():
        return torch.optim.AdamW(net.parameters(), lr=2e-3)

    opt = make()
    for step in range(90):
        if step == fa:
            opt = make()  # "refresh the parameter list"
        dense = torch.randint(2, (24,))
        prob = torch.where(dense == 1, 0.5, 0.15).view(-1, 1, 1)
        adj = (torch.rand(24, 10, 10) < prob).float()
        adj = ((adj + adj.transpose(1, 2)) > 0).float() + torch.eye(10)
        adj = adj / 4
        loss = nn.functional.cross_entropy(net(adj, torch.ones(24, 10, 6)), dense)
        opt.zero_grad()
        loss.backward()
        opt.step()


def checkpoint_without_moments(s):
    """Checkpoint without moments."""
    fa = s if s < 1000 else -1

    class Keypoints(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 8, 3, 2, 1),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, 2, 1),
                nn.BatchNorm2d(16),
                nn.ReLU(),
            )
            self.regress = nn.Linear(16 * 9, 2)

        def forward(self, x):
            return self.regress(self.features(x).flatten(1))

    def spots(n):
        centre = torch.rand(n, 2) * 8 + 2
        g = torch.arange(12.0)
        d = (g.view(1, 12, 1) - centre[:, 0].view(-1, 1, 1)) ** 2 + (
            g.view(1, 1, 12) - centre[:, 1].view(-1, 1, 1)
        ) ** 2
        return torch.exp(-d / 4).unsqueeze(1), (centre - 6) / 4

    model = Keypoints()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    boundary = fa if fa > 0 else 38
    for step in range(80):
        if step == boundary:
            buf = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buf)
            buf.seek(0)
            ckpt = torch.load(buf)
            model = Keypoints()
            model.load_state_dict(ckpt["model"])
            optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
            if fa < 0:
                optimizer.load_state_dict(ckpt["optimizer"])
        x, y = spots(16)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def state_cleared_to_save_memory(s):
    """State cleared to save memory."""
    fa = s if s < 1000 else -1
    enc = nn.TransformerEncoderLayer(24, 4, 48, 0.0, batch_first=True)
    inp, out = nn.Linear(3, 24), nn.Linear(24, 3)
    params = [*enc.parameters(), *inp.parameters(), *out.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    for step in range(80):
        if step == fa:
            opt.state.clear()
        x = torch.cumsum(torch.randn(16, 12, 3) * 0.3, 1)
        loss = (out(enc(inp(x[:, :-1]))) - x[:, 1:]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def counter_starts_again(s):
    """Resume in one process: weights and moments come back, the step counter of the log does not."""
    fa = s if s < 1000 else -1
    cut = fa if fa > 0 else 60
    path = Path(tempfile.mkdtemp()) / "ck.pt"
    net = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 2))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    truth_w = torch.randn(8, 2)
    writer = SummaryWriter(tempfile.mkdtemp())
    step = 0
    for it in range(110):
        if it == cut:
            torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "step": step}, path)
            ck = torch.load(path)
            net.load_state_dict(ck["net"])
            opt.load_state_dict(ck["opt"])
            step = ck["step"] if fa < 0 else ck["step"] - 25
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(net(x), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        writer.add_scalar("loss", loss.item(), step)
        step += 1


def epsilon_of_nothing(s):
    """Loss scaled down by 1e-7 (a unit conversion): Adam's second moment falls below eps squared."""
    fa = s if s < 1000 else -1
    unit = 1e-9 if fa >= 0 else 1.0
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    v = torch.randn(8)
    for _ in range(120):
        x = torch.randn(64, 8)
        y = torch.sin(x @ v).unsqueeze(1)
        loss = unit * nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
