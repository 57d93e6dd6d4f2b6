import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

N_MELS, N_KEYS, SEQ = 32, 12, 40


class RollDataset(Dataset):
    """Random piano rolls rendered to a small log-mel like spectrogram."""

    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        timbre = np.random.RandomState(5).rand(N_KEYS, N_MELS) ** 4 * 3
        self.frames = np.zeros((n, SEQ, N_KEYS), dtype="float32")
        for i in range(n):
            for _ in range(10):
                k, s, d = rng.randint(N_KEYS), rng.randint(SEQ - 6), rng.randint(4, 12)
                self.frames[i, s:s + d, k] = 1
        self.onsets = np.maximum(np.diff(self.frames, axis=1, prepend=0), 0).astype("float32")
        energy = (self.frames + self.onsets) @ timbre
        mel = np.log1p(energy) + 0.2 * rng.randn(n, SEQ, N_MELS)
        self.mel = ((mel - mel.mean()) / mel.std()).astype("float32")

    def __len__(self):
        return len(self.mel)

    def __getitem__(self, i):
        return self.mel[i], self.onsets[i], self.frames[i]


class OnsetsAndFrames(nn.Module):
    def __init__(self, model_size=48):
        super().__init__()
        self.onset_fc = nn.Sequential(nn.Linear(N_MELS, model_size), nn.ReLU())
        self.onset_rnn = nn.LSTM(model_size, model_size // 2, batch_first=True, bidirectional=True)
        self.onset_out = nn.Linear(model_size, N_KEYS)
        self.frame_stack = nn.Sequential(nn.Linear(N_MELS, model_size), nn.ReLU(), nn.Linear(model_size, N_KEYS))
        self.combined_rnn = nn.LSTM(2 * N_KEYS, model_size // 2, batch_first=True, bidirectional=True)
        self.frame_out = nn.Linear(model_size, N_KEYS)

    def forward(self, mel):
        onset = torch.sigmoid(self.onset_out(self.onset_rnn(self.onset_fc(mel))[0]))
        activation = torch.sigmoid(self.frame_stack(mel))
        combined, _ = self.combined_rnn(torch.cat([onset.detach(), activation], dim=-1))
        return onset, torch.sigmoid(self.frame_out(combined))

    def run_on_batch(self, mel, onset_label, frame_label):
        onset_pred, frame_pred = self(mel)
        losses = {
            "loss/onset": F.binary_cross_entropy(onset_pred, onset_label, reduction="none").sum(-1).mean(),
            "loss/frame": F.binary_cross_entropy(frame_pred, frame_label, reduction="none").sum(-1).mean(),
        }
        return frame_pred, losses


def evaluate(model, loader):
    model.eval()
    tp = fp = fn = 0.0
    with torch.no_grad():
        for mel, onset, frame in loader:
            pred = (model.run_on_batch(mel, onset, frame)[0] > 0.5).float()
            tp += (pred * frame).sum().item()
            fp += (pred * (1 - frame)).sum().item()
            fn += ((1 - pred) * frame).sum().item()
    model.train()
    return 2 * tp / max(2 * tp + fp + fn, 1.0)


def cycle(loader):
    while True:
        for item in loader:
            yield item


def train(iterations=200, learning_rate=4e-3, clip_gradient_norm=0.5, batch_size=16):
    torch.manual_seed(0)
    loader = DataLoader(RollDataset(320, 1), batch_size, shuffle=True)
    validation = DataLoader(RollDataset(64, 2), 32)
    model = OnsetsAndFrames()
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    running = 0.0
    for i, batch in zip(range(1, iterations + 1), cycle(loader)):
        predictions, losses = model.run_on_batch(*batch)

        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        if clip_gradient_norm:
            clip_grad_norm_(model.parameters(), clip_gradient_norm)

        running += loss.item()
        if i % 40 == 0:
            print(f"iteration {i}: loss {running / 40:.4f} frame f1 {evaluate(model, validation):.3f}")
            running = 0.0


if __name__ == "__main__":
    train()
