#!/usr/bin/env python
"""Train a recurrent consensus caller on summarised read pileups.

Every example is a window of a draft assembly. For each column of the window the
network sees how many reads support each symbol (per strand) and which symbol the
draft has; it predicts the true symbol (A, C, G, T or a gap).
"""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SYMBOLS = "ACGT-"


class PileupSimulator:
    """Draws pileup windows from a simple model of noisy long reads."""

    def __init__(self, window, depth, error_rate, seed):
        self.window = window
        self.depth = depth
        self.error_rate = error_rate
        self.rng = np.random.RandomState(seed)

    def _truth(self):
        seq = []
        while len(seq) < self.window:
            base = self.rng.randint(4)
            run = self.rng.geometric(0.6)
            for _ in range(run):
                seq.append(base)
                # columns in which most reads carry an insertion
                if self.rng.rand() < 0.12:
                    seq.append(4)
        return np.array(seq[:self.window])

    def draw(self):
        truth = self._truth()
        strand = self.rng.rand(self.depth) < 0.5
        reads = np.tile(truth, (self.depth, 1))
        same_as_left = np.concatenate([[False], truth[1:] == truth[:-1]])
        # homopolymers are harder: reads of the reverse strand skip the base
        skip = self.rng.rand(self.depth, self.window) < 0.30
        reads = np.where(skip & same_as_left[None] & strand[:, None], 4, reads)
        wrong = self.rng.rand(self.depth, self.window) < self.error_rate
        reads = np.where(wrong, self.rng.randint(0, 5, reads.shape), reads)

        features = np.zeros((self.window, 15), dtype=np.float32)
        for s in range(5):
            hit = reads == s
            features[:, s] = hit[strand].sum(0) / self.depth
            features[:, 5 + s] = hit[~strand].sum(0) / self.depth
        draft = reads[0]
        features[np.arange(self.window), 10 + draft] = 1.0
        return features, truth.astype(np.int64)


class PileupDataset(Dataset):
    def __init__(self, size, window, depth, error_rate, seed):
        sim = PileupSimulator(window, depth, error_rate, seed)
        pairs = [sim.draw() for _ in range(size)]
        self.encodings = torch.from_numpy(np.stack([p[0] for p in pairs]))
        self.labels = torch.from_numpy(np.stack([p[1] for p in pairs]))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.encodings[i], self.labels[i]


class ConsensusRNN(nn.Module):
    """Bidirectional GRU over the columns of a window."""

    def __init__(self, input_feature_size, num_output_logits, gru_size, gru_layers, apply_softmax=False):
        super().__init__()
        self.gru = nn.GRU(input_feature_size, gru_size, gru_layers, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * gru_size, num_output_logits)
        self.apply_softmax = apply_softmax

    def forward(self, encoding):
        encoding, _ = self.gru(encoding)
        encoding = self.classifier(encoding)
        if self.apply_softmax:
            encoding = F.softmax(encoding, dim=2)
        return encoding


def create_model(args, is_training=True):
    """Return the network for the given options."""
    return ConsensusRNN(input_feature_size=15,
                        num_output_logits=len(SYMBOLS),
                        gru_size=args.gru_size,
                        gru_layers=args.gru_layers,
                        apply_softmax=not is_training)


def evaluate(model, loader, criterion):
    model.eval()
    loss_sum, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for encoding, labels in loader:
            output = model(encoding)
            loss_sum += criterion(output.flatten(0, 1), labels.flatten()).item() * labels.numel()
            correct += (output.argmax(2) == labels).sum().item()
            count += labels.numel()
    return loss_sum / count, correct / count


def train(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    random.seed(args.seed)

    train_set = PileupDataset(args.train_size, args.window, args.depth, args.error_rate, seed=args.seed)
    eval_set = PileupDataset(args.eval_size, args.window, args.depth, args.error_rate, seed=args.seed + 1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    eval_loader = DataLoader(eval_set, batch_size=256)

    model = create_model(args, is_training=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    os.makedirs(args.model_dir, exist_ok=True)
    best_acc, step = 0.0, 0
    for epoch in range(1, args.epochs + 1):
        model.train()
        for encoding, labels in train_loader:
            optimizer.zero_grad()
            output = model(encoding)
            loss = criterion(output.flatten(0, 1), labels.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % args.log_freq == 0:
                acc = (output.argmax(2) == labels).float().mean().item()
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} accuracy {acc:.4f}", flush=True)
        eval_loss, eval_acc = evaluate(model, eval_loader, criterion)
        print(f"epoch {epoch} eval loss {eval_loss:.4f} eval accuracy {eval_acc:.4f}", flush=True)
        if eval_acc > best_acc:
            best_acc = eval_acc
            torch.save({"model": model.state_dict(), "epoch": epoch, "accuracy": eval_acc},
                       os.path.join(args.model_dir, "consensus_best.pt"))
    print(f"best eval accuracy {best_acc:.4f}")


def build_parser():
    parser = argparse.ArgumentParser(description="Train the consensus model")
    parser.add_argument("--train-size", type=int, default=6000)
    parser.add_argument("--eval-size", type=int, default=600)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--depth", type=int, default=9)
    parser.add_argument("--error-rate", type=float, default=0.35)
    parser.add_argument("--gru_size", type=int, default=96)
    parser.add_argument("--gru_layers", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-freq", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model-dir", default="runs/consensus")
    return parser


if __name__ == "__main__":
    train(build_parser().parse_args())
