# Short news-title classification, TextCNN on characters.
import argparse
import random
import time
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

UNK, PAD = '<UNK>', '<PAD>'
MAX_VOCAB_SIZE = 10000
CLASSES = ['finance', 'realty', 'stocks', 'education', 'science', 'society', 'politics', 'sports', 'game', 'film']


def make_titles(n, seed):
    """Titles of 6-30 characters; every topic has its own words next to common ones."""
    words_rng = np.random.default_rng(2020)
    base = 0x4E00
    common = [''.join(chr(base + int(c)) for c in words_rng.integers(0, 900, words_rng.integers(1, 3))) for _ in range(400)]
    topical = [[''.join(chr(base + int(c)) for c in words_rng.integers(0, 2600, words_rng.integers(2, 4)))
                for _ in range(150)] for _ in CLASSES]
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        label = int(rng.integers(len(CLASSES)))
        n_words = int(rng.integers(3, 13))
        title = ''
        for _ in range(n_words):
            if rng.random() < 0.22:
                title += topical[label][int(min(149, rng.exponential(40)))]
            elif rng.random() < 0.08:
                title += topical[int(rng.integers(len(CLASSES)))][int(rng.integers(150))]
            else:
                title += common[int(min(399, rng.exponential(90)))]
        rows.append((title, label))
    return rows


def build_vocab(rows, tokenizer, max_size, min_freq):
    counts = Counter()
    for title, _ in rows:
        counts.update(tokenizer(title))
    vocab_list = sorted([c for c in counts.items() if c[1] >= min_freq], key=lambda x: (-x[1], x[0]))[:max_size]
    vocab = {word: idx for idx, (word, _) in enumerate(vocab_list)}
    vocab.update({UNK: len(vocab), PAD: len(vocab) + 1})
    return vocab


def load_dataset(rows, vocab, tokenizer, pad_size=32):
    contents = []
    for title, label in rows:
        words_line = []
        token = tokenizer(title)
        seq_len = len(token)
        if pad_size:
            if len(token) < pad_size:
                token.extend([PAD] * (pad_size - len(token)))
            else:
                token = token[:pad_size]
                seq_len = pad_size
        # word to id
        for word in token:
            words_line.append(vocab.get(word, vocab.get(UNK)))
        contents.append((words_line, label, seq_len))
    return contents


class DatasetIterater(object):
    def __init__(self, contents, batch_size, shuffle):
        self.contents = contents
        self.batch_size = batch_size
        self.shuffle = shuffle

    def __len__(self):
        return (len(self.contents) + self.batch_size - 1) // self.batch_size

    def __iter__(self):
        order = list(range(len(self.contents)))
        if self.shuffle:
            random.shuffle(order)
        for i in range(0, len(order), self.batch_size):
            chunk = [self.contents[j] for j in order[i:i + self.batch_size]]
            x = torch.LongTensor([c[0] for c in chunk])
            y = torch.LongTensor([c[1] for c in chunk])
            yield x, y


class TextCNN(nn.Module):
    def __init__(self, n_vocab, embed=300, num_filters=128, filter_sizes=(2, 3, 4), dropout=0.5):
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, embed, padding_idx=n_vocab - 1)
        self.convs = nn.ModuleList([nn.Conv2d(1, num_filters, (k, embed)) for k in filter_sizes])
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(num_filters * len(filter_sizes), len(CLASSES))

    def conv_and_pool(self, x, conv):
        x = F.relu(conv(x)).squeeze(3)
        return F.max_pool1d(x, x.size(2)).squeeze(2)

    def forward(self, x):
        out = self.embedding(x).unsqueeze(1)
        out = torch.cat([self.conv_and_pool(out, conv) for conv in self.convs], 1)
        return self.fc(self.dropout(out))


def evaluate(model, data_iter):
    model.eval()
    loss_total, correct, n = 0.0, 0, 0
    with torch.no_grad():
        for x, y in data_iter:
            out = model(x)
            loss_total += F.cross_entropy(out, y, reduction='sum').item()
            correct += (out.argmax(1) == y).sum().item()
            n += len(y)
    model.train()
    return correct / n, loss_total / n


def train(args, model, train_iter, dev_iter):
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
    total_batch, dev_best_loss = 0, float('inf')
    start = time.time()
    model.train()
    for epoch in range(args.num_epochs):
        print('Epoch [{}/{}]'.format(epoch + 1, args.num_epochs))
        for x, y in train_iter:
            outputs = model(x)
            loss = F.cross_entropy(outputs, y)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            total_batch += 1
            if total_batch % 20 == 0:
                acc = (outputs.argmax(1) == y).float().mean().item()
                print('Iter: {:>6}, Train Loss: {:.3f}, Train Acc: {:.2%}, {:.0f} ms/iter'.format(
                    total_batch, loss.item(), acc, 1000 * (time.time() - start) / total_batch), flush=True)
            if total_batch % 500 == 0:
                dev_acc, dev_loss = evaluate(model, dev_iter)
                improve = ''
                if dev_loss < dev_best_loss:
                    dev_best_loss = dev_loss
                    torch.save(model.state_dict(), args.save_path)
                    improve = '*'
                print('Iter: {:>6}, Val Loss: {:.3f}, Val Acc: {:.2%} {}'.format(total_batch, dev_loss, dev_acc, improve), flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Chinese Text Classification')
    parser.add_argument('--num_epochs', type=int, default=20)
    parser.add_argument('--batch_size', type=int, default=64)
    parser.add_argument('--pad_size', type=int, default=32)
    parser.add_argument('--learning_rate', type=float, default=5e-4)
    parser.add_argument('--n_train', type=int, default=90000)
    parser.add_argument('--n_dev', type=int, default=4000)
    parser.add_argument('--save_path', type=str, default='TextCNN.ckpt')
    args = parser.parse_args()

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)

    tokenizer = lambda x: [y for y in x]  # char-level
    train_rows, dev_rows = make_titles(args.n_train, 3), make_titles(args.n_dev, 4)
    vocab = build_vocab(train_rows, tokenizer, MAX_VOCAB_SIZE, min_freq=2)
    print('Vocab size: {}'.format(len(vocab)))
    train_data = load_dataset(train_rows, vocab, tokenizer, args.pad_size)
    dev_data = load_dataset(dev_rows, vocab, tokenizer, args.pad_size)
    model = TextCNN(len(vocab))
    train(args, model, DatasetIterater(train_data, args.batch_size, True), DatasetIterater(dev_data, args.batch_size, False))
