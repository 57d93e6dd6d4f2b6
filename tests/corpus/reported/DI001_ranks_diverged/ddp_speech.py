"""Keyword recognition on filter-bank features, data-parallel over a few CPU processes."""
import argparse
import os
import tempfile
import time
from contextlib import nullcontext

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

N_MELS, N_FRAMES, N_WORDS = 24, 60, 10


class KeywordSet(Dataset):
    """A word is a sequence of three 'phones' (spectral shapes) with free durations."""

    def __init__(self, n, seed):
        lex = np.random.default_rng(99)
        phones = []
        for _ in range(8):
            centres = lex.uniform(2, N_MELS - 2, 2)
            phones.append(sum(np.exp(-0.5 * ((np.arange(N_MELS) - c) / 1.8) ** 2) for c in centres))
        words = []
        while len(words) < N_WORDS:
            w = tuple(int(v) for v in lex.choice(8, 3, replace=False))
            if w not in words:
                words.append(w)
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, N_WORDS, n)
        self.x = np.stack([self.utter(words[k], phones, rng) for k in self.y]).astype(np.float32)

    @staticmethod
    def utter(word, phones, rng):
        feat = np.zeros((N_FRAMES, N_MELS))
        t = int(rng.integers(2, 12))
        for ph in word:
            dur = int(rng.integers(9, 17))
            shape = np.roll(phones[ph], int(rng.integers(-1, 2)))
            env = np.sin(np.linspace(0.3, np.pi - 0.3, dur))
            end = min(t + dur, N_FRAMES)
            feat[t:end] += rng.uniform(0.7, 1.3) * env[: end - t, None] * shape[None]
            t = end
        feat += rng.normal(0, 0.80, feat.shape)
        return (feat - 0.1) / 0.87

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class KeywordNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(N_MELS, hidden, 5, padding=2), nn.GroupNorm(4, hidden), nn.ReLU(),
            nn.Conv1d(hidden, hidden, 5, stride=2, padding=2), nn.GroupNorm(4, hidden), nn.ReLU(),
        )
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, N_WORDS)

    def forward(self, feat):
        h = self.front(feat.transpose(1, 2)).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.out(self.drop(torch.cat([h.mean(1), h[:, -1]], dim=1)))


class Trainer:
    def __init__(self, args, rank, world):
        self.args, self.rank, self.world = args, rank, world
        self.accum_grad = args.accum_grad
        train_set = KeywordSet(args.train_size, 1)
        self.sampler = DistributedSampler(train_set, world, rank, shuffle=True, seed=args.seed, drop_last=True)
        self.train_loader = DataLoader(train_set, args.batch_size, sampler=self.sampler, drop_last=True)
        self.val_loader = DataLoader(KeywordSet(args.val_size, 2), 128)
        self.model = DDP(KeywordNet())
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-3)
        total = args.epochs * (len(self.train_loader) // self.accum_grad)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optim, args.lr, total_steps=total)

    def train_epoch(self, epoch):
        self.model.train()
        self.sampler.set_epoch(epoch)
        self.optim.zero_grad()
        total, n = 0.0, 0
        usable = len(self.train_loader) // self.accum_grad * self.accum_grad
        for batch_idx, (feat, word) in enumerate(self.train_loader):
            if batch_idx >= usable:
                break
            context = self.model.no_sync if batch_idx % self.accum_grad != 0 else nullcontext
            with context():
                loss = F.cross_entropy(self.model(feat), word)
                (loss / self.accum_grad).backward()
            total += loss.item()
            n += 1
            if (batch_idx + 1) % self.accum_grad == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.args.grad_clip)
                self.optim.step()
                self.scheduler.step()
                self.optim.zero_grad()
        return total / n

    @torch.no_grad()
    def validate(self):
        net = self.model.module
        net.eval()
        loss, hit, n = 0.0, 0, 0
        for feat, word in self.val_loader:
            out = net(feat)
            loss += F.cross_entropy(out, word, reduction="sum").item()
            hit += (out.argmax(1) == word).sum().item()
            n += len(word)
        return loss / n, hit / n

    def run(self):
        for epoch in range(self.args.epochs):
            t0 = time.time()
            train_loss = self.train_epoch(epoch)
            val_loss, acc = self.validate()
            if self.rank == 0:
                print("epoch %2d rank %d | train loss %.4f | val loss %.4f acc %.4f | %.1fs"
                      % (epoch, self.rank, train_loss, val_loss, acc, time.time() - t0), flush=True)


def worker(rank, args, init_file):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed + rank)
    dist.init_process_group("gloo", init_method="file://" + init_file, rank=rank, world_size=args.nproc)
    try:
        Trainer(args, rank, args.nproc).run()
        dist.barrier()
    finally:
        dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nproc", type=int, default=2)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--accum_grad", type=int, default=4)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--grad_clip", type=float, default=5.0)
    p.add_argument("--train_size", type=int, default=4096)
    p.add_argument("--val_size", type=int, default=512)
    p.add_argument("--seed", type=int, default=2024)
    args = p.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(worker, args=(args, os.path.join(tmp, "ddp_init")), nprocs=args.nproc, join=True)


if __name__ == "__main__":
    main()
