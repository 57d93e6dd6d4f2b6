"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def soft_actor_critic():
    actor, c1, c2 = net(4, 64, 4), net(6, 64, 1), net(6, 64, 1)
    t1, t2 = copy.deepcopy(c1), copy.deepcopy(c2)
    log_alpha = torch.zeros(1, requires_grad=True)
    oa, oc = torch.optim.Adam(actor.parameters(), 3e-4), torch.optim.Adam([*c1.parameters(), *c2.parameters()], 3e-4)
    oe = torch.optim.Adam([log_alpha], 3e-4)

    def act(s):
        mean, log_std = actor(s).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = normal.rsample()
        squashed = raw.tanh()
        return squashed, (normal.log_prob(raw) - torch.log(1 - squashed**2 + 1e-6)).sum(1, keepdim=True)

    for _ in range(100):
        s, s2 = torch.randn(64, 4), torch.randn(64, 4)
        a = torch.rand(64, 2) * 2 - 1
        r = -(s[:, :2] - a).pow(2).sum(1, keepdim=True)
        with torch.no_grad():
            a2, logp2 = act(s2)
            both = torch.cat([s2, a2], 1)
            goal = r + 0.99 * (torch.min(t1(both), t2(both)) - log_alpha.exp() * logp2)
        both = torch.cat([s, a], 1)
        step(oc, F.mse_loss(c1(both), goal) + F.mse_loss(c2(both), goal))
        mine, logp = act(s)
        both = torch.cat([s, mine], 1)
        step(oa, (log_alpha.exp().detach() * logp - torch.min(c1(both), c2(both))).mean())
        step(oe, -(log_alpha * (logp.detach() - 2)).mean())
        with torch.no_grad():
            for slow, fast in ((t1, c1), (t2, c2)):
                for p, q in zip(slow.parameters(), fast.parameters(), strict=True):
                    p.mul_(0.995).add_(0.005 * q)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    soft_actor_critic()
