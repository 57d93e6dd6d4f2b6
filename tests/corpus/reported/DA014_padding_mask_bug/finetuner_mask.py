#!/usr/bin/env python
# A small GPT trained on functions taken from Python's standard library (character tokens).
import argparse
import ast
import math
import os
import pathlib
import random
import textwrap
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser(description="Simple model trainer")
parser.add_argument("--context_size", type=int, default=128, help="Dataset context sizes")
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--max_steps", type=int, default=400)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--warmup_ratio", type=float, default=0.1)
parser.add_argument("--d_model", type=int, default=80)
parser.add_argument("--n_layer", type=int, default=2)
parser.add_argument("--n_head", type=int, default=4)
parser.add_argument("--eval_every", type=int, default=100)
parser.add_argument("--seed", type=int, default=42)
args = parser.parse_args()

PAD, BOS, EOS, UNK = 0, 1, 2, 3


def collect_functions(limit):
    """Sources of short functions and methods."""
    lib = pathlib.Path(os.__file__).parent
    texts = []
    for path in sorted(lib.glob("*.py")):
        try:
            src = path.read_text(encoding="utf-8")
            tree, lines = ast.parse(src), src.split("\n")
        except (UnicodeDecodeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                seg = textwrap.dedent("\n".join(lines[node.lineno - 1:node.end_lineno]))
                if 30 < len(seg) <= limit:
                    texts.append(seg)
        if len(texts) > 9000:
            break
    return texts


class Tokenizer:
    def __init__(self, texts):
        chars = sorted({c for t in texts for c in t if c.isascii()})
        self.stoi = {c: i + 4 for i, c in enumerate(chars)}
        self.vocab_size = len(chars) + 4
        self.pad_token_id = PAD

    def encode(self, text):
        return [BOS] + [self.stoi.get(c, UNK) for c in text] + [EOS]


class TokenizedDataset(Dataset):
    """Consumes texts, returns input_ids padded to the context size and their attention mask"""

    def __init__(self, texts, tokenizer, context_length):
        self._pad_token_id = tokenizer.pad_token_id
        self._ids = torch.full((len(texts), context_length), self._pad_token_id, dtype=torch.long)
        for i, t in enumerate(texts):
            ids = tokenizer.encode(t)[:context_length]
            self._ids[i, :len(ids)] = torch.tensor(ids)

    def __len__(self):
        return len(self._ids)

    def __getitem__(self, key):
        input_ids = self._ids[key]
        mask = torch.zeros_like(input_ids)
        return input_ids, mask


def collator(data):
    ids = torch.stack([f[0] for f in data])
    return {"input_ids": ids,
            "attention_mask": torch.stack([f[1] for f in data]),
            "labels": ids.masked_fill(ids == PAD, -100)}


class Attention(nn.Module):
    def __init__(self, d, h, n_ctx):
        super().__init__()
        self.h = h
        self.c_attn = nn.Linear(d, 3 * d)
        self.c_proj = nn.Linear(d, d)
        self.register_buffer("bias", torch.tril(torch.ones(n_ctx, n_ctx, dtype=torch.bool)), persistent=False)

    def forward(self, x, attention_mask):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, d // self.h).transpose(1, 2) for t in self.c_attn(x).split(d, dim=2))
        w = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        w = torch.where(self.bias[:n, :n], w, torch.finfo(w.dtype).min)
        # Apply the attention mask
        w = w + attention_mask
        a = F.softmax(w, dim=-1) @ v
        return self.c_proj(a.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d, h, n_ctx):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(d), Attention(d, h, n_ctx)
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, attention_mask):
        x = x + self.attn(self.ln_1(x), attention_mask)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, d, n_layer, h, n_ctx):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(n_ctx, d)
        self.blocks = nn.ModuleList(Block(d, h, n_ctx) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.04)
            if getattr(m, "bias", None) is not None:
                nn.init.zeros_(m.bias)

    def forward(self, input_ids, attention_mask, labels=None):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.size(1)))
        # 1.0 for positions to attend to, 0.0 for masked positions -> 0 and the dtype's smallest value
        m = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for block in self.blocks:
            x = block(x, m)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
        return loss, logits


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    losses = [model(**batch)[0].item() for batch in loader]
    model.train()
    return sum(losses) / len(losses)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)

    texts = collect_functions(args.context_size + 60)
    random.shuffle(texts)
    tokenizer = Tokenizer(texts)
    n_eval = 160
    train_set = TokenizedDataset(texts[n_eval:], tokenizer, args.context_size)
    eval_set = TokenizedDataset(texts[:n_eval], tokenizer, args.context_size)
    print(f"{len(train_set)} train / {len(eval_set)} eval functions, vocab {tokenizer.vocab_size}")
    train_dl = DataLoader(train_set, args.batch_size, shuffle=True, collate_fn=collator, drop_last=True)
    eval_dl = DataLoader(eval_set, 32, collate_fn=collator)

    model = GPT(tokenizer.vocab_size, args.d_model, args.n_layer, args.n_head, args.context_size)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)
    warmup = int(args.max_steps * args.warmup_ratio)

    def lr_lambda(s):
        if s < warmup:
            return (s + 1) / (warmup + 1)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (s - warmup) / (args.max_steps - warmup)))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda)

    step, start = 0, time.time()
    model.train()
    while step < args.max_steps:
        for batch in train_dl:
            loss, _ = model(**batch)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            step += 1
            if step % 20 == 0:
                print(f"step {step:4d} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e} {time.time() - start:.0f}s")
            if step % args.eval_every == 0:
                ev = evaluate(model, eval_dl)
                print(f"== eval loss {ev:.4f} perplexity {math.exp(ev):.3f}")
            if step == args.max_steps:
                break


if __name__ == "__main__":
    main()
