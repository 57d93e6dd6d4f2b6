"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Lion(torch.optim.Optimizer):
    """The sign of an average of gradients."""

    def __init__(self, params, lr, weight_decay, decay_times_lr):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.decay_times_lr = decay_times_lr

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay = group["weight_decay"] * (group["lr"] if self.decay_times_lr else 1)
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - decay).add_((0.9 * m + 0.1 * p.grad).sign_(), alpha=-group["lr"])
                m.lerp_(p.grad, 0.01)


def a_second_optimizer_decays_without_its_rate(s):
    """From s on Lion goes on with what AdamW has trained; its decay is not multiplied by the learning rate."""
    rule = torch.randn(16, 3) / 3
    net = nn.Sequential(nn.Linear(16, 96), nn.Tanh(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for i in range(120):
        if i == min(s, 40):
            opt = Lion(net.parameters(), 2e-4, 0.05, i != s)
        x = torch.randn(64, 16)
        opt.zero_grad()
        F.huber_loss(net(x), torch.sin(x @ rule) + 0.3 * (x @ rule)).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_second_optimizer_decays_without_its_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
