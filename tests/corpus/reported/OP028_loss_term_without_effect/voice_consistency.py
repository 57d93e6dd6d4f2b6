import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

N_SPK, T, N_FFT, HOP = 6, 512, 64, 32


def make_voices(n, seed):
    """Each speaker has a formant profile over harmonics; the content is the pitch contour."""
    g = torch.Generator().manual_seed(seed)
    profile = torch.rand(N_SPK, 5, generator=torch.Generator().manual_seed(77)) ** 2 + 0.05
    spk = torch.randint(0, N_SPK, (n,), generator=g)
    f0 = 0.06 + 0.06 * torch.rand(n, 2, generator=g)
    ramp = torch.linspace(0, 1, T)
    pitch = f0[:, :1] * (1 - ramp) + f0[:, 1:] * ramp
    phase = 2 * math.pi * torch.cumsum(pitch, 1)
    wav = sum(profile[spk][:, k, None] * torch.sin((k + 1) * phase) for k in range(5))
    return 0.3 * wav + 0.01 * torch.randn(n, T, generator=g), phase, spk


class TorchSpec(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))

    def forward(self, wav):
        s = torch.stft(wav, N_FFT, HOP, N_FFT, window=self.window, return_complex=True)
        return (s.abs() + 1e-3)


class SpeakerEncoder(nn.Module):
    """Speaker embedding network on log spectra."""

    def __init__(self, dim=16):
        super().__init__()
        self.torch_spec = TorchSpec()
        self.net = nn.Sequential(nn.Linear(2 * (N_FFT // 2 + 1), 48), nn.Tanh(), nn.Linear(48, dim))

    def forward(self, x, l2_norm=True):
        with torch.no_grad():
            x = self.torch_spec(x)
            x = x.log()
            x = torch.cat([x.mean(2), x.std(2)], 1)
        out = self.net(x)
        return F.normalize(out, dim=1) if l2_norm else out


class Generator(nn.Module):
    """Harmonic synthesiser: speaker embedding and phase give harmonic amplitudes."""

    def __init__(self, n_harm=8, dim=24):
        super().__init__()
        self.emb_g = nn.Embedding(N_SPK, dim)
        self.net = nn.Sequential(nn.Linear(dim + 2, 48), nn.Tanh(), nn.Linear(48, n_harm))
        self.n_harm = n_harm

    def forward(self, phase, spk):
        pitch = torch.stack([phase[:, 1] - phase[:, 0], phase[:, -1] - phase[:, -2]], 1)
        amp = 0.3 * F.softplus(self.net(torch.cat([self.emb_g(spk), 4 * pitch - 2], 1)) - 1)
        k = torch.arange(1, self.n_harm + 1)
        return (amp[:, :, None] * torch.sin(k[None, :, None] * phase[:, None])).sum(1)


def train_speaker_encoder(enc, epochs=5):
    wav, _, spk = make_voices(480, 5)
    head = nn.Linear(16, N_SPK)
    opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=4e-3)
    loader = DataLoader(TensorDataset(wav, spk), batch_size=32, shuffle=True)
    for epoch in range(epochs):
        total = 0.0
        for w, s in loader:
            loss = F.cross_entropy(head(enc(w, l2_norm=False)), s)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"speaker encoder epoch {epoch}: loss {total / len(loader):.4f}")
    enc.eval().requires_grad_(False)


def train_vits(enc, epochs=7, speaker_loss_alpha=0.5):
    loader = DataLoader(TensorDataset(*make_voices(384, 0)), batch_size=16, shuffle=True)
    vw, vp, vs = make_voices(96, 1)
    gen, spec = Generator(), TorchSpec()
    opt = torch.optim.AdamW(gen.parameters(), lr=5e-3, weight_decay=1e-4)
    for epoch in range(epochs):
        sums = [0.0, 0.0]
        for wav, phase, spk in loader:
            fake = gen(phase, spk)
            loss_mel = F.l1_loss(spec(fake), spec(wav))
            gt_emb, syn_emb = enc(wav), enc(fake)
            loss_se = 1 - F.cosine_similarity(gt_emb, syn_emb).mean()
            loss = loss_mel + speaker_loss_alpha * loss_se
            opt.zero_grad()
            loss.backward()
            opt.step()
            sums[0] += loss_mel.item()
            sums[1] += loss_se.item()
        with torch.no_grad():
            fake = gen(vp, vs)
            vm, vse = F.l1_loss(spec(fake), spec(vw)).item(), 1 - F.cosine_similarity(enc(vw), enc(fake)).mean().item()
        print(f"epoch {epoch}: loss_mel {sums[0] / len(loader):.4f} loss_spk_encoder {sums[1] / len(loader):.4f} "
              f"| eval {vm:.4f} {vse:.4f}")


if __name__ == "__main__":
    torch.manual_seed(3)
    encoder = SpeakerEncoder()
    train_speaker_encoder(encoder)
    train_vits(encoder)
