"""Step based training of a small text-to-mel model; the run can be killed and started again with the same command."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PHONES = "_abdefghiklmnoprstuvz"
N_MELS = 40


class Corpus:
    """Utterances are phone strings with durations; each phone has its own spectral envelope, each speaker a pitch."""

    def __init__(self, n, seed, speakers=12):
        world = np.random.default_rng(77)
        mel = np.arange(N_MELS)
        self.env = np.stack([sum(world.uniform(0.5, 1.2) * np.exp(-((mel - world.uniform(2, 38)) / world.uniform(2, 5)) ** 2)
                                 for _ in range(3)) for _ in PHONES]).astype(np.float32)
        self.env[0] = 0
        self.tilt = world.uniform(-0.02, 0.02, speakers).astype(np.float32)
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            length = rng.integers(8, 18)
            self.items.append((rng.integers(1, len(PHONES), length), rng.integers(2, 6, length), rng.integers(speakers),
                               rng.integers(1 << 30)))

    def __len__(self):
        return len(self.items)

    def load(self, i):
        phones, dur, spk, noise_seed = self.items[i]
        frames = np.repeat(phones, dur)
        m = self.env[frames]
        k = np.array([0.25, 0.5, 0.25], np.float32)
        m = np.apply_along_axis(lambda c: np.convolve(c, k, "same"), 0, m)
        m = m + self.tilt[spk] * np.arange(N_MELS) + 0.03 * np.random.default_rng(noise_seed).standard_normal(m.shape)
        return frames, spk, m.astype(np.float32)


class DataLoader:
    """Endless batches: a new permutation of the corpus every epoch."""

    def __init__(self, corpus, batch_size, seed):
        self.corpus, self.batch_size = corpus, batch_size
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        while True:
            order = self.rng.permutation(len(self.corpus))
            for lo in range(0, len(order) - self.batch_size + 1, self.batch_size):
                yield self.collate([self.corpus.load(i) for i in order[lo:lo + self.batch_size]])

    @staticmethod
    def collate(rows):
        width = max(len(r[0]) for r in rows)
        ph = torch.zeros(len(rows), width, dtype=torch.long)
        mel, mask = torch.zeros(len(rows), width, N_MELS), torch.zeros(len(rows), width)
        for b, (frames, _, m) in enumerate(rows):
            ph[b, :len(frames)] = torch.from_numpy(frames)
            mel[b, :len(m)] = torch.from_numpy(m)
            mask[b, :len(m)] = 1
        return ph, torch.tensor([r[1] for r in rows]), mel, mask


class TextToMel(nn.Module):
    def __init__(self, dim=128, layers=4, speakers=12):
        super().__init__()
        self.emb, self.spk = nn.Embedding(len(PHONES), dim, padding_idx=0), nn.Embedding(speakers, dim)
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(dim, N_MELS)

    def forward(self, ph, spk):
        h = self.emb(ph) + self.spk(spk).unsqueeze(1)
        for conv, norm in zip(self.convs, self.norms):
            h = h + self.drop(F.gelu(conv(norm(h).transpose(1, 2)).transpose(1, 2)))
        return self.out(h)


def masked_l1(pred, mel, mask):
    return ((pred - mel).abs().mean(-1) * mask).sum() / mask.sum()


@torch.no_grad()
def validate(model, corpus, n=256):
    model.eval()
    losses = [masked_l1(model(p, s), m, k).item() for p, s, m, k in
              (DataLoader.collate([corpus.load(j) for j in range(i, i + 32)]) for i in range(0, n, 32))]
    model.train()
    return float(np.mean(losses))


def save(path, step, model, optimizer, scheduler):
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
             "scheduler": scheduler.state_dict(), "torch_rng": torch.get_rng_state()}
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--run_dir", default="tts_run")
    p.add_argument("--max_steps", type=int, default=60000)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--corpus_size", type=int, default=60000)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=200)
    p.add_argument("--ckpt_freq", type=int, default=50)
    p.add_argument("--eval_freq", type=int, default=200)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.run_dir, exist_ok=True)

    corpus, valid = Corpus(args.corpus_size, 1), Corpus(256, 2)
    model = TextToMel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / args.warmup) * 0.5 * (1 + np.cos(np.pi * s / args.max_steps)))

    start_step = 0
    ckpt_path = os.path.join(args.run_dir, "checkpoint.pt")
    if os.path.exists(ckpt_path):
        state = torch.load(ckpt_path, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["torch_rng"])
        start_step = state["step"]
        print(f"resuming from step {start_step}")

    loader = iter(DataLoader(corpus, args.batch_size, seed=args.seed))
    t0 = time.time()
    for step in range(start_step + 1, args.max_steps + 1):
        ph, spk, mel, mask = next(loader)
        loss = masked_l1(model(ph, spk), mel, mask)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e} {time.time() - t0:.0f}s",
                  flush=True)
        if step % args.eval_freq == 0:
            print(f"step {step} valid {validate(model, valid):.4f}", flush=True)
        if step % args.ckpt_freq == 0:
            save(ckpt_path, step, model, optimizer, scheduler)


if __name__ == "__main__":
    main()
