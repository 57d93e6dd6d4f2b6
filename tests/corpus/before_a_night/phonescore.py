"""Acoustic model trained on whole-utterance scores of left-to-right phone graphs.

The total score of a graph (log-sum over all alignments) and its derivative, the
arc posteriors, come from one forward-backward pass.
"""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

N_PHONES = 24
N_FEATS = 40
NEG = -1e30


class UtteranceDataset(Dataset):
    def __init__(self, n, seed):
        world = np.random.default_rng(5)
        self.means = world.normal(0, 1.0, (N_PHONES, 3, N_FEATS))     # three sub-states per phone
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng([self.seed, i])
        phones = [int(rng.integers(N_PHONES))]
        while len(phones) < rng.integers(5, 10):
            nxt = int(rng.integers(N_PHONES))
            if nxt != phones[-1]:
                phones.append(nxt)
        speaker = rng.normal(0, 0.8, N_FEATS)
        frames, ali = [], []
        for p in phones:
            d = int(rng.integers(3, 9))
            for k in range(d):
                frames.append(self.means[p, min(2, 3 * k // d)] + speaker + rng.normal(0, 2.0, N_FEATS))
                ali.append(p)
        return torch.tensor(np.array(frames), dtype=torch.float32), torch.tensor(phones), torch.tensor(ali)


def collate(rows):
    feats = nn.utils.rnn.pad_sequence([r[0] for r in rows], batch_first=True)
    phones = nn.utils.rnn.pad_sequence([r[1] for r in rows], batch_first=True)
    ali = nn.utils.rnn.pad_sequence([r[2] for r in rows], batch_first=True, padding_value=-1)
    return feats, phones, ali, torch.tensor([len(r[0]) for r in rows]), torch.tensor([len(r[1]) for r in rows])


def shift_right(x):
    return torch.cat([torch.full_like(x[:, :1], NEG), x[:, :-1]], dim=1)


def shift_left(x):
    return torch.cat([x[:, 1:], torch.full_like(x[:, :1], NEG)], dim=1)


class GetTotScores(torch.autograd.Function):
    """Total log score of every utterance graph in the batch."""

    @staticmethod
    def forward(ctx, log_probs, phones, n_frames, n_phones):
        B, T, V = log_probs.shape
        S = phones.shape[1]
        emit = log_probs.gather(2, phones[:, None].expand(B, T, S))
        inside = torch.arange(S)[None] < n_phones[:, None]
        emit = emit.masked_fill(~inside[:, None], NEG)

        alpha = torch.full((B, T, S), NEG)
        alpha[:, 0, 0] = emit[:, 0, 0]
        for t in range(1, T):
            prev = alpha[:, t - 1]
            alpha[:, t] = (torch.logaddexp(prev, shift_right(prev)) + emit[:, t]).clamp(min=NEG)

        last = n_phones - 1
        rows = torch.arange(B)
        final = torch.full((B, S), NEG)
        final[rows, last] = 0.0
        beta = torch.full((B, T, S), NEG)
        for t in range(T - 1, -1, -1):
            if t == T - 1:
                nxt = torch.full((B, S), NEG)
            else:
                ahead = (beta[:, t + 1] + emit[:, t + 1]).clamp(min=NEG)
                nxt = torch.logaddexp(ahead, shift_left(ahead))
            beta[:, t] = torch.where((t == n_frames - 1)[:, None], final, nxt)

        tot_scores = alpha[rows, n_frames - 1, last]
        post = (alpha + beta - tot_scores[:, None, None]).exp()
        post = post * (torch.arange(T)[None] < n_frames[:, None])[:, :, None]
        arc_post = torch.zeros_like(log_probs).scatter_add_(2, phones[:, None].expand(B, T, S), post)
        ctx.save_for_backward(arc_post)
        return tot_scores

    @staticmethod
    def backward(ctx, tot_scores_grad):
        arc_post, = ctx.saved_tensors
        return arc_post, None, None, None


class TdnnModel(nn.Module):
    def __init__(self, hidden=256, dilations=(1, 1, 2, 3)):
        super().__init__()
        widths = [N_FEATS] + [hidden] * len(dilations)
        self.convs = nn.ModuleList([nn.Conv1d(i, o, 3, padding=d, dilation=d)
                                    for i, o, d in zip(widths[:-1], widths[1:], dilations)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in dilations])
        self.out = nn.Linear(hidden, N_PHONES)

    def forward(self, feats, n_frames):
        mask = (torch.arange(feats.shape[1])[None] < n_frames[:, None]).unsqueeze(-1)
        x = feats
        for conv, norm in zip(self.convs, self.norms):
            # frames after the end stay zero, like the padding of the convolution
            x = norm(conv(x.transpose(1, 2)).transpose(1, 2).relu()) * mask
        return self.out(x).log_softmax(-1)


def compute_objf(model, batch):
    feats, phones, _, n_frames, n_phones = batch
    log_probs = model(feats, n_frames)
    tot_scores = GetTotScores.apply(log_probs, phones, n_frames, n_phones)
    return -tot_scores.sum() / n_frames.sum(), log_probs


@torch.no_grad()
def validate(model, loader):
    model.eval()
    objf, frames, right = 0.0, 0, 0
    for batch in loader:
        loss, log_probs = compute_objf(model, batch)
        n = batch[3].sum().item()
        objf += loss.item() * n
        frames += n
        right += (log_probs.argmax(-1) == batch[2]).sum().item()
    return objf / frames, right / frames


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--n-train", type=int, default=12000)
    ap.add_argument("--seed", type=int, default=42)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_dl = DataLoader(UtteranceDataset(args.n_train, 1), args.batch_size, shuffle=True, collate_fn=collate)
    valid_dl = DataLoader(UtteranceDataset(400, 2), 64, collate_fn=collate)
    model = TdnnModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    best = float("inf")
    for epoch in range(args.epochs):
        model.train()
        t0, tot = time.time(), 0.0
        for i, batch in enumerate(train_dl, 1):
            loss, _ = compute_objf(model, batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            tot += loss.item()
            if i % 10 == 0:
                print(f"epoch {epoch} batch {i}/{len(train_dl)} objf {tot / 10:.4f} per frame, "
                      f"{1000 * (time.time() - t0) / i:.0f} ms/batch", flush=True)
                tot = 0.0
        scheduler.step()
        objf, acc = validate(model, valid_dl)
        print(f"epoch {epoch} valid objf {objf:.4f}, frame accuracy {acc:.4f}", flush=True)
        if objf < best:
            best = objf
            torch.save(model.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
