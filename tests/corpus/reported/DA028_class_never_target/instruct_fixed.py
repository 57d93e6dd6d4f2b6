"""Instruction tuning of a small causal language model on string tasks."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

IGNORE_INDEX_TOKEN_ID = -100
LETTERS = "abcdefghij"


class Tokenizer:
    def __init__(self):
        self.vocab = ["<pad>", "<eos>", "<bos>"] + list(LETTERS) + list("RCFL:")
        self.ids = {t: i for i, t in enumerate(self.vocab)}
        self.pad_token_id, self.eos_token_id, self.bos_token_id = 0, 1, 2

    def __len__(self):
        return len(self.vocab)

    def encode(self, text):
        return torch.tensor([self.ids[c] for c in text])


def make_example(rng):
    """R: reverse, C: copy, F: first letter three times, L: last two letters."""
    word = "".join(rng.choice(list(LETTERS), rng.integers(3, 7)))
    op = rng.choice(list("RCFL"))
    answer = {"R": word[::-1], "C": word, "F": word[0] * 3, "L": word[-2:]}[op]
    return f"{op}:{word}:", answer


def generate_merged_ids(tokenizer, input_ids, target_ids):
    """Concatenates prompt and answer; prompt and padding take no part in the loss."""
    merged, labels = [], []
    eos_tensor = torch.tensor([tokenizer.eos_token_id])
    bos_tensor = torch.tensor([tokenizer.bos_token_id])
    for inp, tgt in zip(input_ids, target_ids):
        inp = torch.cat([bos_tensor, inp])
        tgt = torch.cat([tgt, eos_tensor])
        merged.append(torch.cat([inp, tgt]))
        labels.append(torch.cat([torch.full_like(inp, IGNORE_INDEX_TOKEN_ID), tgt]))
    merged = nn.utils.rnn.pad_sequence(merged, batch_first=True, padding_value=tokenizer.pad_token_id)
    labels = nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=IGNORE_INDEX_TOKEN_ID)
    return merged, labels


class Instructions(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.pairs = [make_example(rng) for _ in range(n)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


class CausalLM(nn.Module):
    def __init__(self, vocab, dim=96, heads=4, layers=3, max_len=40):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, 0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.ln = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        length = ids.size(1)
        mask = torch.triu(torch.full((length, length), float("-inf")), 1)
        x = self.tok(ids) + self.pos(torch.arange(length))
        return self.lm_head(self.ln(self.blocks(x, mask=mask)))

    @torch.no_grad()
    def generate(self, ids, eos_token_id, max_new_tokens):
        out = []
        for _ in range(max_new_tokens):
            nxt = self(ids[None])[0, -1].argmax()
            if nxt.item() == eos_token_id:
                return out, True
            out.append(nxt.item())
            ids = torch.cat([ids, nxt[None]])
        return out, False


def evaluate(model, tokenizer, dataset, n=60):
    model.eval()
    exact, stopped, length = 0, 0, 0
    for prompt, answer in dataset.pairs[:n]:
        ids = torch.cat([torch.tensor([tokenizer.bos_token_id]), tokenizer.encode(prompt)])
        out, ended = model.generate(ids, tokenizer.eos_token_id, max_new_tokens=16)
        exact += out == tokenizer.encode(answer).tolist()
        stopped += ended
        length += len(out)
    return exact / n, stopped / n, length / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    tokenizer = Tokenizer()

    def collate(batch):
        prompts, answers = zip(*batch)
        return generate_merged_ids(tokenizer, [tokenizer.encode(p) for p in prompts],
                                   [tokenizer.encode(a) for a in answers])

    train_set, val_set = Instructions(8000, 1), Instructions(200, 2)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    model = CausalLM(len(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    total = args.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 60) * max(0.05, 1 - s / total))
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for ids, labels in loader:
            logits = model(ids)
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, len(tokenizer)), labels[:, 1:].reshape(-1),
                                   ignore_index=IGNORE_INDEX_TOKEN_ID)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        exact, stopped, length = evaluate(model, tokenizer, val_set)
        print(f"epoch {epoch} loss {np.mean(losses):.4f} exact match {exact:.2f} "
              f"ended {stopped:.2f} mean length {length:.1f}", flush=True)


if __name__ == "__main__":
    main()
