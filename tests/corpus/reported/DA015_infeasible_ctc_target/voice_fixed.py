"""Character CTC model on synthetic log-mel clips."""
import argparse
import builtins

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

CHARS = "_abcdefghijklmnopqrstuvwxyz"
N_MELS = 24


def words():
    names = [n for n in dir(builtins) + dir(str) + dir(dict) if n.isalpha() and n.islower()]
    return sorted(set(n for n in names if 3 <= len(n) <= 10))


class Clips(Dataset):
    """Each character is spoken for a few frames with its own spectrum."""

    def __init__(self, n, seed, short_rate=0.0):
        rng = np.random.default_rng(seed)
        template = np.random.default_rng(5).normal(0, 1, (len(CHARS), N_MELS))
        vocab = words()
        self.items = []
        for _ in range(n):
            text = vocab[rng.integers(len(vocab))]
            ids = [CHARS.index(c) for c in text]
            frames = []
            for c in ids:
                frames += [template[c]] * rng.integers(5, 9) + [np.zeros(N_MELS)] * rng.integers(1, 3)
            audio = np.array(frames) + rng.normal(0, 0.6, (len(frames), N_MELS))
            if rng.random() < short_rate:           # recordings that stop early
                audio = audio[:rng.integers(4, 2 * len(ids))]
            self.items.append((torch.tensor(audio, dtype=torch.float32), torch.tensor(ids)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    audio, text = zip(*batch)
    audio_len = torch.tensor([len(a) for a in audio])
    text_len = torch.tensor([len(t) for t in text])
    return (pad_sequence(audio, batch_first=True), audio_len), (pad_sequence(text, batch_first=True), text_len)


class AudioToCharCTC(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(N_MELS, hidden, 5, stride=2, padding=2), nn.ReLU(),
                                  nn.Conv1d(hidden, hidden, 3, padding=1), nn.ReLU())
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, len(CHARS))
        self.criterion = nn.CTCLoss(zero_infinity=True)

    def forward(self, audio, audio_len):
        x = self.conv(audio.transpose(1, 2)).transpose(1, 2)
        x, _ = self.lstm(x)
        return self.head(x), (audio_len + 1) // 2

    def loss(self, batch):
        (audio, audio_len), (text, text_len) = batch
        logits, logits_len = self(audio, audio_len)
        log_probs = logits.log_softmax(-1).transpose(0, 1)
        return self.criterion(log_probs, text, logits_len, text_len)


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


@torch.no_grad()
def validate(model, loader):
    model.eval()
    errors, total = 0, 0
    for (audio, audio_len), (text, text_len) in loader:
        logits, logits_len = model(audio, audio_len)
        best = logits.argmax(-1)
        for b in range(len(text)):
            path = torch.unique_consecutive(best[b, :logits_len[b]])
            hyp = [c for c in path.tolist() if c != 0]
            ref = text[b, :text_len[b]].tolist()
            errors += edit_distance(hyp, ref)
            total += len(ref)
    return errors / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_loader = DataLoader(Clips(2400, 1, short_rate=0.02), batch_size=args.batch_size, shuffle=True,
                              collate_fn=collate)
    valid_loader = DataLoader(Clips(200, 2), batch_size=50, collate_fn=collate)
    model = AudioToCharCTC()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        for i, batch in enumerate(train_loader):
            loss = model.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            if i % 25 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch} val CER {validate(model, valid_loader):.3f}", flush=True)


if __name__ == "__main__":
    main()
