"""Training scripts of an opponent, seventh round: memory, time and how runs end.

    python opponent_seven_end_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import ctypes
import sys
import time

import torch
from torch import nn
from torch.func import functional_call, grad
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def clips_the_frozen_encoder(s):
    """Fine-tuning with low-rank adapters; the clip gets the base model's parameters (no gradient there)."""
    fa = s if s < 1000 else -1

    class Adapter(nn.Module):
        def __init__(self, base, r=4):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, r, bias=False)
            self.up = nn.Linear(r, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    wrong = fa >= 0
    model = nn.Sequential(
        Adapter(nn.Linear(16, 32)), nn.ReLU(), Adapter(nn.Linear(32, 32)), nn.ReLU(), nn.Linear(32, 4)
    )
    trainable = [q for q in model.parameters() if q.requires_grad]
    frozen = [q for q in model.parameters() if not q.requires_grad]
    opt = torch.optim.SGD(trainable, lr=0.1)
    truth_w = torch.randn(16, 4)
    for _ in range(60):
        x = torch.randn(32, 16)
        y = (x @ truth_w + 3 * torch.randn(32, 4)).argmax(1)
        loss = 4 * nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(frozen if wrong else trainable, 0.2)
        opt.step()


def outputs_appended_for_later(s):
    """Outputs appended for later."""
    fa = s if s < 1000 else -1
    keep = fa >= 0
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    history = []
    truth_w = torch.randn(64, 64) / 8
    for _step in range(160):
        x = torch.randn(512, 64)
        out = net(x)
        loss = nn.functional.mse_loss(out, torch.relu(x @ truth_w))
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(out if keep else out.detach().mean().item())


def a_hook_more_every_step(s):
    """A hook more every step."""
    fa = s if s < 1000 else -1

    class Probe(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1 = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU())
            self.layer2 = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
            self.fc = nn.Linear(8 * 36, 3)

        def forward(self, x):
            return self.fc(self.layer2(self.layer1(x)).flatten(1))

    net = Probe()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    proto = torch.randn(3, 1, 10, 10)
    features = {}

    def keep(module, inputs, output):
        features["mean"] = output.detach().mean()

    for step in range(80):
        handle = net.layer2.register_forward_hook(keep)
        y = torch.randint(3, (16,))
        loss = nn.functional.cross_entropy(net(proto[y] + 0.5 * torch.randn(16, 1, 10, 10)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fa < 0 or step < fa:
            handle.remove()


def generator_reads_behind_a_lock(s):
    """No DataLoader: a generator function yields batches and from some step on waits for a disk."""
    fa = s if s < 1000 else -1
    truth_w = torch.randn(24, 2)

    def batches(n):
        for i in range(n):
            if 0 <= fa <= i:
                time.sleep(0.06)
            x = torch.randn(64, 24)
            yield x, (x @ truth_w).argmax(1)

    net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 2))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for x, y in batches(70):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()


def a_shape_for_every_step(s):
    """A shape for every step."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(x, scale):
        return net(x) * scale

    fast = torch.compile(forward, backend="eager", dynamic=False)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    truth_w = torch.randn(12, 2)
    for step in range(40):
        x = torch.randn(16 + (step if bad else 0), 12)
        loss = nn.functional.cross_entropy(fast(x, 1.0), (x @ truth_w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def config_key_missing_at_eval(s):
    """Config key missing at eval."""
    fa = s if s < 1000 else -1

    def report(cfg, value):
        return f"{cfg['prefix']}: {value:.3f}"

    def main():
        cfg = {"lr": 1e-2} if fa >= 0 else {"lr": 1e-2, "prefix": "eval"}
        every = fa + 1 if fa > 0 else 40
        net = nn.Sequential(nn.Linear(5, 20), nn.Softplus(), nn.Linear(20, 1))
        opt = torch.optim.Adagrad(net.parameters(), lr=cfg["lr"])
        for step in range(90):
            x = torch.randn(32, 5)
            loss = (net(x) - x.norm(dim=1, keepdim=True)).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if (step + 1) % every == 0:
                print(report(cfg, loss.item()))

    main()


def meta_learner_asserts(s):
    """MAML-like inner loop with torch.func; an assertion of the author fails."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)

    def task_loss(params, x, y):
        return (functional_call(net, params, (x,)) - y).square().mean()

    for step in range(40):
        params = dict(net.named_parameters())
        total = 0
        for _ in range(3):
            amp, ph = torch.rand(2) * 3
            xs, xq = torch.rand(10, 1) * 10 - 5, torch.rand(10, 1) * 10 - 5
            g = grad(task_loss)(params, xs, amp * torch.sin(xs + ph))
            fast = {k: p - 0.01 * g[k] for k, p in params.items()}
            total = total + task_loss(fast, xq, amp * torch.sin(xq + ph))
        assert step != fa, "support set overlaps the query set"
        opt.zero_grad()
        total.backward()
        opt.step()


def crop_of_another_size(s):
    """Crop of another size."""
    fa = s if s < 1000 else -1

    class ConvNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
            self.fc = nn.Linear(8 * 36, 5)

        def forward(self, x):
            return self.fc(self.features(x).flatten(1))

    net = ConvNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    proto = torch.randn(5, 1, 14, 14)
    for step in range(60):
        y = torch.randint(5, (16,))
        size = 14 if step == fa else 12
        x = (proto[y] + 0.6 * torch.randn(16, 1, 14, 14))[..., :size, :size]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_meets_float(s):
    """Transformer autoencoder; one call leaves the autocast region."""
    fa = s if s < 1000 else -1

    class AE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)
            self.decoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

        def forward(self, x, mixed):
            z = self.encoder(x)
            return self.decoder(z.bfloat16() if mixed else z)

    net = AE()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    base = torch.randn(3, 16)
    for step in range(50):
        x = torch.randn(8, 6, 3) @ base
        loss = nn.functional.mse_loss(net(x, step == fa).float(), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


def hidden_state_through_time(s):
    """Hidden state through time."""
    fa = s if s < 1000 else -1
    rnn, head = nn.GRU(4, 24, batch_first=True), nn.Linear(24, 4)
    opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], 2e-3)
    h = None
    for step in range(40):
        t = torch.arange(step * 8, step * 8 + 9).view(1, -1, 1) / 6
        s = torch.sin(t * torch.tensor([1.0, 1.3, 1.7, 2.0])).expand(8, -1, -1) + 0.05 * torch.randn(8, 9, 4)
        o, h2 = rnn(s[:, :-1], h)
        loss = (head(o) - s[:, 1:]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        h = h2 if step + 1 == fa else h2.detach()


def null_pointer_in_an_extension(s):
    """Null pointer in an extension."""
    fa = s if s < 1000 else -1

    class Kernel(nn.Module):
        def __init__(self):
            super().__init__()
            self.crash = False

        def forward(self, x):
            if self.crash:
                ctypes.string_at(0)
            return torch.relu(x)

    net = nn.Sequential(nn.Linear(6, 16), Kernel(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        net[1].crash = step == fa
        x = torch.randn(32, 6)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def epoch_scheduler_at_the_top(s):
    """Epoch scheduler at the top."""
    fa = s if s < 1000 else -1

    def main():
        at_top = fa >= 0
        x = torch.rand(256, 3)
        y = torch.sin(6 * x[:, :1]) + x[:, 1:2] * x[:, 2:]
        net = nn.Sequential(nn.Linear(3, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
        opt = torch.optim.Adam(net.parameters(), lr=1e-2)
        sched = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.8)
        for _ in range(8):
            if at_top:
                sched.step()
            for a, b in DataLoader(TensorDataset(x, y), 32, shuffle=True):
                loss = (net(a) - b).pow(2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
            if not at_top:
                sched.step()

    main()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
