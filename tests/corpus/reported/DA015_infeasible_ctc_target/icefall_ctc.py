#!/usr/bin/env python3
"""CTC training of a small conv + BiGRU acoustic model on artificial phone strings."""
import argparse
import logging
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")

NUM_PHONES = 24
FEAT_DIM = 32


def get_parser():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--num-epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--num-train", type=int, default=3000)
    parser.add_argument("--num-valid", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=42)
    return parser


class Cut:
    """One supervision: features and the phone string."""

    def __init__(self, cut_id, features, tokens):
        self.id = cut_id
        self.features = features
        self.tokens = tokens

    @property
    def num_frames(self):
        return self.features.shape[0]


def make_cuts(num, rng, prototypes, prefix, num_fast=0):
    cuts = []
    fast = set(rng.choice(num, size=num_fast, replace=False).tolist())
    for i in range(num):
        length = int(rng.integers(4, 11))
        tokens = [int(rng.integers(1, NUM_PHONES + 1))]
        while len(tokens) < length:
            t = int(rng.integers(1, NUM_PHONES + 1))
            if t != tokens[-1]:
                tokens.append(t)
        lo, hi = (2, 4) if i in fast else (8, 15)
        speaker = rng.normal(0, 0.2, FEAT_DIM)
        frames = []
        for t in tokens:
            dur = int(rng.integers(lo, hi))
            frames.append(np.repeat(prototypes[t][None], dur, axis=0))
        feats = np.concatenate(frames)
        # co-articulation: smear over neighbouring frames
        kernel = np.array([0.25, 0.5, 0.25])
        feats = np.apply_along_axis(lambda c: np.convolve(c, kernel, mode="same"), 0, feats)
        feats = feats + speaker + rng.normal(0, 1.0, feats.shape)
        cuts.append(Cut(f"{prefix}-{i}", torch.tensor(feats, dtype=torch.float32), tokens))
    return cuts


def keep_cut(c):
    # remove very long utterances
    if c.num_frames > 400:
        return False
    return True


class CutSet(Dataset):
    def __init__(self, cuts):
        self.cuts = [c for c in cuts if keep_cut(c)]

    def __len__(self):
        return len(self.cuts)

    def __getitem__(self, i):
        return self.cuts[i]


def collate(cuts):
    feats = pad_sequence([c.features for c in cuts], batch_first=True)
    feat_lens = torch.tensor([c.num_frames for c in cuts])
    targets = torch.tensor([t for c in cuts for t in c.tokens])
    target_lens = torch.tensor([len(c.tokens) for c in cuts])
    return feats, feat_lens, targets, target_lens


class ConvSubsampling(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.conv1 = nn.Conv1d(in_dim, out_dim, 3, stride=2)
        self.conv2 = nn.Conv1d(out_dim, out_dim, 3, stride=2)

    def forward(self, x):
        x = x.transpose(1, 2)
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return x.transpose(1, 2)


class CtcModel(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.subsampling = ConvSubsampling(FEAT_DIM, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.rnn = nn.GRU(hidden, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(2 * hidden, NUM_PHONES + 1)

    def forward(self, x, x_lens):
        x = self.norm(self.subsampling(x))
        lens = ((x_lens - 1) // 2 - 1) // 2
        packed = pack_padded_sequence(x, lens, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return F.log_softmax(self.out(self.dropout(x)), dim=-1), lens


def compute_loss(model, batch):
    feats, feat_lens, targets, target_lens = batch
    log_probs, lens = model(feats, feat_lens)
    return F.ctc_loss(log_probs.transpose(0, 1), targets, lens, target_lens, blank=0, reduction="mean")


def edit_distance(a, b):
    d = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
    return d[-1]


@torch.no_grad()
def validate(model, loader):
    model.eval()
    tot, n, err, ref = 0.0, 0, 0, 0
    for batch in loader:
        tot += compute_loss(model, batch).item()
        n += 1
        log_probs, lens = model(batch[0], batch[1])
        start = 0
        for k, (best, length) in enumerate(zip(log_probs.argmax(-1), lens)):
            hyp, prev = [], 0
            for t in best[:length].tolist():
                if t != prev and t != 0:
                    hyp.append(t)
                prev = t
            tgt = batch[2][start:start + batch[3][k]].tolist()
            start += batch[3][k]
            err += edit_distance(hyp, tgt)
            ref += len(tgt)
    model.train()
    return tot / n, 100.0 * err / ref


def main():
    args = get_parser().parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    prototypes = rng.normal(0, 1, (NUM_PHONES + 1, FEAT_DIM))
    train_cuts = make_cuts(args.num_train, rng, prototypes, "train", num_fast=3)
    valid_cuts = make_cuts(args.num_valid, rng, prototypes, "valid")
    train_dl = DataLoader(CutSet(train_cuts), batch_size=args.batch_size, shuffle=True,
                          collate_fn=collate, drop_last=True,
                          generator=torch.Generator().manual_seed(args.seed))
    valid_dl = DataLoader(CutSet(valid_cuts), batch_size=50, collate_fn=collate)

    model = CtcModel(args.hidden)
    logging.info(f"Number of model parameters: {sum(p.numel() for p in model.parameters())}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.num_epochs * len(train_dl))

    model.train()
    for epoch in range(1, args.num_epochs + 1):
        tot = 0.0
        for batch_idx, batch in enumerate(train_dl):
            loss = compute_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            tot += loss.item()
            if batch_idx % 50 == 0:
                logging.info(f"Epoch {epoch}, batch {batch_idx}, ctc_loss={loss.item():.4f}")
        val_loss, per = validate(model, valid_dl)
        logging.info(f"Epoch {epoch}: train loss {tot / len(train_dl):.4f}, valid loss {val_loss:.4f}, PER {per:.2f}%")


if __name__ == "__main__":
    main()
