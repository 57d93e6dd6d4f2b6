import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 40
    block: int = 32
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 48
    dropout: float = 0.2
    batch: int = 24
    iters: int = 200
    eval_every: int = 50
    eval_iters: int = 8
    lr: float = 2e-3
    warmup: int = 30


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.qkv = nn.Linear(c.n_embd, 3 * c.n_embd)
        self.proj = nn.Linear(c.n_embd, c.n_embd)
        self.mlp = nn.Sequential(nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd),
                                 nn.Dropout(c.dropout))
        self.drop = nn.Dropout(c.dropout)
        self.n_head = c.n_head

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.n_head, d // self.n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.mlp(self.ln2(x))


class TimelineGPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.n_embd)
        self.pos = nn.Embedding(c.block, c.n_embd)
        self.drop = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.n_layer)])
        self.ln = nn.LayerNorm(c.n_embd)
        self.head = nn.Linear(c.n_embd, c.vocab, bias=False)

    def forward(self, idx, targets):
        x = self.drop(self.tok(idx) + self.pos(torch.arange(idx.size(1))))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def timelines(n, seed, c):
    trans = torch.randn(c.vocab, c.vocab, generator=torch.Generator().manual_seed(2)).mul(2.2).softmax(-1)
    g = torch.Generator().manual_seed(seed)
    seq = torch.zeros(n, c.block + 1, dtype=torch.long)
    seq[:, 0] = torch.randint(0, c.vocab, (n,), generator=g)
    for t in range(1, c.block + 1):
        seq[:, t] = torch.multinomial(trans[seq[:, t - 1]], 1, generator=g).squeeze(1)
    return seq


def get_batch(data, c):
    rows = data[torch.randint(0, len(data), (c.batch,))]
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def estimate_loss(model, splits, c):
    out = {}
    for name, data in splits.items():
        losses = [model(*get_batch(data, c))[1].item() for _ in range(c.eval_iters)]
        out[name] = sum(losses) / len(losses)
    return out


def main():
    torch.manual_seed(1337)
    c = Config()
    splits = {"train": timelines(6000, 0, c), "val": timelines(600, 1, c)}
    model = TimelineGPT(c)
    optimizer = torch.optim.AdamW(model.parameters(), lr=c.lr, weight_decay=0.05)

    for it in range(c.iters):
        lr = c.lr * min((it + 1) / c.warmup, 0.1 + 0.45 * (1 + math.cos(math.pi * it / c.iters)))
        for group in optimizer.param_groups:
            group["lr"] = lr
        _, loss = model(*get_batch(splits["train"], c))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if (it + 1) % c.eval_every == 0:
            est = estimate_loss(model, splits, c)
            print(f"step {it + 1}: loss {loss.item():.4f} train {est['train']:.4f} val {est['val']:.4f} lr {lr:.2e}")


if __name__ == "__main__":
    main()
