"""Chemical-disease relation classification with word vectors from a large corpus."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

RELATIONS = ['NONE', 'INDUCES', 'TREATS', 'WORSENS', 'MARKER_OF']


def build_corpus(n_words, dim, seed):
    """A vocabulary of words, each belonging to a sense; vectors sit around sense centres."""
    rng = np.random.RandomState(seed)
    n_senses = 2 * len(RELATIONS)
    centers = rng.normal(0, 1, size=(n_senses, dim))
    senses = rng.randint(0, n_senses, size=n_words)
    words = ['w%05d' % i for i in range(n_words)]
    vectors = {w: (centers[s] + 1.0 * rng.normal(size=dim)).astype(np.float32) for w, s in zip(words, senses)}
    return words, senses, vectors


class CDRDataset(Dataset):
    def __init__(self, words, senses, allowed, n_docs, word2id, seed):
        rng = np.random.RandomState(seed)
        by_sense = [[i for i in allowed if senses[i] == s] for s in range(2 * len(RELATIONS))]
        self.samples = []
        for _ in range(n_docs):
            label = rng.randint(len(RELATIONS))
            length = rng.randint(12, 25)
            # neutral senses are the upper half, trigger senses the lower half
            sent = [rng.choice(by_sense[len(RELATIONS) + rng.randint(len(RELATIONS))]) for _ in range(length)]
            for pos in rng.choice(length, 3, replace=False):
                sent[pos] = rng.choice(by_sense[label])
            chem, dis = sorted(rng.choice(length, 2, replace=False))
            ids = [word2id[words[i]] for i in sent]
            self.samples.append((ids, int(chem), int(dis), int(label)))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


def collate(batch):
    ids = pad_sequence([torch.tensor(b[0]) for b in batch], batch_first=True)
    lengths = torch.tensor([len(b[0]) for b in batch])
    chem, dis, label = (torch.tensor([b[k] for b in batch]) for k in (1, 2, 3))
    return ids, lengths, chem, dis, label


class EmbedLayer(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, dropout, ignore=None, freeze=False, pretrained=None,
                 mapping=None):
        super().__init__()
        self.freeze = freeze
        self.embedding = nn.Embedding(num_embeddings=num_embeddings, embedding_dim=embedding_dim, padding_idx=ignore)
        if pretrained:
            self.load_pretrained(pretrained, mapping)
        self.drop = nn.Dropout(dropout)

    def load_pretrained(self, pretrained, mapping):
        found = 0
        pret_embeds = self.embedding.weight.data.clone()
        for word, idx in mapping.items():
            if word in pretrained:
                pret_embeds[idx] = torch.from_numpy(pretrained[word])
                found += 1
        self.embedding.from_pretrained(pret_embeds, freeze=self.freeze)
        print('Found pre-trained word embeddings: {} of {}'.format(found, len(mapping)))

    def forward(self, xs):
        return self.drop(self.embedding(xs))


class EncoderLSTM(nn.Module):
    def __init__(self, input_size, rnn_size):
        super().__init__()
        self.enc = nn.LSTM(input_size, rnn_size, batch_first=True, bidirectional=True)

    def forward(self, embeds, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(embeds, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.enc(packed)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]


class RelationModel(nn.Module):
    def __init__(self, params, mapping, pretrained):
        super().__init__()
        self.word_embed = EmbedLayer(len(mapping) + 1, params.word_dim, params.drop_i, ignore=0,
                                     freeze=params.freeze, pretrained=pretrained, mapping=mapping)
        self.encoder = EncoderLSTM(params.word_dim, params.lstm_dim)
        self.out = nn.Sequential(nn.Linear(6 * params.lstm_dim, params.lstm_dim), nn.ReLU(),
                                 nn.Dropout(params.drop_o), nn.Linear(params.lstm_dim, len(RELATIONS)))

    def forward(self, ids, lengths, chem, dis):
        enc = self.encoder(self.word_embed(ids), lengths)
        rows = torch.arange(len(ids))
        valid = (ids[:, :enc.size(1)] != 0).unsqueeze(-1)
        pooled = enc.masked_fill(~valid, -1e4).max(1)[0]
        return self.out(torch.cat([enc[rows, chem], enc[rows, dis], pooled], dim=1))


def evaluate(model, loader):
    model.eval()
    tp, pred_pos, gold_pos, correct, total = 0, 0, 0, 0, 0
    with torch.no_grad():
        for ids, lengths, chem, dis, label in loader:
            pred = model(ids, lengths, chem, dis).argmax(1)
            correct, total = correct + int((pred == label).sum()), total + len(label)
            tp += int(((pred == label) & (label > 0)).sum())
            pred_pos, gold_pos = pred_pos + int((pred > 0).sum()), gold_pos + int((label > 0).sum())
    p, r = tp / max(pred_pos, 1), tp / max(gold_pos, 1)
    return 2 * p * r / max(p + r, 1e-9), correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--vocab', type=int, default=4000)
    parser.add_argument('--word_dim', type=int, default=64)
    parser.add_argument('--lstm_dim', type=int, default=64)
    parser.add_argument('--drop_i', type=float, default=0.3)
    parser.add_argument('--drop_o', type=float, default=0.3)
    parser.add_argument('--freeze', action='store_true')
    parser.add_argument('--train_docs', type=int, default=1600)
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--epochs', type=int, default=10)
    parser.add_argument('--lr', type=float, default=0.001)
    parser.add_argument('--gc', type=float, default=10)
    parser.add_argument('--seed', type=int, default=0)
    params = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(params.seed), np.random.seed(params.seed), torch.manual_seed(params.seed)

    words, senses, vectors = build_corpus(params.vocab, params.word_dim, params.seed)
    word2id = {w: i + 1 for i, w in enumerate(words)}
    order = np.random.RandomState(1).permutation(params.vocab)
    train_words, dev_words = order[:params.vocab // 2], order[params.vocab * 9 // 20:]
    train_set = CDRDataset(words, senses, train_words, params.train_docs, word2id, seed=10)
    dev_set = CDRDataset(words, senses, dev_words, 400, word2id, seed=11)
    train_loader = DataLoader(train_set, params.batch, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(dev_set, 100, collate_fn=collate)

    model = RelationModel(params, word2id, vectors)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=params.lr, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(1, params.epochs + 1):
        model.train()
        total, seen, hits = 0.0, 0, 0
        for ids, lengths, chem, dis, label in train_loader:
            optimizer.zero_grad()
            logits = model(ids, lengths, chem, dis)
            loss = criterion(logits, label)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), params.gc)
            optimizer.step()
            total += loss.item() * len(label)
            hits, seen = hits + int((logits.argmax(1) == label).sum()), seen + len(label)
        f1, acc = evaluate(model, dev_loader)
        best = max(best, f1)
        print('Epoch %2d | TRAIN loss %.4f acc %.3f | DEV F1 %.3f acc %.3f'
              % (epoch, total / seen, hits / seen, f1, acc), flush=True)
    print('best DEV F1 %.3f' % best)


if __name__ == '__main__':
    main()
