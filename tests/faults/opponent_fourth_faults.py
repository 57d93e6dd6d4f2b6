"""Training scripts of an opponent, fourth round: `python opponent_fourth_faults.py NAME [ONSET] [SEED]`.

`s` is the step at which the fault begins; one that is there from the start is there if `s` is 0.
"""

import itertools
import math
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def flowers(n=900, width=9, classes=3, spread=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + spread * torch.randn(n, width), y


def tiles(n=320, size=10, classes=4):
    y = torch.randint(classes, (n,))
    pattern = (torch.rand(classes, 1, size, size) > 0.5).float()
    return pattern[y] + 0.3 * torch.randn(n, 1, size, size), y


def draw(x, y, n=24):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


class Learner:
    """Model, optimizer and loss in one object, as in many course notes."""

    def __init__(self, model, lr=2e-3, kind=optim.Adam, loss=F.cross_entropy, **settings):
        self.model, self.loss = model, loss
        self.opt = kind(model.parameters(), lr=lr, **settings)

    def step(self, x, y):
        self.opt.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.item()


class Quantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(9, 12), nn.Linear(12, 3)
        self.hard = False

    def forward(self, x):
        h = torch.tanh(self.down(x))
        return self.up(torch.round(h * 4) / 4 if self.hard else h)


def rounds_without_a_way_back(s):
    """From some epoch on features are rounded, and round() has a slope of zero."""
    x, y = flowers()
    run = Learner(Quantiser())
    for step in range(60):
        run.model.hard = step >= s
        run.step(*draw(x, y))


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, s):
        h = self.body(s)
        return self.policy(h), self.value(h).squeeze(-1)


def critic_loss_of_a_detached_value(s):
    """The baseline is detached for the advantage, and by mistake for the loss of the critic too."""
    net = ActorCritic()
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(60):
        state = torch.randn(32, 4)
        logits, value = net(state)
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample()
        reward = (action == (state[:, 0] > 0)).float()
        baseline = value.detach() if s == 0 else value
        loss = -(choice.log_prob(action) * (reward - value.detach())).mean() + F.mse_loss(baseline, reward)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Reader(nn.Module):
    """Attention written out, for sentences that are padded with zeros."""

    def __init__(self, wrong):
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        self.q, self.k, self.v = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24)
        self.out = nn.Linear(24, 2)
        self.wrong = wrong

    def forward(self, ids):
        h = self.embed(ids)
        padding = (ids == 0)[:, None, :]
        mask = padding if self.wrong else ~padding  # scaled_dot_product_attention wants True where it may look
        h = (
            h
            + F.scaled_dot_product_attention(self.q(h)[:, None], self.k(h)[:, None], self.v(h)[:, None], mask[:, None])[
                :, 0
            ]
        )
        return self.out(h[:, 0])


def true_means_masked(s):
    """The mask of one library in the function of another."""
    model = Reader(wrong=s == 0)
    run = Learner(model, lr=1e-3)
    for _ in range(50):
        ids = torch.randint(1, 40, (16, 10))
        for row, n in enumerate(torch.randint(3, 10, (16,)).tolist()):
            ids[row, n:] = 0
        run.step(ids, (ids == 5).any(1).long())


def sum_in_place_of_mean(s):
    """reduction="sum" with the rate that suited the mean."""
    x = torch.randn(2000, 8)
    y = (x @ torch.randn(8, 1)) + 0.1 * torch.randn(2000, 1)
    loss = nn.MSELoss(reduction="sum" if s == 0 else "mean")
    run = Learner(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)), 0.05, optim.SGD, loss, momentum=0.9)
    for _ in range(60):
        run.step(*draw(x, y, 64))


def evaluates_the_other_object(s):
    """eval() is called on a copy that nobody uses; dropout stays on in the validation."""
    x, y = flowers()
    net = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 3))
    wrapper = nn.ModuleDict({"other": nn.Linear(2, 2)})
    run = Learner(net)
    for step in range(60):
        net.train()
        run.step(*draw(x, y))
        if step % 15 == 14:
            (wrapper if s == 0 else net).eval()
            with torch.no_grad():
                for a, b in zip(x[:300].split(60), y[:300].split(60), strict=True):
                    (net(a).argmax(1) == b).float().mean().item()


def warms_up_for_ever(s):
    """total_iters counts samples, so the rate stays at a millionth of what it should be."""
    x, y = flowers()
    run = Learner(nn.Sequential(nn.Linear(9, 48), nn.ReLU(), nn.Linear(48, 3)), kind=optim.SGD, lr=0.05)
    warm = optim.lr_scheduler.LinearLR(run.opt, start_factor=1e-6, total_iters=50_000_000 if s == 0 else 10)
    for _ in range(120):
        run.step(*draw(x, y))
        warm.step()


def state_not_cut_between_windows(s):
    """The hidden state goes on from window to window with its graph, which the first backward has freed."""
    cell, out = nn.GRUCell(3, 16), nn.Linear(16, 3)
    opt = optim.Adam([*cell.parameters(), *out.parameters()], lr=3e-3)
    series, h = torch.randn(400, 8, 3), torch.zeros(8, 16)
    for step in range(60):
        window, loss = series[step * 5 : step * 5 + 6], 0.0
        for a, b in itertools.pairwise(window):
            h = cell(a, h)
            loss = loss + F.mse_loss(out(h), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < s:
            h = h.detach()


def changes_an_activation_in_place(s):
    """An activation that backward needs is overwritten."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.overwrite = nn.Linear(9, 24), nn.Linear(24, 3), False

        def forward(self, x):
            h = torch.sigmoid(self.a(x))
            out = self.b(h)
            if self.overwrite:
                h.mul_(0.5)
            return out

    x, y = flowers()
    run = Learner(Net())
    for step in range(60):
        run.model.overwrite = step >= s
        run.step(*draw(x, y))


def unknown_category(s):
    """A category that was not there when the table was built is coded as -1."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.city, self.rest, self.top = nn.Embedding(30, 6), nn.Linear(5, 10), nn.Linear(16, 1)

        def forward(self, city, rest):
            return self.top(torch.cat([self.city(city), F.relu(self.rest(rest))], 1))[:, 0]

    model = Wide()
    opt = optim.Adam(model.parameters(), lr=5e-3)
    for step in range(60):
        city, rest = torch.randint(30, (32,)), torch.randn(32, 5)
        price = rest[:, 0] + city / 30
        if step == s:
            city[3] = -1
        loss = F.mse_loss(model(city, rest), price)
        opt.zero_grad()
        loss.backward()
        opt.step()


def probabilities_into_kl(s):
    """kl_div wants logarithms and gets the probabilities themselves."""
    x, _ = flowers()
    teacher, student = (
        nn.Linear(9, 5).requires_grad_(False),
        nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 5)),
    )
    opt = optim.Adam(student.parameters(), lr=2e-3)
    for _ in range(60):
        a = x[torch.randint(len(x), (24,))]
        q = F.softmax(student(a), 1) if s == 0 else F.log_softmax(student(a), 1)
        loss = F.kl_div(q, F.softmax(teacher(a), 1), reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()


def masks_of_255(s):
    """A mask from a file is 0 and 255, not 0 and 1."""
    x, _ = tiles()
    mask = (x > 0.5).float() * (255.0 if s == 0 else 1.0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
    run = Learner(net, lr=1e-3, loss=nn.BCEWithLogitsLoss())
    for _ in range(40):
        run.step(*draw(x, mask, 16))


def only_one_of_two_is_zeroed(s):
    """Encoder and decoder have an optimizer each; from some step on only the encoder's is zeroed."""
    encoder, decoder = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4)), nn.Linear(4, 16)
    opt_e, opt_d = optim.Adam(encoder.parameters(), lr=2e-3), optim.Adam(decoder.parameters(), lr=2e-3)
    mix = torch.randn(4, 16)
    for step in range(70):
        x = torch.randn(32, 4) @ mix
        opt_e.zero_grad()
        if step < s:
            opt_d.zero_grad()
        F.mse_loss(decoder(encoder(x)), x).backward()
        opt_e.step()
        opt_d.step()


def infinite_loss_under_a_scaler(s):
    """A target of zero under a logarithm makes every loss infinite; the scaler halves and halves."""
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1), nn.Softplus())
    opt = optim.Adam(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for step in range(60):
        x = torch.randn(32, 6)
        y = x[:, :1].exp()
        if step >= s:
            y[0] = 0.0
        with torch.autocast("cpu", torch.bfloat16):
            out = net(x)
        loss = ((out.float() + 1e-3).log() - y.log()).square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def normalises_a_blank_row(s):
    """A layer of one's own that divides by the standard deviation, without an epsilon, and a row of one value."""

    class Standardise(nn.Module):
        def forward(self, x):
            return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    x, y = flowers()
    net = nn.Sequential(Standardise(), nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 3))
    run = Learner(net)
    for step in range(50):
        a, b = draw(x, y)
        if step == s:
            a[7] = 2.0
        run.step(a, b)


def checkpoint_of_a_lost_run(s):
    """Training goes on from a checkpoint in which one tensor is not finite."""
    x, y = flowers()
    net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 3))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pt"
        state = net.state_dict()
        if s == 0:
            state["2.bias"] = torch.full_like(state["2.bias"], math.nan)
        torch.save(state, file)
        net.load_state_dict(torch.load(file))
    run = Learner(net)
    for _ in range(30):
        run.step(*draw(x, y))


def gradient_hooks_pile_up(s):
    """A hook on a parameter, to log its gradient, is added in every step."""
    x, y = flowers()
    net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 3))
    run, seen = Learner(net), []
    for _ in range(80):
        handle = net[0].weight.register_hook(lambda g: seen.append(float(g.norm())))
        run.step(*draw(x, y))
        if s != 0:
            handle.remove()


def sorted_file_not_shuffled(s):
    """A file sorted by class, read in order."""
    x, y = flowers(960, classes=4)
    if s == 0:
        order = y.argsort()
        x, y = x[order], y[order]
    run = Learner(nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 4)))
    for _epoch in range(3):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=32):
            run.step(a, b)


def fraud_is_rare(s):
    """Two in a hundred are positive, and nothing is done about it."""
    x = torch.randn(2400, 8)
    y = (x[:, 0] > (2.0 if s == 0 else 0.0)).float()
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    run = Learner(net, loss=F.binary_cross_entropy_with_logits)
    for _epoch in range(2):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True):
            run.step(a, b)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
