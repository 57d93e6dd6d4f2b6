"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def two_time_scale_gan():
    """A Wasserstein GAN with clipped critic: five critic steps for one of the generator."""
    real = lambda n: torch.randn(n, 2) * 0.3 + torch.randint(2, (n, 1)) * 2  # noqa: E731
    gen, critic = mlp(4, 32, 2), mlp(2, 32, 1, lambda: nn.LeakyReLU(0.2))
    opt_g, opt_c = optim.RMSprop(gen.parameters(), 5e-4), optim.RMSprop(critic.parameters(), 5e-4)
    for step in range(150):
        fake = gen(torch.randn(32, 4))
        if step % 6 == 5:
            learn(opt_g, -critic(fake).mean())
            continue
        learn(opt_c, critic(fake.detach()).mean() - critic(real(32)).mean())
        with torch.no_grad():
            for p in critic.parameters():
                p.clamp_(-0.05, 0.05)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    two_time_scale_gan()
