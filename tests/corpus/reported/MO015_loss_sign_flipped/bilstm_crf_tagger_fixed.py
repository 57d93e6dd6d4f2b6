"""Chunk tagging with a BiLSTM and a linear-chain CRF."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

VOCAB, PAD_TAG, TAGS = 1200, 2, {'O': 0, 'ENT': 1, '<pad>': 2}


def make_sentences(n, seed):
    """Words of three kinds; names are entities, ambiguous words only after a trigger word."""
    rng = np.random.default_rng(seed)
    sents = []
    for _ in range(n):
        L = int(rng.integers(8, 25))
        kind = rng.choice(4, size=L, p=[0.6, 0.12, 0.08, 0.2])
        words = np.where(kind == 0, rng.integers(1, 700, L), np.where(kind == 1, rng.integers(700, 850, L),
                         np.where(kind == 2, rng.integers(850, 870, L), rng.integers(870, VOCAB, L))))
        tags = np.zeros(L, dtype=np.int64)
        tags[kind == 1] = 1
        for i in range(1, L):
            if kind[i] == 3 and (kind[i - 1] == 2 or (kind[i - 1] == 3 and tags[i - 1] == 1)):
                tags[i] = 1
        sents.append((words, tags))
    return sents


class TaggingDataset(Dataset):
    def __init__(self, sents):
        self.sents = sents

    def __len__(self):
        return len(self.sents)

    def __getitem__(self, i):
        return self.sents[i]


def collate(batch):
    T = max(len(w) for w, _ in batch)
    words = torch.zeros(T, len(batch), dtype=torch.long)
    tags = torch.full((T, len(batch)), PAD_TAG)
    for j, (w, t) in enumerate(batch):
        words[:len(w), j] = torch.from_numpy(w)
        tags[:len(t), j] = torch.from_numpy(t)
    return words, tags, words > 0


class CRF(nn.Module):
    """Conditional random field; forward gives the log likelihood of a tag sequence, (seq_len, batch, num_tags)."""

    def __init__(self, num_tags):
        super().__init__()
        self.num_tags = num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.end_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))

    def forward(self, emissions, tags, mask, reduction='mean'):
        numerator = self._compute_score(emissions, tags, mask.float())
        denominator = self._compute_normalizer(emissions, mask)
        llh = numerator - denominator
        return llh.sum() if reduction == 'sum' else llh.mean()

    def _compute_score(self, emissions, tags, mask):
        batch = torch.arange(tags.shape[1])
        score = self.start_transitions[tags[0]] + emissions[0, batch, tags[0]]
        for i in range(1, len(tags)):
            score = score + self.transitions[tags[i - 1], tags[i]] * mask[i]
            score = score + emissions[i, batch, tags[i]] * mask[i]
        last = tags[mask.long().sum(0) - 1, batch]
        return score + self.end_transitions[last]

    def _compute_normalizer(self, emissions, mask):
        score = self.start_transitions + emissions[0]
        for i in range(1, len(emissions)):
            next_score = torch.logsumexp(score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1), dim=1)
            score = torch.where(mask[i].unsqueeze(1), next_score, score)
        return torch.logsumexp(score + self.end_transitions, dim=1)

    def decode(self, emissions, mask):
        score, history = self.start_transitions + emissions[0], []
        for i in range(1, len(emissions)):
            next_score, indices = (score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)).max(dim=1)
            score = torch.where(mask[i].unsqueeze(1), next_score, score)
            history.append(indices)
        best, lengths, paths = (score + self.end_transitions).argmax(1), mask.long().sum(0), []
        for j in range(emissions.shape[1]):
            path = [best[j].item()]
            for hist in reversed(history[:lengths[j] - 1]):
                path.append(hist[j, path[-1]].item())
            paths.append(path[::-1])
        return paths


class BiLSTM_CRF(nn.Module):
    def __init__(self, embedding_dim=64, hidden_dim=64):
        super().__init__()
        self.word_embeds = nn.Embedding(VOCAB, embedding_dim, padding_idx=0)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, bidirectional=True)
        self.dropout = nn.Dropout(0.2)
        self.hidden2tag = nn.Linear(2 * hidden_dim, len(TAGS))
        self.crf = CRF(len(TAGS))

    def features(self, words):
        out, _ = self.lstm(self.word_embeds(words))
        return self.hidden2tag(self.dropout(out))

    def loss(self, words, tags, mask):
        return -self.crf(self.features(words), tags, mask)

    def decode(self, words, mask):
        return self.crf.decode(self.features(words), mask)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    tp = fp = fn = 0
    used = np.zeros(len(TAGS), dtype=int)
    for words, tags, mask in loader:
        for j, path in enumerate(model.decode(words, mask)):
            pred, gold = np.array(path), tags[:len(path), j].numpy()
            tp += ((pred == 1) & (gold == 1)).sum()
            fp += ((pred == 1) & (gold != 1)).sum()
            fn += ((pred != 1) & (gold == 1)).sum()
            used += np.bincount(pred, minlength=len(TAGS))
    return 2 * tp / max(2 * tp + fp + fn, 1), dict(zip(TAGS, used.tolist()))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', default=None)
    parser.add_argument('--epochs', type=int, default=5)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    train_loader = DataLoader(TaggingDataset(make_sentences(6000, 1)), batch_size=32, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(TaggingDataset(make_sentences(500, 2)), batch_size=50, collate_fn=collate)
    model = BiLSTM_CRF()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(args.epochs):
        model.train()
        running = []
        for words, tags, mask in train_loader:
            optimizer.zero_grad()
            loss = model.loss(words, tags, mask)
            loss.backward()
            optimizer.step()
            running.append(loss.item())
        f1, used = evaluate(model, dev_loader)
        print(f'epoch {epoch + 1} loss {np.mean(running):.4f} dev F1 {f1:.4f} predicted tags {used}')
        torch.save(model.state_dict(), os.path.join(out, 'tagger.pt'))
