"""A training with the fault lr-jump-on-resume; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    resumes_at_the_first_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
