"""Masked language model with attention without softmax, trained on the Python standard library."""
import argparse
import glob
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", type=str, default="densemlm_ckpts")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in output_dir")
    parser.add_argument("--epochs", type=int, default=1200)
    parser.add_argument("--steps_per_epoch", type=int, default=40)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--seq_len", type=int, default=128)
    parser.add_argument("--dim", type=int, default=192)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup_proportion", type=float, default=0.02)
    parser.add_argument("--mask_prob", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=9)
    return parser.parse_args()


def load_corpus(max_files=160):
    root = os.path.dirname(os.__file__)
    text = ""
    for name in sorted(f for f in os.listdir(root) if f.endswith(".py"))[:max_files]:
        with open(os.path.join(root, name), encoding="utf-8", errors="ignore") as fh:
            text += fh.read() + "\n"
    return "".join(c for c in text if c == "\n" or 32 <= ord(c) < 127)


class DenseAttention(nn.Module):
    """x -> (x W x^T) x / n with inputs scaled by their largest value."""

    def __init__(self, dim, heads=8):
        super().__init__()
        self.heads = heads
        self.w = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        x = x / (x.abs().amax(-1, keepdim=True) + 1e-5)
        q = self.w(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = x.view(b, n, self.heads, -1).transpose(1, 2)
        mixed = q @ (v.transpose(-1, -2) @ v) / math.sqrt(n)
        return self.out(mixed.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.local = nn.Conv1d(dim, dim, 5, padding=2, groups=dim // 16)
        self.attn = DenseAttention(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        x = x + self.local(self.n1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.attn(self.n2(x))
        return x + self.ffn(self.n3(x))


class DenseMLM(nn.Module):
    def __init__(self, vocab, dim, layers, seq_len):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(seq_len, dim)
        nn.init.normal_(self.tok.weight, std=0.02)
        nn.init.normal_(self.pos.weight, std=0.02)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[None, :ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def mlm_batch(data, args, mask_id, n_chars, gen):
    starts = torch.randint(0, len(data) - args.seq_len, (args.batch_size,), generator=gen)
    ids = torch.stack([data[s:s + args.seq_len] for s in starts.tolist()])
    chosen = torch.rand(ids.shape, generator=gen) < args.mask_prob
    labels = ids.masked_fill(~chosen, -100)
    dice = torch.rand(ids.shape, generator=gen)
    random_ids = torch.randint(0, n_chars, ids.shape, generator=gen)
    inputs = torch.where(chosen & (dice < 0.8), torch.full_like(ids, mask_id), ids)
    inputs = torch.where(chosen & (dice >= 0.9), random_ids, inputs)
    return inputs, labels


def list_checkpoints(output_dir):
    return sorted(glob.glob(os.path.join(output_dir, "epoch_*.pt")))


def checkpoint_model(args, epoch, model, optimizer, scheduler):
    path = os.path.join(args.output_dir, f"epoch_{epoch:04d}.pt")
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)


@torch.no_grad()
def evaluate(model, data, args, mask_id, n_chars, batches=5):
    model.eval()
    gen = torch.Generator().manual_seed(77)
    losses = []
    for _ in range(batches):
        x, y = mlm_batch(data, args, mask_id, n_chars, gen)
        losses.append(F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100).item())
    return sum(losses) / len(losses)


def main():
    args = get_arguments()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)

    text = load_corpus()
    chars = sorted(set(text))
    lookup = {c: i for i, c in enumerate(chars)}
    mask_id = len(chars)
    data = torch.tensor([lookup[c] for c in text])
    split = int(0.97 * len(data))
    train_data, eval_data = data[:split], data[split:]

    model = DenseMLM(len(chars) + 1, args.dim, args.layers, args.seq_len)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, {len(train_data)} characters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    total = args.epochs * args.steps_per_epoch
    warmup = int(args.warmup_proportion * total)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: (s + 1) / warmup if s < warmup else max(0.0, (total - s) / (total - warmup)))

    start_epoch = 1
    if args.resume and list_checkpoints(args.output_dir):
        state = torch.load(list_checkpoints(args.output_dir)[-1])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start_epoch = state["epoch"] + 1
        print(f"resumed at epoch {start_epoch}")

    for epoch in range(start_epoch, args.epochs + 1):
        gen = torch.Generator().manual_seed(args.seed * 100000 + epoch)
        model.train()
        t0, running = time.time(), 0.0
        for step in range(1, args.steps_per_epoch + 1):
            x, y = mlm_batch(train_data, args, mask_id, len(chars), gen)
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            running += loss.item()
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {running / step:.4f} lr {scheduler.get_last_lr()[0]:.2e} "
                      f"{1000 * (time.time() - t0) / step:.0f} ms", flush=True)
        print(f"epoch {epoch}: eval loss {evaluate(model, eval_data, args, mask_id, len(chars)):.4f}", flush=True)
        checkpoint_model(args, epoch, model, optimizer, scheduler)


if __name__ == "__main__":
    main()
