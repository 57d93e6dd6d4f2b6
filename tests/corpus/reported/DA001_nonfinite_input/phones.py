"""Fine-tune a small phone recogniser with CTC on a corpus of mixed recordings."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

PHONES = ['<blk>', 'a', 'e', 'i', 'o', 'u', 'y', 'p', 't', 'k', 's', 'f', 'm', 'n', 'l', 'r']
NUM_MEL = 24
LOG_FLOOR = np.float32(np.log(1e-7))


def feature_cmvn(feature):
    frame_cnt = feature.shape[0]
    spk_sum = np.sum(feature, axis=0)
    spk_mean = spk_sum / frame_cnt
    spk_square_sum = np.sum(feature * feature, axis=0)
    spk_std = (spk_square_sum / frame_cnt - spk_mean * spk_mean) ** 0.5
    return (feature - spk_mean) / spk_std


def feature_window(feature, window_size=3):
    assert window_size == 3, "only window size 3 is supported"
    feature = np.concatenate((np.roll(feature, 1, axis=0), feature, np.roll(feature, -1, axis=0)), axis=1)
    feature = feature[::3, ]
    return feature


class Voice:
    """ log mel spectra of phones; every phone has two formants """

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        mel = np.arange(NUM_MEL)
        self.shapes = np.zeros((len(PHONES), NUM_MEL))
        for k in range(1, len(PHONES)):
            for centre in (rng.uniform(1, 9), rng.uniform(9, 21)):
                self.shapes[k] += rng.uniform(3, 5) * np.exp(-((mel - centre) / rng.uniform(1.2, 2.5)) ** 2)

    def utter(self, phones, rng, narrow_band):
        gain, tilt = rng.normal(-6, 1.0), rng.normal(0, 0.05)
        frames = []
        for k in phones:
            frames.append(np.tile(self.shapes[k], (rng.integers(6, 12), 1)))
            frames.append(np.zeros((rng.integers(1, 4), NUM_MEL)))
        x = np.concatenate(frames)
        x = gain + tilt * np.arange(NUM_MEL) + x + rng.normal(0, 0.7, x.shape)
        x = np.maximum(x, LOG_FLOOR).astype(np.float32)
        if narrow_band:
            # telephone line: nothing above 4 kHz
            x[:, 18:] = LOG_FLOOR
        return x


class Corpus(Dataset):
    def __init__(self, size, voice, seed, narrow_share=0.0):
        rng = np.random.default_rng(seed)
        self.utterances = []
        for _ in range(size):
            phones = rng.integers(1, len(PHONES), rng.integers(4, 9))
            self.utterances.append((voice.utter(phones, rng, rng.random() < narrow_share), phones))

    def __len__(self):
        return len(self.utterances)

    def __getitem__(self, i):
        feature, phones = self.utterances[i]
        feature = feature_window(feature_cmvn(feature))
        return torch.from_numpy(feature.astype(np.float32)), torch.from_numpy(phones)


def collate(items):
    feats, targets = zip(*items)
    return (nn.utils.rnn.pad_sequence(feats, batch_first=True), torch.tensor([len(f) for f in feats]),
            torch.cat(targets), torch.tensor([len(t) for t in targets]))


class AllophoneModel(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.blstm = nn.LSTM(3 * NUM_MEL, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.phone = nn.Linear(2 * hidden, len(PHONES))

    def forward(self, feats, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(feats, lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.blstm(packed)[0], batch_first=True)
        return self.phone(out).log_softmax(-1)


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def greedy(log_probs, length):
    best = log_probs[:length].argmax(-1).tolist()
    return [p for p, q in zip(best, [0] + best[:-1]) if p != 0 and p != q]


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.criterion = nn.CTCLoss(blank=0)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def train_epoch(self, loader):
        self.model.train()
        losses = []
        for feats, lengths, targets, target_lengths in loader:
            self.optimizer.zero_grad()
            log_probs = self.model(feats, lengths)
            loss = self.criterion(log_probs.transpose(0, 1), targets, lengths, target_lengths)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.grad_clip)
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        losses, errors, total = [], 0, 0
        for feats, lengths, targets, target_lengths in loader:
            log_probs = self.model(feats, lengths)
            losses.append(self.criterion(log_probs.transpose(0, 1), targets, lengths, target_lengths).item())
            for lp, n, ref in zip(log_probs, lengths, targets.split(target_lengths.tolist())):
                errors += edit_distance(greedy(lp, n), ref.tolist())
                total += len(ref)
        return np.mean(losses), errors / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epoch', type=int, default=14)
    parser.add_argument('--batch_size', type=int, default=16)
    parser.add_argument('--hidden', type=int, default=64)
    parser.add_argument('--lr', type=float, default=0.004)
    parser.add_argument('--grad_clip', type=float, default=5.0)
    parser.add_argument('--seed', type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    voice = Voice(args.seed)
    train_set = Corpus(640, voice, args.seed, narrow_share=0.01)
    valid_set = Corpus(160, voice, args.seed + 1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid_set, batch_size=32, collate_fn=collate)

    trainer = Trainer(AllophoneModel(args.hidden), args)
    for epoch in range(args.epoch):
        start = time.time()
        losses = trainer.train_epoch(train_loader)
        valid_loss, per = trainer.validate(valid_loader)
        print(f'epoch[{epoch}] training loss {np.mean(losses):.4f} (first {losses[0]:.4f}, last {losses[-1]:.4f}) '
              f'validation loss {valid_loss:.4f} phone error rate {per:.4f} ({time.time() - start:.1f}s)')


if __name__ == '__main__':
    main()
