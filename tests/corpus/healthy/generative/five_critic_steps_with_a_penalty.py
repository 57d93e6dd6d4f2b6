"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def five_critic_steps_with_a_penalty():
    """Five critic steps with a penalty."""
    generator = nn.Sequential(nn.Linear(8, 48), nn.LeakyReLU(0.2), nn.Linear(48, 2))
    critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    og = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    od = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for _it in range(30):
        for _ in range(5):
            a = torch.rand(64) * 6.283
            real = torch.stack([a.cos(), a.sin()], 1) + 0.05 * torch.randn(64, 2)
            fake = generator(torch.randn(64, 8)).detach()
            mix = torch.rand(64, 1)
            mid = (mix * real + (1 - mix) * fake).requires_grad_()
            (g,) = torch.autograd.grad(critic(mid).sum(), mid, create_graph=True)
            loss_d = critic(fake).mean() - critic(real).mean() + 10 * (g.norm(dim=1) - 1).square().mean()
            od.zero_grad()
            loss_d.backward()
            od.step()
        loss_g = -critic(generator(torch.randn(64, 8))).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    five_critic_steps_with_a_penalty()
