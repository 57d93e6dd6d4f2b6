"""Fine-tuning style sentence classification: transformer with a task head and an auxiliary LM loss."""
import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB, N_CTX, N_CLASS = 240, 20, 6
PAD, START, CLF = 0, 1, 2


def make_split(n, seed):
    """Topic words mixed with common words; the class is the topic, word order follows a bigram table."""
    world = np.random.default_rng(77)
    topic_words = world.permutation(np.arange(40, VOCAB))[:20 * N_CLASS].reshape(N_CLASS, 20)
    follow = world.integers(3, 40, size=(VOCAB, 2))
    rng = np.random.default_rng(seed)
    x, y = np.zeros((n, N_CTX), np.int64), rng.integers(0, N_CLASS, n)
    for row, label in zip(x, y):
        length = int(rng.integers(9, N_CTX - 2))
        words = [int(rng.integers(3, 40))]
        while len(words) < length:
            if rng.random() < 0.3:
                words.append(int(rng.choice(topic_words[label])))
            else:
                words.append(int(follow[words[-1], rng.integers(2)]))
        words[-1] = int(rng.choice(topic_words[label]))
        row[:length + 2] = [START, *words, CLF]
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(N_CTX, dim)
        nn.init.normal_(self.embed.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)
        self.h = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.register_buffer("mask", torch.ones(N_CTX, N_CTX, dtype=torch.bool).triu(1))

    def forward(self, x):
        h = self.embed(x) + self.pos(torch.arange(x.shape[1]))
        for block in self.h:
            h = block(h, self.mask)
        return h


class LMHead(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.norm = nn.LayerNorm(model.embed.weight.shape[1])
        self.embed = [model.embed]

    def forward(self, h):
        return F.linear(self.norm(h[:, :-1]), self.embed[0].weight)


class ClfHead(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, N_CLASS)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, h, x):
        return self.linear(self.norm(h[torch.arange(len(x)), (x == CLF).int().argmax(1)]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n-iter", type=int, default=200)
    p.add_argument("--n-batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--lm-coef", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--save-dir", default=".")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, val = make_split(800, 1), make_split(240, 2)
    gen = torch.Generator().manual_seed(args.seed)
    loader = DataLoader(train, args.n_batch, shuffle=True, generator=gen)
    val_loader = DataLoader(val, 120)

    dh_model = Model()
    lm_head, clf_head = LMHead(dh_model), ClfHead()
    params = list(dh_model.parameters()) + list(lm_head.parameters())
    model_opt = torch.optim.Adam(params, lr=args.lr)
    modules = (dh_model, lm_head, clf_head)

    best = 0.0
    for epoch in range(args.n_iter):
        for m in modules:
            m.train()
        for i, (x, y) in enumerate(loader):
            h = dh_model(x)
            clf_loss = F.cross_entropy(clf_head(h, x), y)
            lm_loss = F.cross_entropy(lm_head(h).flatten(0, 1), x[:, 1:].flatten(), ignore_index=PAD)
            loss = clf_loss + args.lm_coef * lm_loss
            for m in modules:
                m.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            model_opt.step()
            if i % 5 == 0:
                print(f"{epoch} {i} loss {loss.item():.4f} clf {clf_loss.item():.4f} lm {lm_loss.item():.4f}", flush=True)
        for m in modules:
            m.eval()
        with torch.no_grad():
            acc = np.mean([(clf_head(dh_model(x), x).argmax(1) == y).float().mean().item() for x, y in val_loader])
        print(f"{epoch} val accuracy {acc:.3f}", flush=True)
        if acc > best:
            best = acc
            torch.save([m.state_dict() for m in modules], f"{args.save_dir}/best_params.pt")


if __name__ == "__main__":
    main()
