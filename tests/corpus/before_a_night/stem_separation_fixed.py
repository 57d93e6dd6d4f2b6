# coding: utf-8
"""Music source separation: mask estimation on the spectrogram, two stems (vocals, other)."""
import argparse
import glob
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SR = 8000
STEMS = ['vocals', 'other']


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--results_path', type=str, default='results')
    parser.add_argument('--start_check_point', type=str, default='', help='checkpoint to start from; by default the last one of results_path')
    parser.add_argument('--num_epochs', type=int, default=150)
    parser.add_argument('--num_steps', type=int, default=100)
    parser.add_argument('--batch_size', type=int, default=12)
    parser.add_argument('--chunk_size', type=int, default=12288)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--patience', type=int, default=4)
    parser.add_argument('--reduce_factor', type=float, default=0.8)
    parser.add_argument('--valid_tracks', type=int, default=24)
    parser.add_argument('--seed', type=int, default=0)
    return parser.parse_args()


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def adsr(n, rng):
    env = np.zeros(n)
    pos = 0
    while pos < n:
        length = int(rng.integers(900, 3000))
        note = np.minimum(1.0, np.arange(length) / 250) * np.exp(-np.arange(length) / (length * rng.uniform(0.5, 2.0)))
        stop = min(n, pos + length)
        env[pos:stop] = note[:stop - pos] * (rng.random() < 0.85)
        pos = stop
    return env


def make_track(n, rng):
    """Vocals: harmonic tone with vibrato and glides. Other: stable low chord, plucks and drum noise."""
    t = np.arange(n) / SR
    f0 = rng.uniform(180, 420) * 2 ** (np.cumsum(rng.normal(0, 0.02, n // 256 + 1)).repeat(256)[:n] / 1.5)
    phase = 2 * np.pi * np.cumsum(f0 * (1 + 0.02 * np.sin(2 * np.pi * rng.uniform(4, 7) * t))) / SR
    vocals = sum(np.sin(k * phase + rng.uniform(0, 6.28)) / k ** 1.2 for k in range(1, 8)) * adsr(n, rng)
    other = np.zeros(n)
    for f in 55 * 2 ** (rng.choice(30, 4, replace=False) / 12):
        other += np.sin(2 * np.pi * f * t + rng.uniform(0, 6.28)) + 0.4 * np.sin(4 * np.pi * f * t)
    other *= 0.3 * adsr(n, rng)
    for start in range(int(rng.integers(0, 1500)), n - 900, int(rng.integers(1500, 2600))):
        other[start:start + 900] += 0.6 * rng.standard_normal(900) * np.exp(-np.arange(900) / 150)
    stems = np.stack([vocals, other])
    stems *= rng.uniform(0.5, 1.0, (2, 1)) / (np.abs(stems).max(1, keepdims=True) + 1e-6)
    return stems.astype(np.float32)


class ChunkSource:
    """A pool of tracks; every chunk mixes stems of two tracks at random gains."""

    def __init__(self, args, count, seed):
        rng = np.random.default_rng(seed)
        self.chunk = args.chunk_size
        self.tracks = torch.from_numpy(np.stack([make_track(3 * args.chunk_size, rng) for _ in range(count)]))

    def batch(self, size):
        stems = torch.empty(size, 2, self.chunk)
        for i in range(size):
            for s in range(2):
                track = random.randrange(len(self.tracks))
                start = random.randrange(self.tracks.size(2) - self.chunk)
                stems[i, s] = self.tracks[track, s, start:start + self.chunk] * random.uniform(0.5, 1.2)
        return stems.sum(1), stems


class BandMaskNet(nn.Module):
    def __init__(self, n_fft=512, hop=128, hidden=96, layers=2):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        bins = n_fft // 2 + 1
        self.register_buffer('window', torch.hann_window(n_fft))
        self.encoder = nn.Sequential(nn.Linear(bins, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.rnn = nn.GRU(hidden, hidden, layers, batch_first=True, bidirectional=True)
        self.mask = nn.Sequential(nn.Linear(2 * hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, bins * len(STEMS)))

    def forward(self, mix):
        spec = torch.stft(mix, self.n_fft, self.hop, window=self.window, return_complex=True)
        feats = torch.log1p(10 * spec.abs()).transpose(1, 2)
        h, _ = self.rnn(self.encoder(feats))
        mask = self.mask(h).view(mix.size(0), feats.size(1), len(STEMS), -1).permute(0, 2, 3, 1)
        est = torch.softmax(mask, dim=1) * spec.unsqueeze(1)
        out = torch.istft(est.flatten(0, 1), self.n_fft, self.hop, window=self.window, length=mix.size(1))
        return out.view(mix.size(0), len(STEMS), -1)


def sdr(reference, estimate, eps=1e-6):
    num = reference.pow(2).sum(-1) + eps
    den = (reference - estimate).pow(2).sum(-1) + eps
    return 10 * torch.log10(num / den)


@torch.no_grad()
def valid(model, tracks):
    model.eval()
    mix = tracks.sum(1)
    est = torch.cat([model(m) for m in mix.split(6)])
    scores = sdr(tracks, est).mean(0)
    model.train()
    return dict(zip(STEMS, scores.tolist()))


def save_weights(store_path, model, optimizer, scheduler, epoch, best_metric):
    torch.save({
        'epoch': epoch,
        'best_metric': best_metric,
        'model_state_dict': model.state_dict(),
        'optimizer_state_dict': optimizer.state_dict(),
        'scheduler_state_dict': scheduler.state_dict(),
        'rng': (torch.get_rng_state(), random.getstate()),
    }, store_path)


def load_start_checkpoint(args, model, optimizer, scheduler):
    path = args.start_check_point or os.path.join(args.results_path, 'last_bandmask.ckpt')
    if not os.path.isfile(path):
        return 0, float('-inf')
    ckpt = torch.load(path, weights_only=False)
    model.load_state_dict(ckpt['model_state_dict'])
    optimizer.load_state_dict(ckpt['optimizer_state_dict'])
    scheduler.load_state_dict(ckpt['scheduler_state_dict'])
    torch.set_rng_state(ckpt['rng'][0])
    random.setstate(ckpt['rng'][1])
    print('Start from checkpoint: {} epoch {} best metric {:.4f}'.format(path, ckpt['epoch'] + 1, ckpt['best_metric']))
    return ckpt['epoch'] + 1, ckpt['best_metric']


def train_one_epoch(model, source, optimizer, args, epoch):
    model.train()
    total, t0 = 0.0, time.time()
    for i in range(1, args.num_steps + 1):
        mix, stems = source.batch(args.batch_size)
        est = model(mix)
        loss = F.l1_loss(est, stems) - 0.002 * sdr(stems, est).clamp(max=30).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
        if i % 20 == 0:
            print('Epoch {} {}/{} loss: {:.5f} {:.0f} ms/step'.format(epoch, i, args.num_steps, total / i, 1000 * (time.time() - t0) / i), flush=True)
    print('Training loss: {:.6f}'.format(total / args.num_steps))


def main():
    args = parse_args()
    seed_everything(args.seed)
    os.makedirs(args.results_path, exist_ok=True)
    source = ChunkSource(args, 60, args.seed)
    rng = np.random.default_rng(args.seed + 1)
    valid_tracks = torch.from_numpy(np.stack([make_track(args.chunk_size * 2, rng) for _ in range(args.valid_tracks)]))

    model = BandMaskNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=args.patience, factor=args.reduce_factor)
    start_epoch, best_metric = load_start_checkpoint(args, model, optimizer, scheduler)

    for epoch in range(start_epoch, args.num_epochs):
        train_one_epoch(model, source, optimizer, args, epoch)
        metrics = valid(model, valid_tracks)
        metric_avg = sum(metrics.values()) / len(metrics)
        scheduler.step(metric_avg)
        print('Epoch {} SDR {} avg: {:.4f} best before: {:.4f}'.format(
            epoch, ' '.join('{}: {:.3f}'.format(k, v) for k, v in metrics.items()), metric_avg, best_metric), flush=True)
        if metric_avg > best_metric:
            best_metric = metric_avg
            for old in glob.glob(os.path.join(args.results_path, 'best_bandmask*.ckpt')):
                os.remove(old)
            save_weights(os.path.join(args.results_path, 'best_bandmask_ep_{}_sdr_{:.4f}.ckpt'.format(epoch, metric_avg)),
                         model, optimizer, scheduler, epoch, best_metric)
        save_weights(os.path.join(args.results_path, 'last_bandmask.ckpt'), model, optimizer, scheduler, epoch, best_metric)


if __name__ == '__main__':
    main()
