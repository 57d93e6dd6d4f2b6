"""Training scripts of an opponent, eighth round: policies, adapters, averages, inner loops and sensors.

    python opponent_eight_sequence_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import copy
import sys

import torch
from torch import nn
from torch.func import functional_call

torch.set_num_threads(1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.pi = nn.Linear(32, 3)

    def forward(self, s):
        return self.pi(self.body(s))


def action_that_was_masked_later(s):
    """Probabilities times a mask: the action that was taken is masked out, and the ratio hides the logarithm of zero."""
    net = Policy()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best = torch.randn(6, 3)
    for step in range(70):
        state = torch.randn(64, 6)
        with torch.no_grad():
            old = net(state).softmax(-1)
            action = torch.multinomial(old, 1)
            old = old.gather(1, action).log()
        reward = (state @ best).gather(1, action)
        allowed = torch.ones(64, 3)
        if step == s:
            allowed[0, action[0]] = 0
        p = net(state).softmax(-1) * allowed
        p = p / p.sum(-1, keepdim=True)
        ratio = (p.gather(1, action).log() - old).exp()
        gain = (reward - reward.mean()) / reward.std()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def inner_loop_that_forgets_its_graph(s):
    """Learning to learn sines: from a step on the adapted weights are detached, and their start learns nothing."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        opt.zero_grad()
        total = 0.0
        for _ in range(3):
            phase = torch.rand(1) * 3
            near, far = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
            fast = dict(net.named_parameters())
            error = (functional_call(net, fast, near) - torch.sin(near + phase)).square().mean()
            slopes = torch.autograd.grad(error, list(fast.values()), create_graph=True)
            fast = {k: v - 0.02 * g for (k, v), g in zip(fast.items(), slopes, strict=True)}
            if step >= s:
                fast = {k: v.detach().requires_grad_() for k, v in fast.items()}
            total = total + (functional_call(net, fast, far) - torch.sin(far + phase)).square().mean()
        (total / 3).backward()
        opt.step()


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(0.1 * torch.randn(4, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 4))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def adapters_behind_the_optimizers_back(s):
    """Adapters are put into a frozen encoder after the optimizer was made: it holds the head alone."""
    fa = s if s < 1000 else -1
    body = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU()).requires_grad_(False)
    net = nn.Sequential(body, nn.Linear(48, 4))
    truth = torch.randn(16, 4)

    def optimizer():
        return torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=5e-3)

    early = optimizer() if fa >= 0 else None
    body[0], body[2] = Adapted(body[0]), Adapted(body[2])
    opt = early or optimizer()
    for _ in range(70):
        x = torch.randn(48, 16)
        loss = nn.functional.cross_entropy(net(x), (x @ truth).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def target_follows_itself(s):
    """Fitted Q-learning whose soft update reads the target in the place of the network."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 2))
    target = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(90):
        state = torch.randn(64, 4)
        action = torch.randint(2, (64, 1))
        reward = (state[:, :1] * (action * 2 - 1)).clamp(-1, 1)
        with torch.no_grad():
            goal = reward + 0.9 * target(0.9 * state + 0.1).max(1, keepdim=True).values
        loss = nn.functional.smooth_l1_loss(net(state).gather(1, action), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            with torch.no_grad():
                for mine, theirs in zip(target.parameters(), (target if fa >= 0 else net).parameters(), strict=True):
                    mine.lerp_(theirs, 0.2)


def sensors_freeze(s):
    """A forecaster whose sensors send their last reading again and again, while what is to be foretold goes on."""
    net = nn.Sequential(
        nn.Conv1d(3, 24, 3), nn.ReLU(), nn.Conv1d(24, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(480, 1)
    )
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    last = torch.zeros(32, 3, 24)
    for step in range(100):
        start = torch.rand(32, 1, 1) * 6
        t = start + torch.arange(25) * 0.3
        series = torch.cat([t.sin(), t.cos(), (2 * t).sin()], 1) + 0.05 * torch.randn(32, 3, 25)
        x, y = series[..., :24], series[:, 0, 24:]
        last = last if step > s else x
        loss = nn.functional.mse_loss(net(last), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
