"""Masked language modelling of proteins, run as a chain of short jobs that continue from the last checkpoint."""
import argparse
import os
import os.path as osp
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, Sampler

AA, PAD, CLS, MASK, VOCAB, MAX_LEN = 20, 20, 21, 22, 23, 48


class ProteinDataset(Dataset):
    """Sequences from a few hundred families: a family profile with substitutions, insertions and deletions."""

    def __init__(self, n, seed, families=150):
        rules = np.random.default_rng(11)
        self.profiles = [rules.integers(0, AA, rules.integers(28, 45)) for _ in range(families)]
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        rng = np.random.default_rng((self.seed, int(idx)))
        seq = self.profiles[rng.integers(len(self.profiles))].copy()
        sub = rng.random(len(seq)) < 0.15
        seq[sub] = rng.integers(0, AA, sub.sum())
        start = rng.integers(0, 4)
        tokens = np.full(MAX_LEN, PAD)
        body = seq[start:][:MAX_LEN - 1]
        tokens[0], tokens[1:len(body) + 1] = CLS, body
        text, labels = tokens.copy(), np.full(MAX_LEN, -100)
        chosen = (tokens < AA) & (rng.random(MAX_LEN) < 0.15)
        chosen[1 + rng.integers(len(body))] = True
        labels[chosen] = tokens[chosen]
        how = rng.random(MAX_LEN)
        text[chosen & (how < 0.8)] = MASK
        swap = chosen & (how >= 0.9)
        text[swap] = rng.integers(0, AA, swap.sum())
        return text, labels


class MegatronPretrainingSampler(Sampler):
    """One pass over a fixed permutation, starting behind the samples that were already consumed."""

    def __init__(self, total_samples, consumed_samples, seed):
        self.total_samples, self.consumed_samples = total_samples, consumed_samples
        self.order = np.random.default_rng(seed).permutation(total_samples)

    def __len__(self):
        return self.total_samples - self.consumed_samples

    def __iter__(self):
        return iter(self.order[self.consumed_samples:].tolist())


class ESMDataModule:
    def __init__(self, max_steps, batch_size, seed=42):
        self.batch_size, self.seed, self.consumed_samples = batch_size, seed, 0
        self.train_ds = ProteinDataset(max_steps * batch_size, seed=1)
        self.valid_ds = ProteinDataset(512, seed=2)

    def train_dataloader(self):
        sampler = MegatronPretrainingSampler(len(self.train_ds), self.consumed_samples, self.seed)
        return DataLoader(self.train_ds, batch_size=self.batch_size, sampler=sampler, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.valid_ds, batch_size=64)


class ESM2(nn.Module):
    def __init__(self, d=96, heads=4, layers=2, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_LEN, d)
        layer = nn.TransformerEncoderLayer(d, heads, 3 * d, dropout, activation='gelu', batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, AA)

    def forward(self, tokens):
        x = self.encoder(self.embed(tokens) + self.pos.weight, src_key_padding_mask=tokens == PAD)
        return self.lm_head(self.norm(x))


def mlm_loss(model, batch):
    text, labels = batch
    return nn.functional.cross_entropy(model(text).flatten(0, 1), labels.flatten())


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss = float(np.mean([mlm_loss(model, b).item() for b in loader]))
    model.train()
    return loss


def run_job(args, out):
    """Trains for at most args.steps_per_job steps, then writes a checkpoint and gives the machine back."""
    data = ESMDataModule(args.max_steps, args.batch_size)
    torch.manual_seed(args.seed)
    model = ESM2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.max_steps + 1, pct_start=0.1)
    global_step, path = 0, osp.join(out, 'last.ckpt')
    if osp.exists(path):
        ckpt = torch.load(path, weights_only=False)
        model.load_state_dict(ckpt['model'])
        optimizer.load_state_dict(ckpt['optimizer'])
        scheduler.load_state_dict(ckpt['scheduler'])
        torch.set_rng_state(ckpt['rng'])
        global_step = ckpt['global_step']
        print(f'resumed from global step {global_step}')
    model.train()
    stop, running = min(args.max_steps, global_step + args.steps_per_job), []
    for batch in data.train_dataloader():
        if global_step >= stop:
            break
        loss = mlm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        global_step += 1
        data.consumed_samples += args.batch_size
        running.append(loss.item())
        if global_step % 50 == 0:
            print(f'step {global_step} lr {scheduler.get_last_lr()[0]:.2e} reduced_train_loss {np.mean(running):.4f}'
                  f' val_loss {validate(model, data.val_dataloader()):.4f}')
            running = []
        if global_step % 100 == 0 or global_step == stop:
            torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'scheduler': scheduler.state_dict(),
                        'rng': torch.get_rng_state(), 'global_step': global_step}, path)
    return global_step


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', default=None)
    parser.add_argument('--max-steps', type=int, default=900)
    parser.add_argument('--steps-per-job', type=int, default=450)
    parser.add_argument('--batch-size', type=int, default=32)
    parser.add_argument('--lr', type=float, default=2e-3)
    parser.add_argument('--seed', type=int, default=7)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    step = 0
    while step < args.max_steps:
        step = run_job(args, out)
