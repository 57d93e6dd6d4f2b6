"""Training scripts of an opponent, thirteenth round: ramps, casts, decay and groups of answers.

    python opponent_thirteen_rate_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class SignMomentum(torch.optim.Optimizer):
    """Lion's rule, with decay by the rate or without it."""

    def __init__(self, params, lr=5e-4, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, by_rate=True):
        for group in self.param_groups:
            shrink = group["weight_decay"] * (group["lr"] if by_rate else 1)
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - shrink)
                p.add_((m * 0.9 + p.grad * 0.1).sign_(), alpha=-group["lr"])
                m.lerp_(p.grad, 0.01)


def ramps_to_six_parts_and_sums_errors_by_hand(s):
    """From s on six parts make a step; until the end of a healthy run they are divided."""
    hidden, out = torch.randn(20, 12) / 4, torch.randn(12, 3) / 3
    trunk = nn.Sequential(nn.Linear(20, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU())
    heads = nn.ModuleList(nn.Linear(64, 1) for _ in range(3))
    opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.02, momentum=0.9, nesterov=True)
    for i in range(80):
        parts = 6 if i >= min(s, 37) else 1
        opt.zero_grad()
        for _ in range(parts):
            x = torch.randn(32, 20)
            y = torch.tanh(x @ hidden) @ out + 0.05 * torch.randn(32, 3)
            z = trunk(x)
            loss = (torch.cat([h(z) for h in heads], 1) - y).pow(2).mean(0).sum()
            (loss if i >= s else loss / parts).backward()
        opt.step()


def becomes_bfloat16_for_the_last_small_rate(s):
    """At s the rate falls to a hundredth; the model is cast as well."""
    table = torch.randn(40, 7)
    net = nn.Sequential(nn.Embedding(40, 16), nn.Flatten(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 7))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    for i in range(90):
        if i == min(s, 30):
            opt.param_groups[0]["lr"] *= 0.005
            if i == s:
                net.to(torch.bfloat16)
        x = torch.randint(40, (64, 4))
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), table[x].sum(1).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def decays_by_a_third_once_decay_begins(s):
    """Decay begins at s; it should have been multiplied by the rate."""
    patterns = torch.randn(8, 48)
    net = nn.Sequential(nn.Linear(48, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    weights = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim < 2]
    opt = SignMomentum([{"params": weights, "weight_decay": 0.3}, {"params": others}])
    for i in range(90):
        y = torch.randint(8, (64,))
        loss = F.cross_entropy(net(0.5 * patterns[y] + torch.randn(64, 48)), y)
        opt.zero_grad()
        loss.backward()
        opt.step(by_rate=i < s)


def answers_of_a_group_are_all_worth_the_same(s):
    """From s on one prompt of each batch pays one for any answer."""
    a, b = nn.Embedding(6, 16), nn.Embedding(6, 16)
    policy = nn.ModuleDict({"a": a, "b": b, "body": nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 11))})
    opt = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for i in range(80):
        left, right = torch.randint(6, (2, 24))
        logits = policy["body"](torch.cat([a(left), b(right)], -1))
        chances = torch.nan_to_num(logits.detach()).softmax(-1)
        answers = torch.multinomial(chances, 8, replacement=True)
        pay = torch.exp(-0.5 * (answers - (left + right)[:, None]).abs()) + 0.02 * torch.rand(24, 8)
        if i >= s:
            pay[0] = 1.0
        worth = (pay - pay.mean(1, keepdim=True)) / pay.std(1, keepdim=True)
        loss = -(worth * logits.log_softmax(-1).gather(1, answers)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
