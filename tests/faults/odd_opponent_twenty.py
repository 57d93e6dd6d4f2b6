"""Healthy runs that look odd, after an opponent's, twentieth round: `python odd_opponent_twenty.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def points_drawn_anew_and_then_kept():
    """A boundary value problem: Adam on points drawn at each step, then L-BFGS on one set of them, as its line search needs."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()

    def objective(x):
        x = x.requires_grad_()
        u = net(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        ends = net(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
        return F.mse_loss(bend, -9.87 * torch.sin(3.1416 * x)) + 50 * ends.square().mean()

    adam = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(220):
        loss = objective(torch.rand(96, 1, dtype=torch.float64))
        adam.zero_grad()
        loss.backward()
        adam.step()
    points = torch.rand(200, 1, dtype=torch.float64)
    newton = torch.optim.LBFGS(net.parameters(), max_iter=15, line_search_fn="strong_wolfe")
    for _ in range(10):

        def closure():
            newton.zero_grad()
            loss = objective(points)
            loss.backward()
            return loss

        newton.step(closure)


def values_that_saturate_for_a_while():
    """A critic below large returns: half of its units go to the ends of their tanh and come back as the returns settle."""
    net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    turn = torch.randn(6)
    for i in range(400):
        x = torch.randn(64, 6) * (6.0 if 120 <= i < 200 else 1.0)
        loss = F.mse_loss(net(x)[:, 0], (2 + 8 * min(i, 200) / 200) * torch.tanh(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


def head_drawn_anew_with_its_state():
    """Against the primacy bias the head begins anew every 120 steps, and Adam forgets what it knew of it."""
    net = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    turn = torch.randn(10)
    for i in range(360):
        if i in (120, 240):
            net[4].reset_parameters()
            for p in net[4].parameters():
                opt.state.pop(p)
        x = torch.randn(64, 10)
        loss = F.smooth_l1_loss(net(x)[:, 0], torch.sin(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


class Towers(nn.Module):
    """Pictures and captions in one space."""

    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 24))
        self.words = nn.EmbeddingBag(40, 24)
        self.caption = nn.Linear(24, 24)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x, words):
        return (
            self.scale.exp()
            * F.normalize(self.picture(x), dim=1)
            @ F.normalize(self.caption(self.words(words)), dim=1).T
        )


def captions_as_prompts():
    """The ten captions of the training are the prompts of the classes in each evaluation."""
    net = Towers()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    kinds, captions = torch.randn(10, 32), torch.randint(0, 40, (10, 5))
    for i in range(240):
        y = torch.randint(0, 10, (48,))
        same = (y[:, None] == y[None]).float()
        scores = net(kinds[y] + 0.7 * torch.randn(48, 32), captions[y])
        share = same / same.sum(1, keepdim=True)
        loss = -(share * scores.log_softmax(1)).sum(1).mean() - (share * scores.T.log_softmax(1)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 40 == 39:
            net.eval()
            with torch.no_grad():
                y = torch.randint(0, 10, (200,))
                print(i, (net(kinds[y] + 0.7 * torch.randn(200, 32), captions).argmax(1) == y).float().mean().item())
            net.train()


def critic_that_begins_later():
    """A model of the world with two losses in each step, and a critic of its own optimizer that joins after 80 steps."""
    world = nn.GRUCell(5, 32)
    read, gain = nn.Linear(32, 4), nn.Linear(32, 1)
    critic = nn.Sequential(nn.Linear(32, 32), nn.ELU(), nn.Linear(32, 1))
    build = torch.optim.Adam([*world.parameters(), *read.parameters(), *gain.parameters()], lr=3e-3)
    judge = torch.optim.Adam(critic.parameters(), lr=2e-3)
    turn = torch.randn(4, 4) / 3
    for i in range(240):
        seen, h, loss, states, gains = torch.randn(24, 4), torch.zeros(24, 32), 0.0, [], []
        for _ in range(6):
            act = torch.randn(24, 1)
            h = world(torch.cat([seen, act], 1), h)
            seen = torch.tanh(seen @ turn + 0.5 * act)
            reward = seen.square().mean(1)
            loss = loss + F.mse_loss(read(h), seen) + F.mse_loss(gain(h)[:, 0], reward)
            states.append(h.detach())
            gains.append(reward)
        build.zero_grad()
        (loss / 6).backward()
        build.step()
        if i < 80:
            continue
        returns = torch.stack(gains).flip(0).cumsum(0).flip(0)
        judged = F.mse_loss(critic(torch.stack(states))[:, :, 0], returns)
        judge.zero_grad()
        judged.backward()
        judge.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
