"""Train a small decoder on instruction / answer pairs (loss on the answers only)."""
import argparse
import json
import math
import os
import random
import string

import torch
import torch.nn as nn
import torch.nn.functional as F

TEMPLATE = "### Instruction:\n{instruction}\n\n### Response:\n"


class CharTokenizer:
    def __init__(self):
        chars = sorted(set(string.ascii_letters + string.digits + " \n.,:;?!#'-+"))
        self.pad_token_id, self.bos_token_id, self.eos_token_id = 0, 1, 2
        self.stoi = {c: i + 3 for i, c in enumerate(chars)}
        self.itos = {i: c for c, i in self.stoi.items()}
        self.vocab_size = len(chars) + 3

    def encode(self, text, max_length):
        return ([self.bos_token_id] + [self.stoi[c] for c in text])[:max_length]

    def decode(self, ids):
        return "".join(self.itos.get(i, "") for i in ids)


SYLLABLES = ("ba be bo da de do fa fi ga go ka ke ki la li lo ma me mo na ne no pa pi ra re ro sa se so ta te ti "
             "to va vi wa ya zo bar cor den fen gal hom jul kam lor mer nod par quil rof sen tor ul vin").split()


def word(rng):
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 3)))


def make_example(rng):
    kind = rng.randrange(6)
    a, b, c = word(rng), word(rng), word(rng)
    if kind == 0:
        return f"Write the word {a} in capitals.", a.upper()
    if kind == 1:
        return f"Spell {a} with dashes.", "-".join(a)
    if kind == 2:
        return f"Which comes first in the dictionary, {a} or {b}?", min(a, b)
    if kind == 3:
        x, y = rng.randint(10, 99), rng.randint(10, 99)
        return f"What is {x} + {y}?", str(x + y)
    if kind == 4:
        return f"Repeat the last of these: {a}, {b}, {c}.", c
    return f"Sort these words: {a}, {b}, {c}.", ", ".join(sorted([a, b, c]))


def make_data(n, seed):
    rng = random.Random(seed)
    seen, data = set(), []
    while len(data) < n:
        instruction, output = make_example(rng)
        if instruction not in seen:
            seen.add(instruction)
            data.append({"instruction": instruction, "output": output})
    return data


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self, vocab_size, cutoff_len, dim=128, heads=4, layers=4, dropout=0.05):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim)
        self.pos = nn.Embedding(cutoff_len, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab_size, bias=False)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


def train(args):
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)
    tokenizer = CharTokenizer()

    def tokenize(text, add_eos_token=True):
        ids = tokenizer.encode(text, args.cutoff_len)
        if add_eos_token and len(ids) < args.cutoff_len:
            ids.append(tokenizer.eos_token_id)
        return {"input_ids": ids, "labels": list(ids)}

    def generate_and_tokenize_prompt(point):
        user_prompt = TEMPLATE.format(instruction=point["instruction"])
        tokenized = tokenize(user_prompt + point["output"])
        if not args.train_on_inputs:
            tokenized_user_prompt = tokenize(user_prompt, add_eos_token=args.add_eos_token)
            user_prompt_len = len(tokenized_user_prompt["input_ids"])
            tokenized["labels"] = [-100] * user_prompt_len + tokenized["labels"][user_prompt_len:]
        return tokenized

    def collate(rows):
        width = max(len(r["input_ids"]) for r in rows)
        ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        labels = torch.full((len(rows), width), -100)
        for i, r in enumerate(rows):
            ids[i, :len(r["input_ids"])] = torch.tensor(r["input_ids"])
            labels[i, :len(r["labels"])] = torch.tensor(r["labels"])
        return ids, labels

    def lm_loss(ids, labels):
        logits = model(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)

    data = make_data(args.num_examples, args.seed)
    val_data = [generate_and_tokenize_prompt(p) for p in data[:args.val_set_size]]
    train_data = [generate_and_tokenize_prompt(p) for p in data[args.val_set_size:]]

    model = Decoder(tokenizer.vocab_size, args.cutoff_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    steps_per_epoch = len(train_data) // args.batch_size
    total = steps_per_epoch * args.num_epochs

    def schedule(step):
        if step < args.warmup_steps:
            return (step + 1) / args.warmup_steps
        return 0.5 * (1 + math.cos(math.pi * (step - args.warmup_steps) / max(1, total - args.warmup_steps)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)

    @torch.no_grad()
    def evaluate():
        model.eval()
        loss, n = 0.0, 0
        for i in range(0, len(val_data), 64):
            ids, labels = collate(val_data[i:i + 64])
            count = (labels[:, 1:] != -100).sum().item()
            loss += lm_loss(ids, labels).item() * count
            n += count
        exact = 0
        for point in data[:args.num_generate]:
            ids = tokenizer.encode(TEMPLATE.format(instruction=point["instruction"]), args.cutoff_len)
            start = len(ids)
            while len(ids) < args.cutoff_len:
                token = model(torch.tensor([ids]))[0, -1].argmax().item()
                if token == tokenizer.eos_token_id:
                    break
                ids.append(token)
            exact += tokenizer.decode(ids[start:]) == point["output"]
        model.train()
        return loss / n, exact / args.num_generate

    step, best = 0, float("inf")
    for epoch in range(args.num_epochs):
        random.shuffle(train_data)
        model.train()
        for i in range(steps_per_epoch):
            ids, labels = collate(train_data[i * args.batch_size:(i + 1) * args.batch_size])
            loss = lm_loss(ids, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step % args.logging_steps == 0:
                print(json.dumps({"loss": round(loss.item(), 4), "learning_rate": scheduler.get_last_lr()[0],
                                  "epoch": round(step / steps_per_epoch, 2)}), flush=True)
        val_loss, exact = evaluate()
        print(json.dumps({"eval_loss": round(val_loss, 4), "exact_match": exact, "epoch": epoch + 1}), flush=True)
        if val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), os.path.join(args.output_dir, "model.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_examples", type=int, default=13000)
    parser.add_argument("--val_set_size", type=int, default=1000)
    parser.add_argument("--num_generate", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_epochs", type=int, default=24)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--warmup_steps", type=int, default=100)
    parser.add_argument("--cutoff_len", type=int, default=144)
    parser.add_argument("--train_on_inputs", action="store_true")
    parser.add_argument("--no_eos_token", dest="add_eos_token", action="store_false")
    parser.add_argument("--logging_steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output_dir", default="runs/alpaca")
    train(parser.parse_args())
