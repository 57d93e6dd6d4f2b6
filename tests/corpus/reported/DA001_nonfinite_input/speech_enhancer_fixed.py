import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def synth_corpus(n, seed, off_air=()):
    """Voiced harmonics with pauses, recorded in noise; `off_air` lists takes where the recorder was muted."""
    rng = np.random.RandomState(seed)
    clean, noisy = [], []
    t = np.arange(1024) / 8000.0
    for i in range(n):
        f0 = rng.uniform(180, 400)
        wav = sum(rng.uniform(0.3, 1.0) / k * np.sin(2 * np.pi * f0 * k * t + rng.uniform(0, 6)) for k in range(1, 5))
        env = np.repeat(rng.rand(8) > 0.25, 128).astype(float)
        env = np.convolve(env, np.ones(32) / 32, mode="same")
        wav = 0.2 * wav * env
        noise = rng.normal(0, 0.06, 1024)
        if i in off_air:
            wav, noise = np.zeros(1024), np.zeros(1024)
        clean.append(wav.astype(np.float32))
        noisy.append((wav + noise).astype(np.float32))
    return clean, noisy


class WavDataset(Dataset):
    def __init__(self, clean, noisy, seed=0):
        self.clean, self.noisy = clean, noisy
        self.rng = np.random.RandomState(seed)

    def __getitem__(self, index):
        clean_audio, noisy_audio = self.clean[index], self.noisy[index]
        if np.max(noisy_audio) == 0.0:
            noise = self.rng.normal(0, 0.00001, len(noisy_audio)).astype(np.float32)
            noisy_audio = np.add(noisy_audio, noise)
        clean_audio, noisy_audio = torch.from_numpy(clean_audio), torch.from_numpy(noisy_audio)
        norm_factor = torch.sqrt(len(noisy_audio) / torch.sum(noisy_audio ** 2.0))
        return clean_audio * norm_factor, noisy_audio * norm_factor

    def __len__(self):
        return len(self.clean)


WINDOW = torch.hann_window(64)


def mag_pha_stft(y, compress=0.3):
    spec = torch.stft(y, 64, 32, 64, window=WINDOW, return_complex=True)
    return (spec.abs() + 1e-5) ** compress, spec.angle()


def mag_pha_istft(mag, pha, length, compress=0.3):
    mag = mag ** (1.0 / compress)
    return torch.istft(torch.polar(mag, pha), 64, 32, 64, window=WINDOW, length=length)


class MaskNet(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.inp = nn.Conv1d(33, 2 * ch, 3, padding=1)
        self.gru = nn.GRU(2 * ch, ch, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * ch, 33)

    def forward(self, mag, pha):
        h = F.leaky_relu(self.inp(mag), 0.1).transpose(1, 2)
        h, _ = self.gru(h)
        return mag * 1.2 * torch.sigmoid(self.out(h)).transpose(1, 2), pha


def evaluate(model, loader):
    model.eval()
    err = 0.0
    with torch.no_grad():
        for clean, noisy in loader:
            mag_g, _ = model(*mag_pha_stft(noisy))
            err += F.mse_loss(mag_g, mag_pha_stft(clean)[0]).item()
    return err / len(loader)


def train(a):
    torch.manual_seed(1234)
    train_loader = DataLoader(WavDataset(*synth_corpus(360, 0, off_air=(137,))), batch_size=a.batch_size, shuffle=True)
    val_loader = DataLoader(WavDataset(*synth_corpus(60, 1)), batch_size=30)
    generator = MaskNet()
    optim_g = torch.optim.AdamW(generator.parameters(), a.learning_rate, betas=(0.8, 0.99))
    for epoch in range(a.training_epochs):
        generator.train()
        sums = np.zeros(2)
        for clean, noisy in train_loader:
            clean_mag, _ = mag_pha_stft(clean)
            mag_g, pha_g = generator(*mag_pha_stft(noisy))
            audio_g = mag_pha_istft(mag_g, pha_g, clean.shape[1])
            loss_mag = F.mse_loss(clean_mag, mag_g)
            loss_time = F.l1_loss(clean, audio_g)
            loss_gen_all = loss_mag + 0.2 * loss_time
            optim_g.zero_grad()
            loss_gen_all.backward()
            optim_g.step()
            sums += [loss_gen_all.item(), loss_mag.item()]
        sums /= len(train_loader)
        print("Epoch {}: Gen Loss {:.4f}, Magnitude Loss {:.4f}, Val Magnitude Loss {:.4f}".format(
            epoch + 1, sums[0], sums[1], evaluate(generator, val_loader)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--training_epochs", type=int, default=6)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    train(parser.parse_args())
