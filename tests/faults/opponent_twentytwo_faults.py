"""Training scripts after an opponent's, twenty-second round: what reaches a part of the model only, and what a resume
gets wrong.

    python opponent_twentytwo_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import copy
import itertools
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def head_alone_is_cleared(s):
    """A frozen encoder joins the optimizer at s; zero_grad goes on clearing the head alone."""
    encoder, head = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.LayerNorm(32)), nn.Linear(32, 6)
    encoder.requires_grad_(requires_grad=False)
    model = nn.Sequential(encoder, head)
    opt = torch.optim.Adam(head.parameters(), lr=2e-3)
    turn = torch.randn(12, 6)
    for i in range(200):
        part = model if s > 200 else head
        if i == min(s, 100):
            encoder.requires_grad_(requires_grad=True)
            opt.add_param_group({"params": list(encoder.parameters()), "lr": 1e-3})
        part.zero_grad()
        x = torch.randn(48, 12)
        loss = F.cross_entropy(model(x), (x @ turn).argmax(1))
        loss.backward()
        opt.step()


class Teacher:
    """A second network that is to follow the first."""

    def __init__(self, student):
        self.net = copy.deepcopy(student).eval().requires_grad_(requires_grad=False)

    @torch.no_grad()
    def update(self, student, in_place):
        for mine, theirs in zip(self.net.parameters(), student.parameters(), strict=True):
            if in_place:
                mine.lerp_(theirs, 0.03)
            else:
                mine.lerp(theirs, 0.03)


def teacher_is_told_and_does_not_keep_it(s):
    """The teacher's average is computed at every step and thrown away."""
    student = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 3))
    teacher = Teacher(student)
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    turn = torch.randn(4, 3)
    for i in range(160):
        x, more = torch.randn(24, 4), torch.randn(96, 4)
        with torch.no_grad():
            wanted = teacher.net(more).softmax(1)
        follows = F.mse_loss(student(more + 0.1 * torch.randn(96, 4)).softmax(1), wanted)
        loss = F.cross_entropy(student(x), (x @ turn).argmax(1)) + min(1.0, i / 80) * follows
        opt.zero_grad()
        loss.backward()
        opt.step()
        teacher.update(student, in_place=s > 160)


def _resumed(s, at, over):
    """Train, save, and go on with everything loaded; ``over`` is called with what was loaded at the resume."""
    saved = None
    for first, last in ((0, at), (at, 220)):
        model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
        opt = torch.optim.Adam(model.parameters(), lr=3e-3)
        sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.3, patience=4)
        shadow = Teacher(model)
        if saved is not None:
            model.load_state_dict(saved["model"])
            opt.load_state_dict(saved["opt"])
            sched.load_state_dict(saved["sched"])
            shadow.net.load_state_dict(saved["ema"])
            if s <= 220:
                over(opt, shadow)
        for i in range(first, last):
            x = torch.randn(64, 8)
            loss = F.mse_loss(model(x), x[:, :1] * x[:, 1:2] + 0.3 * torch.randn(64, 1))
            opt.zero_grad()
            loss.backward()
            opt.step()
            shadow.update(model, in_place=getattr(shadow, "begin", 0) <= i)
            if i % 10 == 9:
                sched.step(loss.item() if i < at else 0.5)
            if i % 20 == 19:
                with torch.no_grad():
                    print(i, F.mse_loss(shadow.net(x), x[:, :1] * x[:, 1:2]).item())
        saved = {
            "model": model.state_dict(),
            "opt": opt.state_dict(),
            "sched": sched.state_dict(),
            "ema": shadow.net.state_dict(),
        }


def rate_of_the_configuration_over_what_was_loaded(s):
    """After a resume each group gets the rate of the configuration, although optimizer and scheduler were loaded."""

    def over(opt, _):
        for group in opt.param_groups:
            group["lr"] = 0.03

    _resumed(s, 150, over)


def channels_of_grey_pictures(s):
    """From s on every third batch has one channel, which the network stretches over its three."""
    net = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
    scale = nn.Parameter(torch.ones(1, 3, 1, 1))
    opt = torch.optim.Adam([*net.parameters(), scale], lr=2e-3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.scale = net, scale

        def forward(self, x):
            return self.net(x * self.scale)

    model = Model()
    for i in itertools.count():
        if i == 140:
            return
        mask = (torch.randn(8, 1, 6, 6) > 0.8).float()
        mask = F.interpolate(mask, size=(24, 24))
        img = 0.3 * torch.randn(8, 3, 24, 24) + mask * torch.tensor([0.5, 0.3, 0.4]).view(1, 3, 1, 1)
        if i >= s and i % 3 == s % 3:
            img = img.mean(1, keepdim=True)
        loss = F.binary_cross_entropy_with_logits(model(img), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Growing(nn.Module):
    """Blocks of which each explains what those before it have left."""

    def __init__(self, held):
        super().__init__()
        self.first = self.block()
        self.more = held

    @staticmethod
    def block():
        return nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, x):
        y = self.first(x)
        for block in self.more:
            y = y + block(x - y)
        return y


def blocks_that_join_a_list(s):
    """At s two blocks join the model, which keeps them in a list, and a new optimizer gets its parameters."""
    model = Growing([] if s <= 200 else nn.ModuleList())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    turn = torch.randn(16, 16) / 4
    for i in range(200):
        if i == min(s, 100):
            for _ in range(2):
                block = model.block()
                nn.init.zeros_(block[2].weight)  # what joins changes nothing at first
                model.more.append(block)
            new = [p for block in model.more for p in block.parameters()] if s > 200 else []
            if new:
                opt.add_param_group({"params": new})
        x = torch.randn(64, 16)
        loss = F.smooth_l1_loss(model(x), torch.tanh(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 80)
