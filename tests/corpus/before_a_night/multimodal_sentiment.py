"""Sentiment regression from aligned words, voice and face features (-3 ... 3)."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

ACOUSTIC_DIM, VISUAL_DIM = 20, 16
VOCAB = 400


class World:
    """How words, tones of voice and faces carry sentiment in the made-up clips."""

    def __init__(self):
        rng = np.random.RandomState(99)
        self.polarity = np.zeros(VOCAB)
        self.polarity[3:60] = rng.uniform(0.6, 1.8, 57)
        self.polarity[60:117] = -rng.uniform(0.6, 1.8, 57)
        self.negations = (117, 118, 119)
        self.boosters = (120, 121, 122)
        self.voice = rng.normal(0, 1, ACOUSTIC_DIM)
        self.face = rng.normal(0, 1, VISUAL_DIM)

    def clip(self, rng, max_len):
        n = rng.randint(8, max_len - 1)
        words = rng.randint(123, VOCAB, n)
        score, tone = 0.0, rng.normal(0, 0.7)
        smile = rng.normal(0, 0.7)
        i = 0
        while i < n - 1:
            if rng.rand() < 0.22:
                w = rng.randint(3, 117)
                value = self.polarity[w]
                u = rng.rand()
                if u < 0.25:
                    words[i] = rng.choice(self.negations)
                    value = -0.8 * value
                elif u < 0.5:
                    words[i] = rng.choice(self.boosters)
                    value = 1.6 * value
                words[i + 1] = w
                score += value
                i += 1
            i += 1
        acoustic = np.outer(tone * np.ones(n), self.voice) + rng.normal(0, 1, (n, ACOUSTIC_DIM))
        visual = np.outer(smile * np.ones(n), self.face) + rng.normal(0, 1, (n, VISUAL_DIM))
        label = np.clip(0.7 * score + 0.8 * tone + 0.6 * smile, -3, 3)
        return words, acoustic, visual, label


def make_split(world, n, max_len, seed):
    rng = np.random.RandomState(seed)
    ids = np.zeros((n, max_len), dtype=np.int64)
    visual = np.zeros((n, max_len, VISUAL_DIM), dtype=np.float32)
    acoustic = np.zeros((n, max_len, ACOUSTIC_DIM), dtype=np.float32)
    mask = np.zeros((n, max_len), dtype=bool)
    labels = np.zeros(n, dtype=np.float32)
    for i in range(n):
        words, a, v, y = world.clip(rng, max_len)
        m = len(words)
        ids[i, 0], ids[i, 1:m + 1] = 1, words           # 1 is [CLS], 0 is padding
        acoustic[i, 1:m + 1], visual[i, 1:m + 1] = a, v
        mask[i, :m + 1] = True
        labels[i] = y
    return TensorDataset(*(torch.from_numpy(t) for t in (ids, visual, acoustic, mask, labels)))


class AdaptationGate(nn.Module):
    """Shifts the word embeddings by what voice and face say."""

    def __init__(self, dim, beta=1.0, dropout=0.1):
        super().__init__()
        self.w_hv, self.w_ha = nn.Linear(VISUAL_DIM + dim, dim), nn.Linear(ACOUSTIC_DIM + dim, dim)
        self.w_v, self.w_a = nn.Linear(VISUAL_DIM, dim), nn.Linear(ACOUSTIC_DIM, dim)
        self.norm, self.dropout, self.beta = nn.LayerNorm(dim), nn.Dropout(dropout), beta

    def forward(self, text, visual, acoustic):
        shift = (torch.relu(self.w_hv(torch.cat([visual, text], dim=2))) * self.w_v(visual)
                 + torch.relu(self.w_ha(torch.cat([acoustic, text], dim=2))) * self.w_a(acoustic))
        ratio = text.norm(dim=2) / (shift.norm(dim=2) + 1e-6) * self.beta
        return self.dropout(self.norm(text + ratio.clamp(max=1.0).unsqueeze(2) * shift))


class MultimodalTransformer(nn.Module):
    def __init__(self, max_len, dim=96, heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.positions = nn.Embedding(max_len, dim)
        self.gate = AdaptationGate(dim, dropout=dropout)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Dropout(dropout), nn.Linear(dim, 1))

    def forward(self, ids, visual, acoustic, mask):
        text = self.words(ids) + self.positions(torch.arange(ids.size(1)))
        hidden = self.encoder(self.gate(text, visual, acoustic), src_key_padding_mask=~mask)
        return self.head(hidden[:, 0]).squeeze(1)


def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps):
    """Linear increase to the initial rate, then linear decrease to zero."""

    def lr_lambda(current_step):
        if current_step < num_warmup_steps:
            return float(current_step) / float(max(1, num_warmup_steps))
        return max(0.0, float(num_training_steps - current_step) / float(max(1, num_training_steps - num_warmup_steps)))

    return LambdaLR(optimizer, lr_lambda)


def prep_for_training(args, num_train_optimization_steps):
    model = MultimodalTransformer(args.max_seq_length)
    no_decay = ("bias", "norm")
    groups = [
        {"params": [p for n, p in model.named_parameters() if not any(k in n for k in no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in model.named_parameters() if any(k in n for k in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate)
    scheduler = get_linear_schedule_with_warmup(
        optimizer,
        num_warmup_steps=num_train_optimization_steps,
        num_training_steps=args.warmup_proportion * num_train_optimization_steps,
    )
    return model, optimizer, scheduler


def train_epoch(model, loader, optimizer, scheduler, epoch):
    model.train()
    total, count = 0.0, 0
    for step, (ids, visual, acoustic, mask, labels) in enumerate(loader):
        loss = F.mse_loss(model(ids, visual, acoustic, mask), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        total += loss.item() * len(labels)
        count += len(labels)
        if step % 10 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.3g}", flush=True)
    return total / count


@torch.no_grad()
def test_epoch(model, loader):
    model.eval()
    preds, labels = [], []
    for ids, visual, acoustic, mask, y in loader:
        preds.append(model(ids, visual, acoustic, mask))
        labels.append(y)
    preds, labels = torch.cat(preds), torch.cat(labels)
    corr = np.corrcoef(preds.numpy(), labels.numpy())[0, 1]
    return F.mse_loss(preds, labels).item(), (preds - labels).abs().mean().item(), corr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_seq_length", type=int, default=32)
    parser.add_argument("--train_size", type=int, default=9600)
    parser.add_argument("--dev_size", type=int, default=1200)
    parser.add_argument("--train_batch_size", type=int, default=48)
    parser.add_argument("--dev_batch_size", type=int, default=128)
    parser.add_argument("--n_epochs", type=int, default=60)
    parser.add_argument("--learning_rate", type=float, default=5e-4)
    parser.add_argument("--warmup_proportion", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=5576)
    parser.add_argument("--out", default="runs/mag")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    world = World()
    train_loader = DataLoader(make_split(world, args.train_size, args.max_seq_length, args.seed + 1),
                              args.train_batch_size, shuffle=True, drop_last=True)
    dev_loader = DataLoader(make_split(world, args.dev_size, args.max_seq_length, args.seed + 2), args.dev_batch_size)
    num_train_optimization_steps = len(train_loader) * args.n_epochs
    model, optimizer, scheduler = prep_for_training(args, num_train_optimization_steps)

    best = float("inf")
    for epoch in range(args.n_epochs):
        train_loss = train_epoch(model, train_loader, optimizer, scheduler, epoch)
        mse, mae, corr = test_epoch(model, dev_loader)
        print(f"epoch {epoch} train loss {train_loss:.4f} dev loss {mse:.4f} mae {mae:.4f} corr {corr:.4f}", flush=True)
        if mse < best:
            best = mse
            torch.save(model.state_dict(), os.path.join(args.out, "best.pt"))


if __name__ == "__main__":
    main()
