"""Very deep character CNN: which package of the standard library does a piece of text come from?"""
import argparse
import datetime
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-,;.!?:'\"/\\|_@#$%^&*~`+=<>()[]{} \n"
CHAR2ID = {c: i + 2 for i, c in enumerate(ALPHABET)}       # 0: padding, 1: other
PACKAGES = ["asyncio", "email", "multiprocessing", "unittest", "xml", "importlib", "encodings", "http"]

parser = argparse.ArgumentParser()
parser.add_argument("--sequence_length", type=int, default=256)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--num_epochs", type=int, default=100)
parser.add_argument("--learning_rate", type=float, default=0.01)
parser.add_argument("--windows_per_class", type=int, default=1200)
parser.add_argument("--evaluate_every", type=int, default=300)
parser.add_argument("--seed", type=int, default=11)
FLAGS = parser.parse_args()


def package_files(name):
    root = os.path.join(os.path.dirname(os.__file__), name)
    found = []
    for folder, _, files in sorted(os.walk(root)):
        found += [os.path.join(folder, f) for f in sorted(files) if f.endswith(".py") and f != "__init__.py"]
    return found


def windows(files, n, length, rng):
    texts = []
    for f in files:
        with open(f, encoding="utf-8", errors="ignore") as fh:
            t = fh.read().lower()
        if len(t) > length:
            texts.append(t)
    weights = np.array([len(t) for t in texts], dtype=float)
    rows = np.zeros((n, length), dtype=np.int64)
    for i in range(n):
        t = texts[rng.choice(len(texts), p=weights / weights.sum())]
        s = int(rng.integers(0, len(t) - length))
        rows[i] = [CHAR2ID.get(c, 1) for c in t[s:s + length]]
    return rows


def load_dataset(rng):
    train_x, train_y, test_x, test_y = [], [], [], []
    for label, name in enumerate(PACKAGES):
        files = package_files(name)
        files = [files[i] for i in rng.permutation(len(files))]
        n_test = max(1, len(files) // 5)
        train_x.append(windows(files[n_test:], FLAGS.windows_per_class, FLAGS.sequence_length, rng))
        test_x.append(windows(files[:n_test], 100, FLAGS.sequence_length, rng))
        train_y.append(np.full(len(train_x[-1]), label))
        test_y.append(np.full(len(test_x[-1]), label))
    return [torch.from_numpy(np.concatenate(p)) for p in (train_x, train_y, test_x, test_y)]


class ConvBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.c1 = nn.Conv1d(i, o, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm1d(o)
        self.c2 = nn.Conv1d(o, o, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm1d(o)

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


class VDCNN(nn.Module):
    def __init__(self, n_classes, embedding=16, widths=(32, 64, 96, 128), k=8):
        super().__init__()
        self.embedding = nn.Embedding(len(CHAR2ID) + 2, embedding, padding_idx=0)
        self.first = nn.Conv1d(embedding, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList([ConvBlock(i, o) for i, o in zip((widths[0],) + widths[:-1], widths)])
        self.k = k
        self.fc = nn.Sequential(nn.Linear(widths[-1] * k, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, n_classes))

    def forward(self, ids):
        x = self.first(self.embedding(ids).transpose(1, 2))
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i < len(self.blocks) - 1:
                x = F.max_pool1d(x, 3, 2, 1)
        return self.fc(x.topk(self.k, dim=2).values.flatten(1))


@torch.no_grad()
def test(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    model.train()
    return loss / n, right / n


def train():
    random.seed(FLAGS.seed)
    np.random.seed(FLAGS.seed)
    torch.manual_seed(FLAGS.seed)
    print("Loading data...")
    x_train, y_train, x_test, y_test = load_dataset(np.random.default_rng(FLAGS.seed))
    train_loader = DataLoader(TensorDataset(x_train, y_train), FLAGS.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(TensorDataset(x_test, y_test), 100)
    num_batches_per_epoch = len(train_loader)
    print("Loading data succees, {} batches per epoch".format(num_batches_per_epoch))

    model = VDCNN(len(PACKAGES))
    optimizer = torch.optim.SGD(model.parameters(), lr=FLAGS.learning_rate, momentum=0.9)
    # exponential decay of the learning rate
    decay_steps = 100
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.95 ** (step / decay_steps))

    global_step, best_acc, t0 = 0, 0.0, time.time()
    model.train()
    for epoch in range(FLAGS.num_epochs):
        for x, y in train_loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 7.0)
            optimizer.step()
            scheduler.step()
            global_step += 1
            if global_step % 20 == 0:
                acc = (logits.argmax(1) == y).float().mean().item()
                print("{}: step {}, epoch {}, loss {:.4f}, acc {:.3f}, {:.0f} ms".format(
                    datetime.datetime.now().strftime("%H:%M:%S"), global_step, epoch + 1, loss.item(), acc,
                    1000 * (time.time() - t0) / global_step), flush=True)
            if global_step % FLAGS.evaluate_every == 0:
                test_loss, test_acc = test(model, test_loader)
                print("Evaluation at step {}: loss {:.4f}, acc {:.4f}".format(global_step, test_loss, test_acc), flush=True)
                if test_acc > best_acc:
                    best_acc = test_acc
                    torch.save(model.state_dict(), "vdcnn.pt")


if __name__ == "__main__":
    train()
