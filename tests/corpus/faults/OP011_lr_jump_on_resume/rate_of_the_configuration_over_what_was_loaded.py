"""A training with the fault lr-jump-on-resume; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_of_the_configuration_over_what_was_loaded(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
