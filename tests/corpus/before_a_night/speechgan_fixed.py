"""Speech enhancement GAN on raw waveforms. Run it again to go on from the last epoch."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SR = 16000


def synth_speech(n, rng):
    """Voiced segments with formant-like envelopes, unvoiced bursts and pauses."""
    t = np.arange(n) / SR
    f0 = rng.uniform(90, 230) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(1, 4) * t + rng.uniform(0, 6)))
    phase = 2 * np.pi * np.cumsum(f0) / SR
    formants = [(rng.uniform(300, 800), 120), (rng.uniform(900, 2200), 200), (rng.uniform(2300, 3200), 300)]
    voiced = np.zeros(n)
    for h in range(1, 25):
        f = h * f0.mean()
        gain = sum(np.exp(-0.5 * ((f - c) / w) ** 2) for c, w in formants) + 0.02
        voiced += gain * np.sin(h * phase + rng.uniform(0, 6.28))
    envelope = np.clip(np.sin(2 * np.pi * rng.uniform(2, 5) * t + rng.uniform(0, 6)) + 0.3, 0, None)
    signal = voiced * envelope + 0.1 * rng.normal(size=n) * (envelope < 0.05)
    return 0.5 * signal / (np.abs(signal).max() + 1e-3)


def add_noise(clean, rng):
    n = len(clean)
    if rng.random() < 0.5:
        noise = rng.normal(size=n)
    else:
        noise = np.convolve(rng.normal(size=n + 31), np.ones(32) / 6, mode="valid")
    snr = 10 ** (rng.choice([0, 5, 10, 15]) / 20)
    noise *= np.sqrt((clean ** 2).mean() + 1e-6) / np.sqrt((noise ** 2).mean()) / snr
    return np.clip(clean + noise, -1, 1)


class PairDataset(Dataset):
    def __init__(self, n, window, seed):
        self.n, self.window, self.seed = n, window, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng([self.seed, i])
        clean = synth_speech(self.window, rng)
        noisy = add_noise(clean, rng)
        return torch.tensor(clean, dtype=torch.float32)[None], torch.tensor(noisy, dtype=torch.float32)[None]


class Generator(nn.Module):
    def __init__(self, channels=(16, 16, 32, 32, 32)):
        super().__init__()
        ins = (1,) + channels[:-1]
        self.enc = nn.ModuleList([nn.Conv1d(i, o, 32, 2, 15) for i, o in zip(ins, channels)])
        self.enc_act = nn.ModuleList([nn.PReLU() for _ in channels])
        outs = (1,) + channels[:-1]
        self.dec = nn.ModuleList([nn.ConvTranspose1d(2 * i, o, 32, 2, 15) for i, o in zip(channels[::-1], outs[::-1])])
        self.dec_act = nn.ModuleList([nn.PReLU() for _ in channels[:-1]])

    def forward(self, noisy):
        x, skips = noisy, []
        for conv, act in zip(self.enc, self.enc_act):
            x = act(conv(x))
            skips.append(x)
        x = torch.cat([x, torch.randn_like(x)], 1)
        for i, deconv in enumerate(self.dec):
            x = deconv(x)
            if i < len(self.dec) - 1:
                x = torch.cat([self.dec_act[i](x), skips[-2 - i]], 1)
        return torch.tanh(x)


class Discriminator(nn.Module):
    def __init__(self, window, channels=(16, 16, 32, 32, 32)):
        super().__init__()
        layers, c = [], 2
        for o in channels:
            layers += [nn.Conv1d(c, o, 31, 2, 15), nn.GroupNorm(4, o), nn.LeakyReLU(0.03)]
            c = o
        self.conv = nn.Sequential(*layers, nn.Conv1d(c, 1, 1))
        self.fc = nn.Linear(window // 2 ** len(channels), 1)

    def forward(self, signal, noisy):
        return self.fc(self.conv(torch.cat([signal, noisy], 1)).squeeze(1)).squeeze(1)


def save_checkpoint(path, epoch, generator, discriminator, g_optimizer, d_optimizer):
    state = {
        "epoch": epoch,
        "generator": generator.state_dict(),
        "discriminator": discriminator.state_dict(),
        "g_optimizer": g_optimizer.state_dict(),
        "d_optimizer": d_optimizer.state_dict(),
    }
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def load_checkpoint(path, generator, discriminator, g_optimizer, d_optimizer):
    state = torch.load(path, map_location="cpu")
    generator.load_state_dict(state["generator"])
    discriminator.load_state_dict(state["discriminator"])
    g_optimizer.load_state_dict(state["g_optimizer"])
    d_optimizer.load_state_dict(state["d_optimizer"])
    return state["epoch"]


@torch.no_grad()
def segmental_snr(generator, loader):
    generator.eval()
    before, after = [], []
    for clean, noisy in loader:
        out = generator(noisy)
        power = clean.pow(2).sum((1, 2))
        before.append(10 * torch.log10(power / (noisy - clean).pow(2).sum((1, 2)).clamp(min=1e-8)))
        after.append(10 * torch.log10(power / (out - clean).pow(2).sum((1, 2)).clamp(min=1e-8)))
    generator.train()
    return torch.cat(before).mean().item(), torch.cat(after).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=500)
    ap.add_argument("--batch_size", type=int, default=8)
    ap.add_argument("--window", type=int, default=2048)
    ap.add_argument("--n_train", type=int, default=480)
    ap.add_argument("--g_lr", type=float, default=1e-3)
    ap.add_argument("--d_lr", type=float, default=2e-4)
    ap.add_argument("--l1_weight", type=float, default=100.0)
    ap.add_argument("--checkpoint", type=str, default="segan_last.pt")
    ap.add_argument("--seed", type=int, default=20)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    shuffle = torch.Generator()
    train_loader = DataLoader(PairDataset(args.n_train, args.window, 1), args.batch_size, shuffle=True, generator=shuffle)
    test_loader = DataLoader(PairDataset(64, args.window, 2), 32)
    generator, discriminator = Generator(), Discriminator(args.window)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=args.g_lr, betas=(0.5, 0.9))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=args.d_lr, betas=(0.5, 0.9))

    start_epoch = 0
    if os.path.exists(args.checkpoint):
        start_epoch = load_checkpoint(args.checkpoint, generator, discriminator, g_optimizer, d_optimizer)
        print(f"resuming after epoch {start_epoch}")

    for epoch in range(start_epoch + 1, args.epochs + 1):
        # the same noise and order in every run of this epoch
        torch.manual_seed(args.seed * 10000 + epoch)
        shuffle.manual_seed(args.seed * 10000 + epoch)
        t0 = time.time()
        for it, (clean, noisy) in enumerate(train_loader, 1):
            fake = generator(noisy)
            d_real = discriminator(clean, noisy)
            d_fake = discriminator(fake.detach(), noisy)
            d_loss = 0.5 * ((d_real - 1) ** 2).mean() + 0.5 * (d_fake ** 2).mean()
            d_optimizer.zero_grad()
            d_loss.backward()
            d_optimizer.step()

            g_adv = 0.5 * ((discriminator(fake, noisy) - 1) ** 2).mean()
            l1 = F.l1_loss(fake, clean)
            g_loss = g_adv + args.l1_weight * l1
            g_optimizer.zero_grad()
            g_loss.backward()
            g_optimizer.step()
            if it % 10 == 0:
                print(f"epoch {epoch} {it}/{len(train_loader)} d {d_loss.item():.4f} g_adv {g_adv.item():.4f} "
                      f"l1 {l1.item():.4f} {1000 * (time.time() - t0) / it:.0f} ms", flush=True)
        save_checkpoint(args.checkpoint, epoch, generator, discriminator, g_optimizer, d_optimizer)
        if epoch % 5 == 0:
            before, after = segmental_snr(generator, test_loader)
            print(f"epoch {epoch}: SNR {before:.2f} -> {after:.2f} dB", flush=True)


if __name__ == "__main__":
    main()
