"""Train a small process reward model: every reasoning step of a worked calculation gets a +/- verdict."""
import argparse
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SPECIAL = ["<pad>", "<bos>", "ки", "=", ";"]
NUMBERS = [str(n) for n in range(10)]
OPS = {"next": lambda n: (n + 1) % 10, "double": lambda n: 2 * n % 10, "minus": lambda n: (9 - n) % 10}
TOKENS = SPECIAL + NUMBERS + list(OPS) + ["good", "bad"]
STOI = {t: i for i, t in enumerate(TOKENS)}
PAD, PLACEHOLDER = STOI["<pad>"], STOI["ки"]
REWARD_TOKENS = [STOI["good"], STOI["bad"]]
IGNORE_INDEX = -100


def make_solution(rng, max_steps):
    tokens, labels = ["<bos>"], [IGNORE_INDEX]
    for _ in range(rng.randint(3, max_steps)):
        n, op = rng.randint(0, 9), rng.choice(list(OPS))
        value = OPS[op](n)
        right = rng.random() < 0.55
        if not right:
            value = (value + rng.randint(1, 9)) % 10
        tokens += [op, str(n), "=", str(value), "ки", ";"]
        labels += [IGNORE_INDEX] * 4 + [0 if right else 1, IGNORE_INDEX]
    return [STOI[t] for t in tokens], labels


class ProcessRewardDataset(Dataset):
    def __init__(self, size, max_steps, seed):
        rng = random.Random(seed)
        self.rows = [make_solution(rng, max_steps) for _ in range(size)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

    @staticmethod
    def collate_fn(batch):
        longest = max(len(ids) for ids, _ in batch)
        ids = torch.full((len(batch), longest), PAD)
        labels = torch.full((len(batch), longest), IGNORE_INDEX)
        for i, (x, y) in enumerate(batch):
            ids[i, : len(x)] = torch.tensor(x)
            labels[i, : len(y)] = torch.tensor(y)
        return ids, labels


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, L, D))
        return x + self.mlp(self.ln2(x))


class CausalLM(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.local = nn.Conv1d(dim, dim, 5)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        nn.init.normal_(self.tok.weight, std=0.3)
        nn.init.normal_(self.pos.weight, std=0.1)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        x = x + self.local(F.pad(x.transpose(1, 2), (4, 0))).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


class PRMLoss(nn.Module):
    """Cross entropy between the reward tokens at the placeholder positions."""

    def __init__(self, placeholder_token_id, reward_token_ids):
        super().__init__()
        self.loss = nn.CrossEntropyLoss(ignore_index=IGNORE_INDEX)
        self.placeholder_token_id = placeholder_token_id
        self.reward_token_ids = reward_token_ids

    def forward(self, inputs, logits, labels):
        placeholder_mask = inputs == self.placeholder_token_id
        logits = logits[placeholder_mask]
        labels = labels[placeholder_mask]
        logits = logits[..., self.reward_token_ids]
        loss = self.loss(logits, labels)
        acc = (logits.argmax(dim=-1) == labels).float().mean()
        return loss, acc


def evaluate(model, loader, loss_fn):
    model.eval()
    total_loss, total_acc = 0.0, 0.0
    with torch.no_grad():
        for ids, labels in loader:
            loss, acc = loss_fn(ids, model(ids), labels)
            total_loss += loss.item()
            total_acc += acc.item()
    model.train()
    return total_loss / len(loader), total_acc / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_size", type=int, default=11200)
    parser.add_argument("--eval_size", type=int, default=640)
    parser.add_argument("--max_steps", type=int, default=7)
    parser.add_argument("--micro_batch", type=int, default=32)
    parser.add_argument("--max_epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_set = ProcessRewardDataset(args.train_size, args.max_steps, args.seed)
    eval_set = ProcessRewardDataset(args.eval_size, args.max_steps, args.seed + 1)
    train_loader = DataLoader(train_set, args.micro_batch, shuffle=True, drop_last=True,
                              collate_fn=ProcessRewardDataset.collate_fn)
    eval_loader = DataLoader(eval_set, 64, collate_fn=ProcessRewardDataset.collate_fn)

    model = CausalLM(len(TOKENS))
    loss_fn = PRMLoss(PLACEHOLDER, REWARD_TOKENS)
    optim = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    total_steps = args.max_epochs * len(train_loader)
    warmup = 50

    def lr_at(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / max(1, total_steps - warmup)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optim, lr_at)
    step, loss_mean, acc_mean = 0, 0.7, 0.5
    for epoch in range(args.max_epochs):
        model.train()
        for ids, labels in train_loader:
            loss, acc = loss_fn(ids, model(ids), labels)
            optim.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            scheduler.step()
            step += 1
            loss_mean = 0.95 * loss_mean + 0.05 * loss.item()
            acc_mean = 0.95 * acc_mean + 0.05 * acc.item()
            if step % 100 == 0:
                print(f"epoch {epoch} step {step}/{total_steps} loss {loss_mean:.4f} acc {acc_mean:.3f} "
                      f"lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        eval_loss, eval_acc = evaluate(model, eval_loader, loss_fn)
        print(f"epoch {epoch} eval_loss {eval_loss:.4f} eval_acc {eval_acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
