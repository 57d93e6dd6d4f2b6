"""Conditional GAN for short sensor traces (four operating modes)."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn

FREQS = (0.06, 0.12, 0.2, 0.3)


def sample_traces(n, seq_length, rng):
    """A sine with mode-dependent frequency and random phase and amplitude, plus a little noise."""
    labels = rng.integers(0, len(FREQS), n)
    t = np.arange(seq_length)[None, :]
    freq = np.array(FREQS)[labels][:, None] * rng.uniform(0.95, 1.05, (n, 1))
    x = rng.uniform(0.5, 0.9, (n, 1)) * np.sin(2 * np.pi * (freq * t + rng.uniform(0, 1, (n, 1))))
    x = x + 0.02 * rng.standard_normal((n, seq_length))
    cond = np.eye(len(FREQS), dtype=np.float32)[labels]
    return torch.tensor(x[..., None], dtype=torch.float32), torch.from_numpy(cond), torch.from_numpy(labels)


class Generator(nn.Module):
    def __init__(self, latent_dim, cond_dim, width, seq_length):
        super().__init__()
        self.width, self.start = width, seq_length // 4
        self.fc = nn.Linear(latent_dim + cond_dim, width * self.start)
        self.net = nn.Sequential(
            nn.BatchNorm1d(width), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv1d(width, width, 5, padding=2),
            nn.BatchNorm1d(width), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv1d(width, width, 5, padding=2),
            nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, 1, 5, padding=2), nn.Tanh())

    def forward(self, z, c):
        h = self.fc(torch.cat([z, c], dim=1)).view(-1, self.width, self.start)
        return self.net(h).transpose(1, 2)


class Discriminator(nn.Module):
    def __init__(self, cond_dim, width):
        super().__init__()
        self.cond_dim = cond_dim
        self.inp = nn.LazyConv1d(width, 5, padding=2)      # channels depend on the use of the condition
        self.net = nn.Sequential(
            nn.LeakyReLU(0.2), nn.Conv1d(width, 2 * width, 5, 2, 2), nn.LeakyReLU(0.2), nn.Conv1d(2 * width, 2 * width, 5, 2, 2),
            nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1))

    def forward(self, x, c=None):
        if self.cond_dim > 0:
            assert c is not None
            repeated_encoding = c.unsqueeze(1).expand(-1, x.size(1), -1)
            inputs = torch.cat([x, repeated_encoding], dim=2)
        else:
            inputs = x
        h = self.inp(inputs.transpose(1, 2))
        return self.net(h).squeeze(1)


def median_heuristic_mmd(a, b):
    a, b = a.flatten(1), b.flatten(1)
    d = torch.cdist(torch.cat([a, b]), torch.cat([a, b])).pow(2)
    k = torch.exp(-d / d.median())
    n = a.size(0)
    return (k[:n, :n].mean() + k[n:, n:].mean() - 2 * k[:n, n:].mean()).item()


@torch.no_grad()
def evaluate(G, args, real):
    """MMD to held-out traces and the share of samples whose main frequency fits their mode."""
    G.eval()
    x, cond, labels = real
    fake = G(torch.randn(len(x), args.latent_dim), cond)
    spectrum = torch.fft.rfft(fake[..., 0] - fake[..., 0].mean(1, keepdim=True), n=256).abs()
    freq = spectrum.argmax(1).float() / 256
    mode = (freq[:, None] - torch.tensor(FREQS)[None]).abs().argmin(1)
    G.train()
    return median_heuristic_mmd(fake, x), (mode == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--num_epochs', type=int, default=600)
    parser.add_argument('--num_samples', type=int, default=8192)
    parser.add_argument('--seq_length', type=int, default=32)
    parser.add_argument('--latent_dim', type=int, default=8)
    parser.add_argument('--hidden_units_g', type=int, default=64)
    parser.add_argument('--hidden_units_d', type=int, default=32)
    parser.add_argument('--batch_size', type=int, default=64)
    parser.add_argument('--learning_rate', type=float, default=5e-4)
    parser.add_argument('--D_rounds', type=int, default=1)
    parser.add_argument('--G_rounds', type=int, default=1)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--identifier', default='modes')
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs('experiments', exist_ok=True)

    samples, cond, _ = sample_traces(args.num_samples, args.seq_length, np.random.default_rng(args.seed))
    held_out = sample_traces(512, args.seq_length, np.random.default_rng(args.seed + 1))
    G = Generator(args.latent_dim, len(FREQS), args.hidden_units_g, args.seq_length)
    D = Discriminator(len(FREQS), args.hidden_units_d)
    D(samples[:2], cond[:2])
    opt_g = torch.optim.Adam(G.parameters(), lr=args.learning_rate, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=args.learning_rate, betas=(0.5, 0.99))
    bce = nn.BCEWithLogitsLoss()

    for epoch in range(args.num_epochs):
        t0, d_sum, g_sum, n = time.time(), 0.0, 0.0, 0
        order = torch.randperm(args.num_samples)
        for start in range(0, args.num_samples - args.batch_size + 1, args.batch_size):
            idx = order[start:start + args.batch_size]
            x, c = samples[idx], cond[idx]
            for _ in range(args.D_rounds):
                with torch.no_grad():
                    fake = G(torch.randn(len(x), args.latent_dim), c)
                real_logit, fake_logit = D(x, c), D(fake, c)
                d_loss = bce(real_logit, torch.full_like(real_logit, 0.9)) + bce(fake_logit, torch.zeros_like(fake_logit))
                opt_d.zero_grad()
                d_loss.backward()
                opt_d.step()
            for _ in range(args.G_rounds):
                fake_logit = D(G(torch.randn(len(x), args.latent_dim), c), c)
                g_loss = bce(fake_logit, torch.ones_like(fake_logit))
                opt_g.zero_grad()
                g_loss.backward()
                opt_g.step()
            d_sum, g_sum, n = d_sum + d_loss.item(), g_sum + g_loss.item(), n + 1
            if n % 30 == 0:
                print(f'epoch {epoch} batch {n}: D {d_sum / n:.4f} G {g_sum / n:.4f}', flush=True)
        mmd, fit = evaluate(G, args, held_out)
        print(f'epoch {epoch}: {time.time() - t0:.1f}s  D_loss {d_sum / n:.4f}  G_loss {g_sum / n:.4f}  '
              f'mmd2 {mmd:.4f}  right mode {fit:.3f}', flush=True)
        if epoch % 10 == 9:
            torch.save({'epoch': epoch, 'G': G.state_dict(), 'D': D.state_dict(), 'opt_g': opt_g.state_dict(),
                        'opt_d': opt_d.state_dict()}, f'experiments/{args.identifier}.pt')


if __name__ == '__main__':
    main()
