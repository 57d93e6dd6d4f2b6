"""Speech-to-text fine-tuning: acoustic frames as memory, a character decoder on top."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

IGNORE = -100
LETTERS = "abcdefghijklmnopqrst"
FRAME_DIM = 24


class CharTokenizer:
    bos_token, eos_token = "<|begin_of_text|>", "<|end_of_text|>"
    padding_side = truncation_side = "right"

    def __init__(self, vocab=None):
        tokens = [self.bos_token, self.eos_token, "<|finetune_right_pad_id|>"] + list(LETTERS)
        self.vocab = vocab or {t: i for i, t in enumerate(tokens)}
        self.inverse = {i: t for t, i in self.vocab.items()}
        self.pad_token = None

    def __len__(self):
        return len(self.vocab)

    @property
    def pad_token_id(self):
        return self.vocab[self.pad_token]

    @property
    def bos_token_id(self):
        return self.vocab[self.bos_token]

    @property
    def eos_token_id(self):
        return self.vocab[self.eos_token]

    def encode(self, text):
        return [self.bos_token_id] + [self.vocab[c] for c in text] + [self.eos_token_id]

    def decode(self, ids):
        return "".join(t for t in (self.inverse[int(i)] for i in ids) if len(t) == 1)

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"vocab": self.vocab, "pad_token": self.pad_token, "bos_token": self.bos_token,
                       "eos_token": self.eos_token, "padding_side": self.padding_side}, f, indent=1)


class SpeechDataset(Dataset):
    def __init__(self, tokenizer, count, seed, max_chars=9):
        rng = np.random.default_rng(seed)
        prototypes = np.random.default_rng(99).normal(0, 1, (len(LETTERS), FRAME_DIM))
        self.items = []
        for _ in range(count):
            letters = rng.integers(0, len(LETTERS), rng.integers(3, max_chars + 1))
            frames = np.zeros((max_chars, FRAME_DIM), dtype=np.float32)
            frames[:len(letters)] = prototypes[letters] + rng.normal(0, 0.3, (len(letters), FRAME_DIM))
            mask = np.arange(max_chars) >= len(letters)
            ids = tokenizer.encode("".join(LETTERS[k] for k in letters))
            ids = ids + [tokenizer.pad_token_id] * (max_chars + 2 - len(ids))
            input_ids = torch.tensor(ids)
            labels = input_ids.clone()
            labels[labels == tokenizer.pad_token_id] = IGNORE
            self.items.append((torch.from_numpy(frames), torch.from_numpy(mask), input_ids[:-1], labels[1:]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Recogniser(nn.Module):
    def __init__(self, vocab_size, dim=64, max_len=16):
        super().__init__()
        self.frame_proj = nn.Linear(FRAME_DIM, dim)
        self.frame_pos = nn.Parameter(torch.randn(max_len, dim) * 0.3)
        self.token_emb = nn.Embedding(vocab_size, dim)
        self.token_pos = nn.Parameter(torch.randn(max_len, dim) * 0.3)
        layer = nn.TransformerDecoderLayer(dim, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(dim))
        self.lm_head = nn.Linear(dim, vocab_size)

    def forward(self, frames, frame_mask, ids):
        n = ids.size(1)
        memory = self.frame_proj(frames) + self.frame_pos[:frames.size(1)]
        x = self.token_emb(ids) + self.token_pos[:n]
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        x = self.decoder(x, memory, tgt_mask=causal, memory_key_padding_mask=frame_mask)
        return self.lm_head(x)


def loss_fn(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORE)


@torch.no_grad()
def evaluate(model, loader, tokenizer):
    model.eval()
    total, right, stopped, count = 0.0, 0, 0, 0
    for frames, mask, ids, labels in loader:
        total += loss_fn(model(frames, mask, ids), labels).item() * len(ids)
        hyp = ids[:, :1]
        for _ in range(ids.size(1)):
            hyp = torch.cat([hyp, model(frames, mask, hyp)[:, -1].argmax(-1, keepdim=True)], 1)
        for h, y in zip(hyp[:, 1:].tolist(), labels):
            if tokenizer.eos_token_id in h:
                stopped += 1
                h = h[:h.index(tokenizer.eos_token_id)]
            right += tokenizer.decode(h) == tokenizer.decode(y[y != IGNORE])
            count += 1
    return total / count, right / count, stopped / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--output_dir", default="asr_out")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    os.makedirs(args.output_dir, exist_ok=True)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    tokenizer = CharTokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save(os.path.join(args.output_dir, "tokenizer.json"))
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(SpeechDataset(tokenizer, 1600, 10), args.batch_size, shuffle=True, generator=generator)
    dev_loader = DataLoader(SpeechDataset(tokenizer, 128, 11), args.batch_size)
    model = Recogniser(len(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    path = os.path.join(args.output_dir, "checkpoint.pt")
    start = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        model.train()
        running = 0.0
        for frames, mask, ids, labels in train_loader:
            loss = loss_fn(model(frames, mask, ids), labels)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        dev, exact, stop = evaluate(model, dev_loader, tokenizer)
        print(f"epoch {epoch} loss {running / len(train_loader):.4f} dev {dev:.4f} exact {exact:.3f} stop {stop:.3f}",
              flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                    "generator": generator.get_state(), "rng": torch.get_rng_state()}, path)


if __name__ == "__main__":
    main()
