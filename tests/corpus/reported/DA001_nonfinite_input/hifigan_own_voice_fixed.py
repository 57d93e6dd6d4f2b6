"""HiFi-GAN style vocoder trained on an own voice data set."""
import math
import os
import random
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SR, HOP, N_FFT, N_MELS = 8000, 64, 256, 24
SEGMENT, BATCH_SIZE, EPOCHS = 1024, 8, 16
LR, BETAS, WEIGHT_DECAY = 2e-4, (0.8, 0.99), 1e-5


def record_utterances(n, seed):
    """Speech-like recordings of one voice with pauses."""
    g = torch.Generator().manual_seed(seed)
    wavs = []
    for i in range(n):
        parts = []
        for _ in range(int(torch.randint(4, 8, (1,), generator=g))):
            m = int(torch.randint(800, 1800, (1,), generator=g))
            t = torch.arange(m) / SR
            f0 = 90 + 120 * torch.rand(1, generator=g)
            phase = 2 * math.pi * f0 * t * (1 + 0.05 * torch.sin(2 * math.pi * 3 * t))
            w = sum(torch.rand(1, generator=g) / k * torch.sin(k * phase) for k in range(1, 8))
            w = w * torch.hann_window(m) + 0.01 * torch.randn(m, generator=g)
            parts.append(0.3 * w)
            if torch.rand(1, generator=g) < 0.3:
                parts.append(torch.zeros(int(torch.randint(200, 600, (1,), generator=g))))
        if i % 16 == 5:
            parts.append(torch.zeros(1400))
        wavs.append(torch.cat(parts))
    return wavs


class LogMelSpectrogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        mel = torch.linspace(0, 2595 * math.log10(1 + SR / 2 / 700), N_MELS + 2)
        hz = 700 * (10 ** (mel / 2595) - 1)
        fr = torch.linspace(0, SR / 2, N_FFT // 2 + 1)
        up = (fr[None] - hz[:-2, None]) / (hz[1:-1, None] - hz[:-2, None])
        down = (hz[2:, None] - fr[None]) / (hz[2:, None] - hz[1:-1, None])
        self.register_buffer("fb", torch.minimum(up, down).clamp(min=0))

    def forward(self, wav):
        wav = F.pad(wav, ((N_FFT - HOP) // 2, (N_FFT - HOP) // 2), "reflect")
        spec = torch.stft(wav, N_FFT, HOP, window=self.window, center=False, return_complex=True)
        mag = torch.sqrt(spec.real ** 2 + spec.imag ** 2 + 1e-9)
        return torch.log(torch.clamp(self.fb @ mag, min=1e-5))


class MelDataset(Dataset):
    def __init__(self, wavs, segment_length, train=True):
        self.wavs, self.segment_length, self.train = wavs, segment_length, train
        self.logmel = LogMelSpectrogram()

    def __len__(self):
        return len(self.wavs)

    def __getitem__(self, index):
        src = self.wavs[index]
        start = random.randint(0, len(src) - self.segment_length) if self.train else 0
        wav = src[start:start + self.segment_length]
        if self.train:
            gain = random.random() * (0.99 - 0.4) + 0.4
            flip = -1 if random.random() > 0.5 else 1
            wav = flip * gain * wav / max([wav.abs().max(), 0.001])
        return wav[None], self.logmel(wav[None])[0]


class ResBlock(nn.Module):
    def __init__(self, c, k, dilations=(1, 3)):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(c, c, k, dilation=d, padding=d * (k - 1) // 2) for d in dilations)

    def forward(self, x):
        for c in self.convs:
            x = x + c(F.leaky_relu(x, 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.pre = nn.Conv1d(N_MELS, c, 7, padding=3)
        self.ups, self.res = nn.ModuleList(), nn.ModuleList()
        for i, r in enumerate((8, 4, 2)):
            self.ups.append(nn.ConvTranspose1d(c >> i, c >> (i + 1), 2 * r, r, r // 2))
            self.res.append(ResBlock(c >> (i + 1), 5))
        self.post = nn.Conv1d(c >> 3, 1, 7, padding=3)

    def forward(self, mel):
        x = self.pre(mel)
        for up, res in zip(self.ups, self.res):
            x = res(up(F.leaky_relu(x, 0.1)))
        return torch.tanh(self.post(F.leaky_relu(x)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(1, 16, 15, 1, 7), nn.Conv1d(16, 32, 21, 4, 10, groups=4),
                                    nn.Conv1d(32, 64, 21, 4, 10, groups=8), nn.Conv1d(64, 64, 5, 1, 2)])
        self.post = nn.Conv1d(64, 1, 3, 1, 1)

    def forward(self, x):
        feats = []
        for c in self.convs:
            x = F.leaky_relu(c(x), 0.1)
            feats.append(x)
        return self.post(x).flatten(1), feats


def main():
    random.seed(4)
    torch.manual_seed(4)
    train_loader = DataLoader(MelDataset(record_utterances(128, 0), SEGMENT), BATCH_SIZE, shuffle=True, drop_last=True)
    val_loader = DataLoader(MelDataset(record_utterances(16, 1), SEGMENT, train=False), BATCH_SIZE)
    generator, discriminator, melspec = Generator(), Discriminator(), LogMelSpectrogram()
    opt_g = torch.optim.AdamW(generator.parameters(), LR * 4, betas=BETAS, weight_decay=WEIGHT_DECAY)
    opt_d = torch.optim.AdamW(discriminator.parameters(), LR, betas=BETAS, weight_decay=WEIGHT_DECAY)
    sched_g = torch.optim.lr_scheduler.ExponentialLR(opt_g, gamma=0.999)
    sched_d = torch.optim.lr_scheduler.ExponentialLR(opt_d, gamma=0.999)
    ckpt_dir, step = tempfile.mkdtemp(), 0
    for epoch in range(1, EPOCHS + 1):
        generator.train()
        sums = torch.zeros(3)
        for wavs, mels in train_loader:
            opt_d.zero_grad()
            wavs_ = generator(mels)
            real, _ = discriminator(wavs)
            fake, _ = discriminator(wavs_.detach())
            loss_d = ((1 - real) ** 2).mean() + (fake ** 2).mean()
            loss_d.backward()
            opt_d.step()

            opt_g.zero_grad()
            loss_mel = F.l1_loss(melspec(wavs_.squeeze(1)), mels)
            fake, feats_f = discriminator(wavs_)
            with torch.no_grad():
                _, feats_r = discriminator(wavs)
            loss_fm = sum(F.l1_loss(a, b) for a, b in zip(feats_f, feats_r))
            loss_g = ((1 - fake) ** 2).mean() + 2 * loss_fm + 45 * loss_mel
            loss_g.backward()
            opt_g.step()
            step += 1
            sums += torch.tensor([loss_g.item(), loss_d.item(), loss_mel.item()])
        sched_g.step()
        sched_d.step()
        generator.eval()
        with torch.no_grad():
            val = sum(F.l1_loss(melspec(generator(m).squeeze(1)), m).item() for _, m in val_loader) / len(val_loader)
        g, d, m = (sums / len(train_loader)).tolist()
        print(f"epoch {epoch} step {step} loss_g {g:.4f} loss_d {d:.4f} mel {m:.4f} val mel {val:.4f}", flush=True)
        torch.save({"generator": generator.state_dict(), "discriminator": discriminator.state_dict(), "step": step},
                   os.path.join(ckpt_dir, "model.pt"))


if __name__ == "__main__":
    main()
