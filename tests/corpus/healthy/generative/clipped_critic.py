"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def clipped_critic():
    """A Wasserstein critic whose weights are cut to a hundredth after every step."""
    gen, critic = plain(4, 32, 2), plain(2, 32, 1)
    opt_g, opt_c = optim.RMSprop(gen.parameters(), lr=5e-4), optim.RMSprop(critic.parameters(), lr=5e-4)
    for step in range(120):
        real = torch.randn(32, 2) * 0.3 + 2
        opt_c.zero_grad()
        (critic(gen(torch.randn(32, 4)).detach()).mean() - critic(real).mean()).backward()
        opt_c.step()
        with torch.no_grad():
            for p in critic.parameters():
                p.clamp_(-0.05, 0.05)
        if step % 5 == 4:
            opt_g.zero_grad()
            (-critic(gen(torch.randn(32, 4))).mean()).backward()
            opt_g.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    clipped_critic()
