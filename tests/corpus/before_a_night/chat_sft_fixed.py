"""
Supervised warm-up of a small agent model on scripted trajectories.

Every sample is one user turn and one assistant turn; the loss is taken on the
assistant turn. Before RL we want the model to answer and then to end its turn.
"""
import argparse
import dataclasses
import math
import os
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class CharTokenizer:
    def __init__(self):
        chars = "0123456789abcdefghijklmnopqrstuvwxyz +-=?:>,\n"
        self.specials = ["<|im_start|>", "<|im_end|>"]
        self.itos = self.specials + list(chars)
        self.stoi = {c: i for i, c in enumerate(self.itos)}
        self.bos_token_id = self.stoi["<|im_start|>"]
        self.eos_token_id = self.stoi["<|im_end|>"]
        # no dedicated pad token in this vocabulary
        self.pad_token_id = self.eos_token_id

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [self.stoi[c] for c in text]

    def decode(self, ids):
        return "".join(self.itos[i] for i in ids if i >= len(self.specials))


class TrajectorySampler:
    """Scripted environment: small tasks with a unique answer of varying length."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def sample(self):
        r = self.rng
        task = r.randrange(4)
        if task == 0:
            a, b = r.randrange(100), r.randrange(100)
            return f"{a}+{b}=?", str(a + b)
        word = "".join(r.choice("abcdefgh") for _ in range(r.randint(2, 7)))
        if task == 1:
            return f"reverse {word}", word[::-1]
        if task == 2:
            return f"sort {word}", "".join(sorted(word))
        return f"double {word}", "".join(c + c for c in word)


class TensorHelper:
    def __init__(self, tokenizer, max_length):
        self.tokenizer = tokenizer
        self.pad_token_id = tokenizer.pad_token_id
        self.max_length = max_length

    def create_attention_mask(self, input_ids):
        # real tokens up to and including the first end of turn
        ends = (input_ids == self.tokenizer.eos_token_id).int()
        return torch.where(ends.cumsum(1) - ends == 0, 1, 0)

    def collate(self, pairs):
        tok = self.tokenizer
        rows, prompt_lengths = [], []
        for question, answer in pairs:
            prompt = [tok.bos_token_id] + tok.encode(f"user:{question}\nassistant:")
            rows.append(prompt + tok.encode(answer) + [tok.eos_token_id])
            prompt_lengths.append(len(prompt))
        width = min(self.max_length, max(map(len, rows)))
        input_ids = torch.full((len(rows), width), self.pad_token_id)
        for i, row in enumerate(rows):
            input_ids[i, :len(row)] = torch.tensor(row)[:width]
        attention_mask = self.create_attention_mask(input_ids)
        positions = torch.arange(width)[None]
        loss_mask = attention_mask.bool() & (positions >= torch.tensor(prompt_lengths)[:, None])
        labels = input_ids.masked_fill(~loss_mask, -100)
        return input_ids, attention_mask, labels


@dataclasses.dataclass
class ModelConfig:
    vocab_size: int
    block_size: int = 64
    n_layer: int = 3
    n_head: int = 4
    n_embd: int = 96


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_head = cfg.n_head
        self.ln1, self.ln2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.proj = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(), nn.Linear(4 * cfg.n_embd, cfg.n_embd))

    def forward(self, x, bias):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, self.n_head, C // self.n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class CausalLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.wte = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln_f = nn.LayerNorm(cfg.n_embd)
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)

    def forward(self, input_ids, attention_mask=None):
        T = input_ids.size(1)
        allowed = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        if attention_mask is not None:
            # a query may always see itself, so that no row is empty
            allowed = allowed & (attention_mask.bool()[:, None, None, :] | torch.eye(T, dtype=torch.bool))
        x = self.wte(input_ids) + self.wpe(torch.arange(T))
        for block in self.blocks:
            x = block(x, allowed)
        return self.lm_head(self.ln_f(x))


@torch.no_grad()
def generate(model, tokenizer, question, max_new_tokens=24):
    ids = torch.tensor([[tokenizer.bos_token_id] + tokenizer.encode(f"user:{question}\nassistant:")])
    start = ids.size(1)
    for _ in range(max_new_tokens):
        nxt = model(ids)[:, -1].argmax(-1, keepdim=True)
        if nxt.item() == tokenizer.eos_token_id:
            return tokenizer.decode(ids[0, start:].tolist()), True
        ids = torch.cat([ids, nxt], dim=1)
    return tokenizer.decode(ids[0, start:].tolist()), False


def evaluate(model, tokenizer, pairs):
    model.eval()
    exact = stopped = 0
    for question, answer in pairs:
        text, done = generate(model, tokenizer, question)
        exact += text == answer and done
        stopped += done
    model.train()
    return exact / len(pairs), stopped / len(pairs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=30000)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--eval-every", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="outputs/sft")
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    tokenizer = CharTokenizer()
    helper = TensorHelper(tokenizer, max_length=64)
    train_env, eval_env = TrajectorySampler(args.seed), TrajectorySampler(args.seed + 10_000)
    eval_pairs = [eval_env.sample() for _ in range(40)]

    model = CausalLM(ModelConfig(vocab_size=len(tokenizer)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / args.warmup, 1.0) * 0.5 * (
        1 + math.cos(math.pi * min(1.0, s / args.max_steps))))
    start = time.time()
    for step in range(1, args.max_steps + 1):
        input_ids, attention_mask, labels = helper.collate([train_env.sample() for _ in range(args.batch_size)])
        logits = model(input_ids, attention_mask)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1), ignore_index=-100)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {schedule.get_last_lr()[0]:.2e} {1000 * (time.time() - start) / step:.0f} ms/step", flush=True)
        if step % args.eval_every == 0:
            exact, stopped = evaluate(model, tokenizer, eval_pairs)
            print(f"step {step} exact {exact:.3f} finished turns {stopped:.3f}", flush=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(), "step": step}, os.path.join(args.out, "last.pt"))


if __name__ == "__main__":
    main()
