#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Speech enhancement: complex mask on the spectrogram, trained with the power compressed mixed loss."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SR = 4000
CLIP = 4096


def voice(rng, n):
    """A few voiced segments with formant-like weights and pauses of low level."""
    t = np.arange(n) / SR
    out = np.zeros(n)
    pos = 0
    while pos < n:
        dur = int(rng.uniform(0.12, 0.35) * SR)
        seg = slice(pos, min(n, pos + dur))
        f0 = rng.uniform(90, 220) * (1 + 0.05 * np.sin(2 * np.pi * rng.uniform(2, 5) * t[seg]))
        phase = 2 * np.pi * np.cumsum(f0) / SR
        formants = rng.uniform([300, 900], [800, 1700])
        s = np.zeros(seg.stop - seg.start)
        for h in range(1, 9):
            f = h * f0.mean()
            if f < SR / 2:
                s += np.sin(h * phase) * sum(np.exp(-((f - fm) / 250) ** 2) for fm in formants)
        env = np.hanning(len(s) + 2)[1:-1]
        out[seg] += s * env * rng.uniform(0.4, 1.0)
        pos += dur + int(rng.uniform(0.02, 0.12) * SR)
    return 0.3 * out


class NoisyVoice(Dataset):
    def __init__(self, num, seed, num_short=0):
        rng = np.random.default_rng(seed)
        short = set(rng.choice(num, num_short, replace=False).tolist())
        self.items = []
        for i in range(num):
            clean = voice(rng, CLIP) + rng.normal(0, 0.005, CLIP)
            noise = np.convolve(rng.normal(0, 1, CLIP + 7), rng.normal(0, 0.4, 8), mode="valid")
            snr = rng.uniform(2, 12)
            noise *= np.sqrt((clean ** 2).mean() / (noise ** 2).mean() / 10 ** (snr / 10))
            noisy = clean + noise
            if i in short:
                # recording shorter than the segment: pad with zeros
                cut = int(rng.uniform(0.5, 0.8) * CLIP)
                clean[cut:], noisy[cut:] = 0.0, 0.0
            self.items.append((torch.tensor(noisy, dtype=torch.float32), torch.tensor(clean, dtype=torch.float32)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class MaskNet(nn.Module):
    def __init__(self, win_len=256, win_inc=128, channels=12, rnn=80):
        super().__init__()
        self.win_len, self.win_inc = win_len, win_inc
        self.feat_dim = win_len // 2 + 1
        self.register_buffer("window", torch.hann_window(win_len))
        self.conv = nn.Sequential(nn.Conv2d(2, channels, 3, padding=1), nn.PReLU(),
                                  nn.Conv2d(channels, channels, (5, 3), padding=(2, 1)), nn.PReLU(),
                                  nn.Conv2d(channels, 4, 1))
        self.rnn = nn.GRU(4 * self.feat_dim, rnn, batch_first=True, bidirectional=True)
        self.amp = nn.Linear(2 * rnn, self.feat_dim)
        self.phase = nn.Linear(2 * rnn, 2 * self.feat_dim)

    def stft(self, wav):
        spec = torch.stft(wav, self.win_len, self.win_inc, window=self.window, center=False, return_complex=True)
        return torch.cat([spec.real, spec.imag], 1)

    def forward(self, wav):
        cspec = self.stft(wav)
        b, d, t = cspec.size()
        spec = cspec.view(b, 2, self.feat_dim, t)
        x = self.conv(torch.sign(spec) * spec.abs() ** 0.5).permute(0, 3, 1, 2).reshape(b, t, -1)
        x, _ = self.rnn(x)
        gain = torch.sigmoid(self.amp(x)).transpose(1, 2)
        rot = torch.tanh(self.phase(x)).transpose(1, 2)
        dre, dim = 1 + rot[:, :self.feat_dim], rot[:, self.feat_dim:]
        re, im = spec[:, 0], spec[:, 1]
        return torch.cat([gain * (re * dre - im * dim), gain * (re * dim + im * dre)], 1)

    def loss(self, est, labels):
        """
            est: [B, F*2, T]
            labels: [B, L]
        """
        d = self.feat_dim
        gth_cspec, est_cspec = self.stft(labels), est
        gth_mag_spec = torch.sqrt(gth_cspec[:, :d, :] ** 2 + gth_cspec[:, d:, :] ** 2)
        est_mag_spec = torch.sqrt(est_cspec[:, :d, :] ** 2 + est_cspec[:, d:, :] ** 2)

        # power compress
        gth_cprs_mag_spec = gth_mag_spec ** 0.3
        est_cprs_mag_spec = est_mag_spec ** 0.3
        amp_loss = F.mse_loss(gth_cprs_mag_spec, est_cprs_mag_spec)
        compress_coff = (gth_cprs_mag_spec / (1e-8 + gth_mag_spec)).clamp(max=3.0).repeat(1, 2, 1)
        phase_loss = F.mse_loss(gth_cspec * compress_coff, est_cspec * compress_coff)
        return 0.5 * amp_loss + 0.5 * phase_loss, amp_loss, phase_loss


def log_spectral_distance(model, est, labels):
    d = model.feat_dim
    gth = model.stft(labels)
    mag = lambda s: torch.sqrt(s[:, :d] ** 2 + s[:, d:] ** 2 + 1e-6)
    return (20 * (torch.log10(mag(gth)) - torch.log10(mag(est)))).pow(2).mean(1).sqrt().mean().item()


def validation(model, loader):
    model.eval()
    loss_total, lsd, k = 0.0, 0.0, 0
    with torch.no_grad():
        for noisy, clean in loader:
            est = model(noisy)
            loss_total += model.loss(est, clean)[0].item()
            lsd += log_spectral_distance(model, est, clean)
            k += 1
    return loss_total / k, lsd / k


def train(args):
    torch.manual_seed(args.seed)
    tr = NoisyVoice(args.num_train, args.seed, num_short=args.num_short)
    cv = NoisyVoice(args.num_valid, args.seed + 1)
    tr_loader = DataLoader(tr, args.batch_size, shuffle=True, drop_last=True)
    cv_loader = DataLoader(cv, 32)
    model = MaskNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learn_rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.max_epoch * len(tr_loader), eta_min=5e-5)
    print("=> cv at start: loss %.4f lsd %.2f dB" % validation(model, cv_loader))
    start = time.time()
    for epoch in range(1, args.max_epoch + 1):
        model.train()
        loss_total, num = 0.0, 0
        for idx, (noisy, clean) in enumerate(tr_loader):
            est = model(noisy)
            loss, amp_loss, phase_loss = model.loss(est, clean)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad_norm)
            optimizer.step()
            scheduler.step()
            loss_total += loss.item()
            num += 1
            if (idx + 1) % 25 == 0:
                print(f"Epoch: {epoch:2d}/{args.max_epoch}, batch {idx + 1:3d}/{len(tr_loader)}, "
                      f"loss = {loss_total / num:.4f} (amp {amp_loss.item():.4f} phase {phase_loss.item():.4f})")
        cv_loss, lsd = validation(model, cv_loader)
        print(f"=> epoch {epoch}: cv loss {cv_loss:.4f}, lsd {lsd:.2f} dB, {time.time() - start:.0f}s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("enhancement trainer")
    parser.add_argument("--learn-rate", type=float, default=2e-3)
    parser.add_argument("--max-epoch", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--clip-grad-norm", type=float, default=5.0)
    parser.add_argument("--num-train", type=int, default=1280)
    parser.add_argument("--num-valid", type=int, default=96)
    parser.add_argument("--num-short", type=int, default=8)
    parser.add_argument("--seed", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    train(args)
