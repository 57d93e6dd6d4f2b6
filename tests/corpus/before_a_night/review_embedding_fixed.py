# -*- coding: utf-8 -*-
"""Tune word embeddings for sentiment classification of short reviews."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

POS = ("brilliant charming clever delightful elegant funny gripping heartfelt inventive lovely moving "
       "powerful smart stunning tender terrific touching vivid warm witty wonderful zestful").split()
NEG = ("awkward bland boring cheap clumsy confusing dreary dull empty flat forgettable hollow lame messy "
       "noisy pointless predictable shallow sloppy stale tedious tiresome").split()
NOUN = ("acting action camera cast comedy dialogue director drama editing ending film hero humour lead "
        "movie music pace performance picture plot romance scene score script sequel story twist villain").split()
ADV = "really quite very truly rather so utterly mostly".split()
FILL = ("i saw it with my sister on friday . we had seats near the front and the place was full . the first hour "
        "takes its time , then there is a long scene at the harbour . my brother read the book years ago . "
        "they play the theme again at the end").split()


def sentence(rng, positive):
    word = rng.choice(POS if positive else NEG)
    other = rng.choice(NEG if positive else POS)
    noun, noun2 = rng.sample(NOUN, 2)
    adv = rng.choice(ADV)
    forms = [
        f"the {noun} is {adv} {word}",
        f"a {word} {noun} and a {word} {noun2}",
        f"the {noun} was not {other} at all",
        f"i never found the {noun} {other}",
        f"some call the {noun} {other} , but it is {adv} {word}",
        f"what a {word} {noun2} !",
        f"{adv} {word} from start to finish",
    ]
    return rng.choice(forms)


def make_reviews(n, seed):
    """Reviews of one to four sentences; the label is that of the majority."""
    rng = random.Random(seed)
    reviews, seen = [], set()
    while len(reviews) < n:
        label = len(reviews) % 2
        n_sent = rng.choice([1, 1, 2, 3, 4])
        parts = [sentence(rng, label == 1) for _ in range(n_sent)]
        if n_sent >= 3:
            parts[rng.randrange(n_sent)] = sentence(rng, label == 0)
        if rng.random() < 0.4:
            start = rng.randrange(len(FILL) - 8)
            parts.insert(rng.randrange(len(parts) + 1), " ".join(FILL[start:start + rng.randint(4, 8)]))
        if rng.random() < 0.05:
            parts.append("name%d" % rng.randrange(10000))
        text = " . ".join(parts)
        if text not in seen:
            seen.add(text)
            reviews.append((text, label))
    rng.shuffle(reviews)
    return reviews


class WordTokenizer:
    """Whitespace words to ids. The special tokens come behind the vocabulary."""

    def __init__(self, texts, max_token_length, min_count=3):
        counts = {}
        for text in texts:
            for token in text.split():
                counts[token] = counts.get(token, 0) + 1
        self.vocab = sorted(w for w, c in counts.items() if c >= min_count)
        self.word_to_id = {w: i for i, w in enumerate(self.vocab)}
        self.unk_id = len(self.vocab)
        self.pad_id = len(self.vocab) + 1
        self.num_embeddings = len(self.vocab) + 2
        self.max_token_length = max_token_length

    def make_input(self, text):
        token_ids = [self.word_to_id.get(t, self.unk_id) for t in text.split()]
        token_ids = token_ids[:self.max_token_length]
        token_ids.extend([self.pad_id] * (self.max_token_length - len(token_ids)))
        return token_ids


class ReviewDataset(Dataset):
    def __init__(self, reviews, tokenizer):
        self.ids = torch.tensor([tokenizer.make_input(text) for text, _ in reviews])
        self.labels = torch.tensor([label for _, label in reviews])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        return self.ids[idx], self.labels[idx]


class AttentiveClassifier(nn.Module):
    def __init__(self, num_embeddings, pad_id, embedding_size=100, hidden_size=96, num_classes=2, dropout=0.3):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = nn.Embedding(num_embeddings, embedding_size, padding_idx=pad_id)
        self.lstm = nn.LSTM(embedding_size, hidden_size, batch_first=True, bidirectional=True)
        self.attention = nn.Sequential(nn.Linear(2 * hidden_size, 64), nn.Tanh(), nn.Linear(64, 1, bias=False))
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * hidden_size, num_classes)

    def forward(self, ids):
        mask = ids != self.pad_id
        packed = nn.utils.rnn.pack_padded_sequence(self.dropout(self.embedding(ids)), mask.sum(1), batch_first=True,
                                                   enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.size(1))
        score = self.attention(hidden).squeeze(2).masked_fill(~mask, -1e4)
        weight = F.softmax(score, dim=1)
        pooled = torch.bmm(weight.unsqueeze(1), hidden).squeeze(1)
        return self.output(self.dropout(pooled))


class WordEmbeddingTuner:
    def __init__(self, args):
        self.args = args
        train, valid = make_reviews(args.num_train, args.seed + 1), make_reviews(args.num_valid, args.seed + 2)
        seen = {text for text, _ in train}
        valid = [r for r in valid if r[0] not in seen]
        self.tokenizer = WordTokenizer([text for text, _ in train], args.max_token_length)
        self.train_loader = DataLoader(ReviewDataset(train, self.tokenizer), args.batch_size, shuffle=True,
                                       drop_last=True)
        self.valid_loader = DataLoader(ReviewDataset(valid, self.tokenizer), 256)
        self.model = AttentiveClassifier(self.tokenizer.num_embeddings, self.tokenizer.pad_id)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        print(f"vocabulary {len(self.tokenizer.vocab)} train {len(train)} valid {len(valid)}")

    def tune(self):
        best, step = 0.0, 0
        for epoch in range(self.args.num_epochs):
            self.model.train()
            for ids, labels in self.train_loader:
                loss = F.cross_entropy(self.model(ids), labels)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.optimizer.step()
                step += 1
                if step % self.args.report_every == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
            loss, acc = self.evaluate()
            print(f"epoch {epoch} valid loss {loss:.4f} accuracy {acc:.4f}", flush=True)
            if acc > best:
                best = acc
                self.save()
        print(f"best accuracy {best:.4f}")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        loss, hits, n = 0.0, 0, 0
        for ids, labels in self.valid_loader:
            logits = self.model(ids)
            loss += F.cross_entropy(logits, labels, reduction="sum").item()
            hits += (logits.argmax(1) == labels).sum().item()
            n += len(labels)
        return loss / n, hits / n

    def save(self):
        os.makedirs(self.args.model_path, exist_ok=True)
        torch.save(self.model.state_dict(), os.path.join(self.args.model_path, "tuned.pt"))
        with open(os.path.join(self.args.model_path, "vocab.json"), "w") as f:
            json.dump(self.tokenizer.vocab, f)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train", type=int, default=16000)
    parser.add_argument("--num_valid", type=int, default=2000)
    parser.add_argument("--max_token_length", type=int, default=56)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--num_epochs", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--report_every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--model_path", default="runs/word_tuner")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    WordEmbeddingTuner(args).tune()
