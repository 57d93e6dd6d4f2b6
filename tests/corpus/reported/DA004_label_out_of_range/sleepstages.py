"""Sleep staging from heart-beat intervals: a per-epoch CNN followed by a dilated CNN over the night.

First the network is trained on the large cohort, afterwards it goes on with the nights of the
own sleep laboratory, which are shorter and are padded to the common length.
"""
import argparse
import time
from math import ceil

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

STAGES = ["wake", "light", "deep", "rem"]
FREQ = 2            # Hz after resampling
EPOCH_SEC = 30

# mean RR, respiratory amplitude, slow amplitude, noise
STAGE_SIGNAL = np.array([[0.80, 0.015, 0.050, 0.030],
                         [0.92, 0.040, 0.030, 0.012],
                         [1.00, 0.065, 0.008, 0.006],
                         [0.86, 0.018, 0.060, 0.010]])
TRANSITION = np.array([[0.90, 0.09, 0.00, 0.01],
                       [0.03, 0.90, 0.04, 0.03],
                       [0.01, 0.06, 0.93, 0.00],
                       [0.02, 0.05, 0.00, 0.93]])


def simulate_night(n_epochs, rng):
    slp = np.zeros(n_epochs, dtype=np.int64)
    for i in range(1, n_epochs):
        slp[i] = rng.choice(4, p=TRANSITION[slp[i - 1]])
    n = n_epochs * EPOCH_SEC * FREQ
    per_sample = np.repeat(slp, EPOCH_SEC * FREQ)
    mean, hf, lf, noise = STAGE_SIGNAL[per_sample].T
    t = np.arange(n) / FREQ
    resp = np.sin(2 * np.pi * np.cumsum(0.25 + 0.01 * rng.standard_normal(n)) / FREQ)
    slow = np.sin(2 * np.pi * 0.04 * t + 2 * np.cumsum(rng.normal(0, 0.05, n)))
    rri = mean * rng.normal(1, 0.02) + hf * resp + lf * slow + noise * rng.standard_normal(n)
    return rri.astype(np.float32), slp


def fill_night(signal, slp, night_epochs, epoch_length, normalize=True):
    """Centre a night in a window of `night_epochs` epochs (each seen with some context)."""
    if normalize:
        signal = (signal - np.mean(signal)) / np.std(signal)
    margin = (epoch_length - EPOCH_SEC) // 2
    total = (night_epochs * EPOCH_SEC + 2 * margin) * FREQ
    if slp.size > night_epochs:
        cut = ceil((slp.size - night_epochs) / 2)
        signal = signal[cut * EPOCH_SEC * FREQ:]
        slp = slp[cut:cut + night_epochs]
    start_nepoch = (night_epochs - slp.size) // 2
    start = (start_nepoch * EPOCH_SEC + margin) * FREQ
    signal = signal[:total - start]
    filled_signal = np.zeros(total, dtype=np.float32)
    filled_signal[start:start + signal.size] = signal
    filled_slp = np.full(night_epochs, -1, dtype=np.int64)
    filled_slp[start_nepoch:start_nepoch + slp.size] = slp
    return filled_signal, filled_slp


class NightDataset(Dataset):
    def __init__(self, n_nights, hours, night_epochs, epoch_length, seed):
        rng = np.random.default_rng(seed)
        self.nights = []
        for _ in range(n_nights):
            n_epochs = int(rng.uniform(*hours) * 3600 / EPOCH_SEC)
            signal, slp = fill_night(*simulate_night(n_epochs, rng), night_epochs, epoch_length)
            windows = torch.from_numpy(signal).unfold(0, epoch_length * FREQ, EPOCH_SEC * FREQ)
            self.nights.append((windows.contiguous(), torch.from_numpy(slp)))

    def __len__(self):
        return len(self.nights)

    def __getitem__(self, idx):
        return self.nights[idx]


class DCNN(nn.Module):
    def __init__(self, n_classes=4, channels=24, dim=48):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, channels, 9, stride=3, padding=4), nn.BatchNorm1d(channels), nn.LeakyReLU(0.15),
            nn.Conv1d(channels, 2 * channels, 7, stride=3, padding=3), nn.BatchNorm1d(2 * channels), nn.LeakyReLU(0.15),
            nn.Conv1d(2 * channels, 2 * channels, 5, stride=2, padding=2), nn.BatchNorm1d(2 * channels), nn.LeakyReLU(0.15),
            nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(6 * channels, dim))
        self.context = nn.ModuleList([
            nn.Conv1d(dim, dim, 5, padding=2 * d, dilation=d) for d in (1, 2, 4)])
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Conv1d(dim, n_classes, 1)

    def forward(self, x):
        b, e, t = x.shape
        h = self.encoder(x.reshape(b * e, 1, t)).reshape(b, e, -1).transpose(1, 2)
        for conv in self.context:
            h = h + self.dropout(nn.functional.leaky_relu(conv(h), 0.15))
        return self.head(h)


def run_epoch(model, loader, loss, optimizer=None):
    model.train(optimizer is not None)
    total, hits, n = 0.0, 0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for signal, slp in loader:
            out = model(signal)
            L = loss(out, slp)
            if optimizer is not None:
                optimizer.zero_grad()
                L.backward()
                optimizer.step()
            total += L.item() * len(slp)
            hits += (out.argmax(1) == slp).float().mean().item() * len(slp)
            n += len(slp)
    return total / n, hits / n


def fit(name, model, train, valid, epochs, lr, batch_size):
    loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    train_loader = DataLoader(train, batch_size, shuffle=True)
    valid_loader = DataLoader(valid, batch_size)
    for epoch in range(epochs):
        t0 = time.time()
        train_loss, train_acc = run_epoch(model, train_loader, loss, optimizer)
        val_loss, val_acc = run_epoch(model, valid_loader, loss)
        print(f"{name} {epoch}: loss {train_loss:.4f} acc {train_acc:.3f}   "
              f"valid loss {val_loss:.4f} acc {val_acc:.3f}   {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--night-epochs", type=int, default=240, help="epochs that the network sees of a night")
    parser.add_argument("--epoch-length", type=int, default=90, help="seconds of signal for one epoch")
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    def nights(n, hours, seed):
        return NightDataset(n, hours, args.night_epochs, args.epoch_length, args.seed + seed)

    cohort, cohort_valid = nights(120, (2.1, 2.8), 0), nights(20, (2.1, 2.8), 1)
    lab, lab_valid = nights(60, (1.2, 1.8), 2), nights(12, (1.2, 1.8), 3)
    model = DCNN()
    print(sum(p.numel() for p in model.parameters()), "parameters")
    fit("cohort", model, cohort, cohort_valid, 3, args.lr, args.batch_size)
    fit("lab", model, lab, lab_valid, 5, args.lr / 2, args.batch_size)
