"""Latent skill model: an LSTM encoder maps an action sequence to a latent skill z, an
autoregressive LSTM decoder rolls the sequence out again from z and a trainable start symbol."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch_size", type=int, default=64)
    p.add_argument("--n_rollout_steps", type=int, default=12)
    p.add_argument("--nz_vae", type=int, default=10)
    p.add_argument("--nz_mid", type=int, default=96)
    p.add_argument("--kl_div_weight", type=float, default=2e-3)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--train_size", type=int, default=6400)
    p.add_argument("--val_size", type=int, default=640)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


class AttrDict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def make_skills(n, length, rng, action_dim=6):
    """Action sequences of a point arm: reach, swing or push, each with its own speed and direction."""
    out = np.zeros((n, length, action_dim), dtype=np.float32)
    t = np.linspace(0, 1, length)
    kinds = rng.integers(0, 3, n)
    for i in range(n):
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        speed = rng.uniform(0.5, 1.5)
        if kinds[i] == 0:        # reach: bell shaped speed
            prof = np.sin(np.pi * t) * speed
            rot = np.zeros((length, 3))
        elif kinds[i] == 1:      # swing: there and back
            prof = np.sin(2 * np.pi * t) * speed
            rot = 0.4 * np.cos(2 * np.pi * t)[:, None] * direction[[1, 2, 0]]
        else:                    # push: ramp
            prof = t * speed
            rot = 0.3 * (1 - t)[:, None] * direction[[2, 0, 1]]
        # the arm starts every skill from the same rest pose with the same jerk
        start = np.exp(-6 * t)[:, None] * np.array([0.9, -0.6, 0.4, 0.2, -0.8, 0.5])
        out[i] = np.concatenate([prof[:, None] * direction, rot], axis=1) + start
    return out + rng.normal(0, 0.02, out.shape).astype(np.float32)


class FixedTrainableInitializer(nn.Module):
    """Start value that is the same for all sequences and learned."""

    def __init__(self, hp, size):
        super().__init__()
        self._hp = hp
        self.val = torch.zeros((1, size), requires_grad=True, device=self._hp.device)

    def forward(self, batch):
        return self.val.repeat(batch, 1)


class Encoder(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.lstm = nn.LSTM(hp.action_dim, hp.nz_mid, batch_first=True)
        self.head = nn.Linear(hp.nz_mid, 2 * hp.nz_vae)

    def forward(self, actions):
        h = self.lstm(actions)[0][:, -1]
        mu, log_sigma = self.head(h).chunk(2, dim=-1)
        return mu, log_sigma.clamp(-6, 3)


class Decoder(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self._hp = hp
        self.input_initializer = FixedTrainableInitializer(hp, hp.action_dim)
        self.hidden_initializer = nn.Linear(hp.nz_vae, 2 * hp.nz_mid)
        self.cell = nn.LSTMCell(hp.action_dim + hp.nz_vae, hp.nz_mid)
        self.out = nn.Sequential(nn.Linear(hp.nz_mid, hp.nz_mid), nn.LeakyReLU(0.2), nn.Linear(hp.nz_mid, hp.action_dim))

    def forward(self, z, steps):
        h, c = torch.tanh(self.hidden_initializer(z)).chunk(2, dim=-1)
        x = self.input_initializer(z.shape[0])
        outs = []
        for _ in range(steps):
            h, c = self.cell(torch.cat([x, z], dim=-1), (h, c))
            x = self.out(h)
            outs.append(x)
        return torch.stack(outs, dim=1)


class SkillModel(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self._hp = hp
        self.q = Encoder(hp)
        self.decoder = Decoder(hp)

    def forward(self, actions):
        mu, log_sigma = self.q(actions)
        z = mu + log_sigma.exp() * torch.randn_like(mu) if self.training else mu
        return AttrDict(mu=mu, log_sigma=log_sigma, rec=self.decoder(z, actions.shape[1]))

    def loss(self, out, actions):
        rec = F.mse_loss(out.rec, actions)
        kl = 0.5 * (out.mu.pow(2) + (2 * out.log_sigma).exp() - 2 * out.log_sigma - 1).sum(-1).mean()
        return AttrDict(rec=rec, kl=kl, total=rec + self._hp.kl_div_weight * kl)


def validate(model, loader):
    model.eval()
    rec, n = 0.0, 0
    with torch.no_grad():
        for (a,) in loader:
            rec += model.loss(model(a), a).rec.item() * len(a)
            n += len(a)
    model.train()
    return rec / n


def main():
    args = get_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    hp = AttrDict(vars(args), action_dim=6, device="cpu")

    train = torch.from_numpy(make_skills(args.train_size, args.n_rollout_steps, rng))
    val = torch.from_numpy(make_skills(args.val_size, args.n_rollout_steps, rng))
    train_loader = DataLoader(TensorDataset(train), args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(TensorDataset(val), 128)

    model = SkillModel(hp)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader), eta_min=1e-4)
    t0 = time.time()
    for epoch in range(args.epochs):
        model.train()
        tot = AttrDict(rec=0.0, kl=0.0)
        for (actions,) in train_loader:
            out = model(actions)
            losses = model.loss(out, actions)
            optimizer.zero_grad()
            losses.total.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            tot.rec += losses.rec.item()
            tot.kl += losses.kl.item()
        k = len(train_loader)
        print(f"epoch {epoch}: train rec {tot.rec / k:.4f} kl {tot.kl / k:.2f} | val rec {validate(model, val_loader):.4f}"
              f" | start value norm {model.decoder.input_initializer.val.norm().item():.4f} | {time.time() - t0:.0f}s")


if __name__ == "__main__":
    main()
