"""Train a classifier of environmental sounds on log spectrograms."""
import argparse
import os
import random
from datetime import datetime

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser(description=__doc__)
RATE = 8000
CLASS_NAMES = ['chirp_up', 'chirp_down', 'siren', 'beeps', 'engine', 'knock', 'wind', 'bird', 'chord', 'alarm']


def add_arg(name, type, default, help):
    parser.add_argument('--' + name, type=type, default=default, help=help + ' (default: %(default)s)')


add_arg('batch_size', int, 32, 'size of the batches')
add_arg('num_epoch', int, 100, 'number of epochs')
add_arg('learning_rate', float, 1e-3, 'initial learning rate')
add_arg('num_train', int, 4000, 'number of training clips')
add_arg('num_test', int, 600, 'number of test clips')
add_arg('seed', int, 2022, 'random seed')
add_arg('save_model', str, 'runs/audio', 'folder of the models')
args = parser.parse_args()


def synthesize(name, rng):
    """One second of sound."""
    t = np.arange(RATE) / RATE
    f = rng.uniform(300, 900)
    if name == 'chirp_up':
        wave = np.sin(2 * np.pi * (f * t + rng.uniform(500, 1200) * t ** 2))
    elif name == 'chirp_down':
        wave = np.sin(2 * np.pi * ((f + 2000) * t - rng.uniform(500, 1000) * t ** 2))
    elif name == 'siren':
        speed = rng.uniform(1.5, 4)
        wave = np.sin(2 * np.pi * (f + 400) * t + 250 / speed * np.sin(2 * np.pi * speed * t))
    elif name == 'beeps':
        wave = np.sin(2 * np.pi * (f + 600) * t) * (np.sin(2 * np.pi * rng.uniform(3, 6) * t) > 0)
    elif name == 'engine':
        base = rng.uniform(50, 90)
        wave = sum(np.sin(2 * np.pi * base * k * t + rng.uniform(0, 6)) / k for k in range(1, 10))
    elif name == 'knock':
        wave = np.zeros(RATE)
        for start in np.sort(rng.randint(0, RATE - 800, rng.randint(3, 6))):
            n = np.arange(700)
            wave[start:start + 700] += np.exp(-n / 90) * np.sin(2 * np.pi * 180 * n / RATE + rng.uniform(0, 6)) * 3
    elif name == 'wind':
        noise = rng.normal(0, 1, RATE)
        wave = np.convolve(noise, np.ones(24) / 5, mode='same') * (1 + 0.6 * np.sin(2 * np.pi * rng.uniform(1, 3) * t))
    elif name == 'bird':
        wave = np.zeros(RATE)
        for start in rng.randint(0, RATE - 900, 6):
            n = np.arange(800) / RATE
            wave[start:start + 800] += np.sin(2 * np.pi * (2200 * n + 4000 * n ** 2 * 2)) * np.hanning(800)
    elif name == 'chord':
        wave = sum(np.sin(2 * np.pi * f * r * t) for r in (1, 1.26, 1.5))
    else:
        tone = np.where(np.sin(2 * np.pi * rng.uniform(2, 5) * t) > 0, 1.0, 1.5)
        wave = np.sin(2 * np.pi * np.cumsum((f + 300) * tone) / RATE)
    wave = wave / (np.abs(wave).max() + 1e-6)
    wave = wave * rng.uniform(0.3, 1.0) + rng.normal(0, rng.uniform(0.1, 0.5), RATE)
    return wave.astype(np.float32)


class AudioDataset(Dataset):
    """Log spectrograms; in training a random part of a band and of the time is masked."""

    def __init__(self, n, seed, training):
        rng = np.random.RandomState(seed)
        labels = rng.permutation(np.arange(n) % len(CLASS_NAMES))
        waves = torch.from_numpy(np.stack([synthesize(CLASS_NAMES[k], rng) for k in labels]))
        window = torch.hann_window(256)
        self.specs = torch.cat([
            torch.stft(w, 256, hop_length=128, window=window, return_complex=True).abs().pow(2).add(1e-3).log()
            for w in waves.split(500)])[:, :128]
        self.specs = (self.specs - 0.5) / 2.5
        self.labels = torch.from_numpy(labels.astype(np.int64))
        self.training = training

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        spec = self.specs[i]
        if self.training:
            spec = spec.clone()
            f, t = random.randint(0, 112), random.randint(0, 50)
            spec[f:f + random.randint(0, 16)] = 0
            spec[:, t:t + random.randint(0, 12)] = 0
        return spec.unsqueeze(0), self.labels[i]


class EcaBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())
        self.eca = nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.conv(x)
        w = torch.sigmoid(self.eca(x.mean((2, 3)).unsqueeze(1))).squeeze(1)
        return self.pool(x * w[:, :, None, None])


class AudioNet(nn.Module):
    def __init__(self, num_class, width=8):
        super().__init__()
        self.body = nn.Sequential(EcaBlock(1, width), EcaBlock(width, 2 * width), EcaBlock(2 * width, 4 * width),
                                  EcaBlock(4 * width, 8 * width))
        self.fc = nn.Sequential(nn.Dropout(0.3), nn.Linear(8 * width, num_class))

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


@torch.no_grad()
def test(model, test_loader, loss_fn):
    model.eval()
    accuracies, losses, n = 0, 0.0, 0
    for spec, label in test_loader:
        output = model(spec)
        losses += loss_fn(output, label).item() * len(label)
        accuracies += (output.argmax(1) == label).sum().item()
        n += len(label)
    model.train()
    return losses / n, accuracies / n


def train():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save_model, exist_ok=True)
    train_loader = DataLoader(AudioDataset(args.num_train, args.seed, True), args.batch_size, shuffle=True,
                              drop_last=True)
    test_loader = DataLoader(AudioDataset(args.num_test, args.seed + 1, False), 100)

    model = AudioNet(len(CLASS_NAMES))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate, weight_decay=5e-4)
    scheduler = StepLR(optimizer, step_size=args.learning_rate, gamma=0.8)
    loss_fn = nn.CrossEntropyLoss()

    best = 0.0
    for epoch in range(args.num_epoch):
        loss_sum, hits = [], []
        for batch_id, (spec, label) in enumerate(train_loader):
            output = model(spec)
            los = loss_fn(output, label)
            optimizer.zero_grad()
            los.backward()
            optimizer.step()
            loss_sum.append(los.item())
            hits.append((output.argmax(1) == label).float().mean().item())
            if batch_id % 10 == 0:
                print(f'[{datetime.now():%H:%M:%S}] Train epoch [{epoch}/{args.num_epoch}], batch: '
                      f'{batch_id}/{len(train_loader)}, lr: {scheduler.get_last_lr()[0]:.8f}, '
                      f'loss: {sum(loss_sum) / len(loss_sum):.5f}, acc: {sum(hits) / len(hits):.3f}', flush=True)
                loss_sum, hits = [], []
        scheduler.step()
        loss, acc = test(model, test_loader, loss_fn)
        print(f'[{datetime.now():%H:%M:%S}] Test epoch [{epoch}/{args.num_epoch}], loss: {loss:.5f}, acc: {acc:.4f}',
              flush=True)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), os.path.join(args.save_model, 'best.pth'))


if __name__ == '__main__':
    train()
