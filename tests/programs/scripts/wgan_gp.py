"""A Wasserstein GAN with gradient penalty on points of a ring: five critic steps for each generator step."""

import torch
from torch import autograd, nn, optim

torch.manual_seed(0)
batch_size, latent, n_critic, lambda_gp = 64, 8, 5, 10


def real_points(n):
    angle = 2 * torch.pi * torch.randint(0, 8, (n,)) / 8
    return torch.stack((angle.cos(), angle.sin()), 1) + 0.05 * torch.randn(n, 2)


generator = nn.Sequential(nn.Linear(latent, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
optimizer_g = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
optimizer_d = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))


def compute_gradient_penalty(real, fake):
    alpha = torch.rand(real.size(0), 1)
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(interpolates)
    gradients = autograd.grad(scores, interpolates, torch.ones_like(scores), create_graph=True, retain_graph=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


for iteration in range(150):
    real = real_points(batch_size)
    optimizer_d.zero_grad()
    fake = generator(torch.randn(batch_size, latent)).detach()
    d_loss = -critic(real).mean() + critic(fake).mean() + lambda_gp * compute_gradient_penalty(real, fake)
    d_loss.backward()
    optimizer_d.step()
    if iteration % n_critic == 0:
        optimizer_g.zero_grad()
        g_loss = -critic(generator(torch.randn(batch_size, latent))).mean()
        g_loss.backward()
        optimizer_g.step()
        print(f"[{iteration}] [D loss: {d_loss.item()!r}] [G loss: {g_loss.item()!r}]")
