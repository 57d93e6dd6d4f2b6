"""Supervised fine-tuning style loop on prompt/completion pairs (string tasks), decoder-only model."""
import argparse
import math
import random
import string

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class ByteTokenizer:
    def __init__(self):
        self.pad_token_id, self.bos_token_id, self.eos_token_id = 0, 1, 2
        chars = sorted(set(string.ascii_lowercase + string.digits + " :+=->,."))
        self.stoi = {c: i + 3 for i, c in enumerate(chars)}
        self.itos = {i: c for c, i in self.stoi.items()}
        self.vocab_size = len(chars) + 3

    def encode(self, text, add_bos=False):
        ids = [self.stoi[c] for c in text]
        return [self.bos_token_id] + ids if add_bos else ids

    def decode(self, ids):
        return "".join(self.itos.get(int(i), "") for i in ids)


def make_example(rng):
    task = rng.choice(["upper", "rev", "add", "sort", "first"])
    word = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(3, 8)))
    if task == "upper":
        return f"spell {word} -> ", ", ".join(word)
    if task == "rev":
        return f"reverse {word} -> ", word[::-1]
    if task == "add":
        a, b = rng.randint(0, 49), rng.randint(0, 49)
        return f"{a} + {b} = ", str(a + b)
    if task == "sort":
        return f"sort {word} -> ", "".join(sorted(word))
    return f"first letter of {word}: ", word[0]


class PromptCompletionDataset(Dataset):
    def __init__(self, n, tokenizer, max_len, seed):
        rng = random.Random(seed)
        self.records = [make_example(rng) for _ in range(n)]
        self.tokenizer, self.max_len = tokenizer, max_len

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        prompt, completion = self.records[i]
        prompt_ids = self.tokenizer.encode(prompt, add_bos=True)
        completion_ids = self.tokenizer.encode(completion) + [self.tokenizer.eos_token_id]
        input_ids = (prompt_ids + completion_ids)[:self.max_len]
        labels = ([-100] * len(prompt_ids) + completion_ids)[:self.max_len]
        return input_ids, labels


class Collator:
    def __init__(self, pad_id):
        self.pad_id = pad_id

    def __call__(self, features):
        width = max(len(f[0]) for f in features)
        ids = torch.full((len(features), width), self.pad_id)
        labels = torch.full((len(features), width), -100)
        for r, (i, l) in enumerate(features):
            ids[r, :len(i)] = torch.tensor(i)
            labels[r, :len(l)] = torch.tensor(l)
        return {"input_ids": ids, "labels": labels}


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class TinyCausalLM(nn.Module):
    def __init__(self, vocab, d=96, layers=3, heads=4, max_pos=64):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(max_pos, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, labels=None):
        x = self.tok(input_ids) + self.pos(torch.arange(input_ids.size(1)))
        for blk in self.blocks:
            x = blk(x)
        logits = self.head(self.norm(x))
        if labels is None:
            return logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)

    @torch.no_grad()
    def generate(self, ids, eos_id, max_new_tokens=24):
        out = []
        for _ in range(max_new_tokens):
            nxt = int(self(torch.tensor([ids + out]))[0, -1].argmax())
            if nxt == eos_id:
                break
            out.append(nxt)
        return out


def evaluate(model, loader, dataset, tok, n_gen=40):
    model.eval()
    with torch.no_grad():
        loss = sum(model(**b).item() for b in loader) / len(loader)
    exact = 0
    for prompt, completion in dataset.records[:n_gen]:
        gen = tok.decode(model.generate(tok.encode(prompt, add_bos=True), tok.eos_token_id))
        exact += gen == completion
    model.train()
    print(f"eval_loss {loss:.4f} exact_match {exact / n_gen:.3f} | {prompt!r} -> {gen!r}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--per_device_train_batch_size", type=int, default=32)
    p.add_argument("--learning_rate", type=float, default=1e-3)
    p.add_argument("--num_train_epochs", type=int, default=40)
    p.add_argument("--warmup_ratio", type=float, default=0.01)
    p.add_argument("--max_length", type=int, default=56)
    p.add_argument("--logging_steps", type=int, default=20)
    p.add_argument("--eval_steps", type=int, default=300)
    p.add_argument("--seed", type=int, default=42)
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    tok = ByteTokenizer()
    train_set = PromptCompletionDataset(40000, tok, args.max_length, seed=1)
    eval_set = PromptCompletionDataset(640, tok, args.max_length, seed=2)
    collate = Collator(tok.pad_token_id)
    loader = DataLoader(train_set, args.per_device_train_batch_size, shuffle=True, collate_fn=collate)
    eval_loader = DataLoader(eval_set, 128, collate_fn=collate)
    model = TinyCausalLM(tok.vocab_size)
    opt = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    total = len(loader) * args.num_train_epochs
    warm = int(total * args.warmup_ratio)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: (s + 1) / warm if s < warm else 0.5 * (1 + math.cos(math.pi * (s - warm) / (total - warm))))
    step = 0
    for epoch in range(args.num_train_epochs):
        for batch in loader:
            loss = model(**batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad()
            step += 1
            if step % args.logging_steps == 0:
                print({"step": step, "of": total, "loss": round(loss.item(), 4),
                       "lr": round(sched.get_last_lr()[0], 7)}, flush=True)
            if step % args.eval_steps == 0:
                evaluate(model, eval_loader, eval_set, tok)
                torch.save(model.state_dict(), "sft_model.bin")


if __name__ == "__main__":
    main()
