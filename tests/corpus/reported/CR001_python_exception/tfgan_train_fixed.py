import itertools
import math
import os
import tempfile
from types import SimpleNamespace as NS

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(2)
np.random.seed(2)

hp = NS(
    train=NS(batch_size=8, adam=NS(lr=0.0005, beta1=0.5, beta2=0.9), discriminator_train_start_steps=150,
             rep_discriminator=1, epochs=8),
    audio=NS(n_mel_channels=20, segment_length=1024, hop_length=64, win_length=256, filter_length=256, sampling_rate=8000),
    model=NS(feat_match=10.0, lambda_adv=2.5, feat_loss=True, n_residual_layers=1,
             generator_ratio=[4, 4, 4], mult=32, out_channels=1, num_D=2, ndf=8, n_layers=2, downsampling_factor=4, disc_out=64),
    log=NS(summary_interval=20, validation_interval=2, save_interval=2),
)

def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1 and hasattr(m, 'weight'):
        m.weight.data.normal_(0.0, 0.02)

class ResStack(nn.Module):
    def __init__(self, channel, dilation=1):
        super(ResStack, self).__init__()
        self.block = nn.Sequential(
            nn.LeakyReLU(0.2), nn.ReflectionPad1d(dilation), nn.Conv1d(channel, channel, kernel_size=3, dilation=dilation),
            nn.LeakyReLU(0.2), nn.Conv1d(channel, channel, kernel_size=1))
        self.shortcut = nn.Conv1d(channel, channel, kernel_size=1)

    def forward(self, x):
        return self.shortcut(x) + self.block(x)

class Upsample(nn.Module):
    def __init__(self, mult, r):
        super(Upsample, self).__init__()
        self.upsample = nn.Sequential(nn.Upsample(mode="nearest", scale_factor=r), nn.LeakyReLU(0.2),
                                      nn.ReflectionPad1d(3), nn.Conv1d(mult * 2, mult, kernel_size=7))
        self.trans_upsample = nn.Sequential(nn.LeakyReLU(0.2), nn.ConvTranspose1d(
            mult * 2, mult, kernel_size=r * 2, stride=r, padding=r // 2 + r % 2, output_padding=r % 2))

    def forward(self, x):
        x = torch.sin(x) + x
        return self.upsample(x) + self.trans_upsample(x)

class Generator(nn.Module):
    def __init__(self, mel_channel, n_residual_layers, ratios=[8, 8, 4], mult=256, out_band=1):
        super(Generator, self).__init__()
        generator = [nn.ReflectionPad1d(3), nn.Conv1d(mel_channel, mult * 2, kernel_size=7, stride=1)]
        for r in ratios:
            generator += [Upsample(mult, r)]
            for j in range(n_residual_layers):
                generator += [ResStack(mult, dilation=3 ** j)]
            mult //= 2
        generator += [nn.LeakyReLU(0.2), nn.ReflectionPad1d(3), nn.Conv1d(mult * 2, out_band, kernel_size=7), nn.Tanh()]
        self.generator = nn.Sequential(*generator)

    def forward(self, mel):
        mel = (mel + 5.0) / 5.0
        return self.generator(mel)

class Discriminator(nn.Module):
    def __init__(self, ndf=16, n_layers=3, downsampling_factor=4, disc_out=512):
        super(Discriminator, self).__init__()
        discriminator = nn.ModuleDict()
        discriminator["layer_0"] = nn.Sequential(nn.ReflectionPad1d(7), nn.Conv1d(1, ndf, kernel_size=15), nn.LeakyReLU(0.2))
        nf = ndf
        stride = downsampling_factor
        for n in range(1, n_layers + 1):
            nf_prev = nf
            nf = min(nf * stride, disc_out)
            discriminator["layer_%d" % n] = nn.Sequential(
                nn.Conv1d(nf_prev, nf, kernel_size=stride * 10 + 1, stride=stride, padding=stride * 5, groups=nf_prev // 4),
                nn.LeakyReLU(0.2))
        discriminator["layer_%d" % (n_layers + 1)] = nn.Sequential(
            nn.Conv1d(nf, disc_out, kernel_size=5, padding=2), nn.LeakyReLU(0.2))
        discriminator["layer_%d" % (n_layers + 2)] = nn.Conv1d(disc_out, 1, kernel_size=3, padding=1)
        self.discriminator = discriminator

    def forward(self, x):
        features = list()
        for module in self.discriminator.values():
            x = module(x)
            features.append(x)
        return features[:-1], features[-1]

class MultiScaleDiscriminator(nn.Module):
    def __init__(self, num_D=3, ndf=16, n_layers=3, downsampling_factor=4, disc_out=512):
        super().__init__()
        self.model = nn.ModuleDict()
        for i in range(num_D):
            self.model[f"disc_{i}"] = Discriminator(ndf, n_layers, downsampling_factor, disc_out)
        self.downsample = nn.AvgPool1d(downsampling_factor, stride=2, padding=1, count_include_pad=False)
        self.apply(weights_init)

    def forward(self, x):
        results = []
        for key, disc in self.model.items():
            results.append(disc(x))
            x = self.downsample(x)
        return results

def stft(x, fft_size, hop_size):
    x_stft = torch.stft(x, fft_size, hop_size, fft_size, torch.hann_window(fft_size), return_complex=True)
    return torch.sqrt(torch.clamp(x_stft.real ** 2 + x_stft.imag ** 2, min=1e-7)).transpose(2, 1)

class FrequencyDiscriminator(nn.Module):
    def __init__(self, in_channel=16, fft_size=128, hop_length=32):
        super(FrequencyDiscriminator, self).__init__()
        self.fft_size = fft_size
        self.hop_length = hop_length
        self.resnet_disc = nn.Sequential(
            nn.Conv1d(fft_size // 2 + 1, in_channel, kernel_size=7, stride=2, padding=3), nn.LeakyReLU(0.2),
            nn.Conv1d(in_channel, in_channel * 2, kernel_size=3, padding=1), nn.LeakyReLU(0.2), nn.Conv1d(in_channel * 2, 1, 3, padding=1))

    def forward(self, x):
        x_stft = torch.stft(x, self.fft_size, self.hop_length, self.fft_size, torch.hann_window(self.fft_size), return_complex=True)
        x_real, x_imag = self.resnet_disc(x_stft.real), self.resnet_disc(x_stft.imag)
        return torch.sqrt(torch.clamp(x_real ** 2 + x_imag ** 2, min=1e-7)).transpose(2, 1)

class MultiResolutionSTFTLoss(nn.Module):
    def __init__(self, fft_sizes=(256, 128, 64)):
        super().__init__()
        self.fft_sizes = fft_sizes

    def forward(self, x, y):
        sc_loss, mag_loss = 0.0, 0.0
        for fft_size in self.fft_sizes:
            x_mag, y_mag = stft(x, fft_size, fft_size // 4), stft(y, fft_size, fft_size // 4)
            sc_loss += torch.norm(y_mag - x_mag, p="fro") / torch.norm(y_mag, p="fro")
            mag_loss += nn.functional.l1_loss(torch.log(y_mag), torch.log(x_mag))
        return sc_loss / len(self.fft_sizes), mag_loss / len(self.fft_sizes)

class MelFromDisk(Dataset):
    def __init__(self, count, seed):
        rng = np.random.RandomState(seed)
        n = hp.audio.segment_length
        t = np.arange(n) / hp.audio.sampling_rate
        edges = np.linspace(0, hp.audio.filter_length // 2, hp.audio.n_mel_channels + 1).astype(int)
        self.data = []
        for _ in range(count):
            f0 = rng.uniform(100, 400)
            phase = 2 * np.pi * (f0 * t + rng.uniform(-200, 200) * t ** 2)
            audio = sum(rng.uniform(0.2, 1.0) / h * np.sin(h * phase + rng.uniform(0, 6)) for h in range(1, 5))
            audio = 0.25 * audio * (0.6 + 0.4 * np.sin(2 * np.pi * rng.uniform(4, 12) * t + rng.uniform(0, 6)))
            audio = torch.tensor(audio, dtype=torch.float32).unsqueeze(0)
            mag = stft(audio, hp.audio.filter_length, hp.audio.hop_length)[0].transpose(0, 1)
            mel = torch.stack([mag[a:b].mean(dim=0) for a, b in zip(edges[:-1], edges[1:])])
            self.data.append((torch.log(mel.clamp(min=1e-5))[:, :n // hp.audio.hop_length], audio))
        self.mapping = list(range(count))
    def __len__(self):
        return len(self.data)
    def shuffle_mapping(self):
        np.random.shuffle(self.mapping)
    def __getitem__(self, idx):
        return self.data[idx], self.data[self.mapping[idx]]

def validate(model_g, valloader, stft_loss, step):
    model_g.eval()
    total = 0.0
    with torch.no_grad():
        for (mel, audio), _ in valloader:
            sc_loss, mag_loss = stft_loss(model_g(mel).squeeze(1), audio.squeeze(1))
            total += (sc_loss + mag_loss).item()
    print("validation stft %.4f at step %d" % (total / len(valloader), step))
    model_g.train()

def train(pt_dir, trainloader, valloader):
    model_g = Generator(hp.audio.n_mel_channels, hp.model.n_residual_layers, hp.model.generator_ratio, hp.model.mult, hp.model.out_channels)
    model_d = MultiScaleDiscriminator(hp.model.num_D, hp.model.ndf, hp.model.n_layers, hp.model.downsampling_factor, hp.model.disc_out)
    model_f = FrequencyDiscriminator()
    optim_g = torch.optim.Adam(model_g.parameters(), lr=hp.train.adam.lr, betas=(hp.train.adam.beta1, hp.train.adam.beta2))
    optim_d = torch.optim.Adam(itertools.chain(model_d.parameters(), model_f.parameters()),
                               lr=hp.train.adam.lr, betas=(hp.train.adam.beta1, hp.train.adam.beta2))
    step = 0
    stft_loss = MultiResolutionSTFTLoss()
    criterion = torch.nn.MSELoss()
    for epoch in range(hp.train.epochs):
        if epoch % hp.log.validation_interval == 0:
            validate(model_g, valloader, stft_loss, step)
        trainloader.dataset.shuffle_mapping()
        for (melG, audioG), (melD, audioD) in trainloader:
            optim_g.zero_grad()
            fake_audio = model_g(melG)[:, :, :hp.audio.segment_length]
            sc_loss, mag_loss = stft_loss(fake_audio[:, :, :audioG.size(2)].squeeze(1), audioG.squeeze(1))
            loss_g = sc_loss + mag_loss
            adv_loss = 0.0
            if step > hp.train.discriminator_train_start_steps:
                disc_fake_g = model_d(fake_audio)
                for feats_fake, score_fake in disc_fake_g:
                    adv_loss += criterion(score_fake, torch.ones_like(score_fake))
                adv_loss = adv_loss / len(disc_fake_g)
                disc_fake_freq_g = model_f(fake_audio.squeeze(1))
                adv_loss += criterion(disc_fake_freq_g, torch.ones_like(disc_fake_freq_g))
                if hp.model.feat_loss:
                    disc_real = model_d(audioG)
                    for (feats_fake, score_fake), (feats_real, _) in zip(disc_fake_g, disc_real):
                        for feat_f, feat_r in zip(feats_fake, feats_real):
                            adv_loss += hp.model.feat_match * torch.mean(torch.abs(feat_f - feat_r))
                loss_g += hp.model.lambda_adv * adv_loss
            loss_g.backward()
            optim_g.step()
            loss_d_avg = 0.0
            if step > hp.train.discriminator_train_start_steps:
                fake_audio = model_g(melD)[:, :, :hp.audio.segment_length]
                fake_audio = fake_audio.detach()
                loss_d_sum = 0.0
                for _ in range(hp.train.rep_discriminator):
                    optim_d.zero_grad()
                    disc_fake = model_d(fake_audio)
                    disc_real = model_d(audioD)
                    loss_d_real, loss_d_fake = 0.0, 0.0
                    for (_, score_fake), (_, score_real) in zip(disc_fake, disc_real):
                        loss_d_real += criterion(score_real, torch.ones_like(score_real))
                        loss_d_fake += criterion(score_fake, torch.zeros_like(score_fake))
                    loss_d_real, loss_d_fake = loss_d_real / len(disc_real), loss_d_fake / len(disc_fake)
                    disc_fake_freq, disc_real_freq = model_f(fake_audio.squeeze(1)), model_f(audioD.squeeze(1))
                    loss_d_fake_freq = criterion(disc_fake_freq, torch.zeros_like(disc_fake_freq))
                    loss_d_real_freq = criterion(disc_real_freq, torch.ones_like(disc_real_freq))
                    loss_d = loss_d_real + loss_d_fake + loss_d_fake_freq + loss_d_real_freq
                    loss_d.backward()
                    optim_d.step()
                    loss_d_sum += loss_d
                loss_d_avg = (loss_d_sum / hp.train.rep_discriminator).item()

            step += 1
            loss_g = loss_g.item()
            adv_loss = torch.as_tensor(adv_loss).item()
            if math.isnan(loss_g) or loss_g > 1e8:
                raise Exception("Loss exploded")
            if step % hp.log.summary_interval == 0:
                print("g %.04f d %.04f ad %.04f | step %d" % (loss_g, loss_d_avg, adv_loss, step))

        if epoch % hp.log.save_interval == 0:
            torch.save({'model_g': model_g.state_dict(), 'model_d': model_d.state_dict(), 'model_f': model_f.state_dict(),
                        'optim_g': optim_g.state_dict(), 'optim_d': optim_d.state_dict(), 'step': step, 'epoch': epoch},
                       os.path.join(pt_dir, 'tfgan_%04d.pt' % epoch))
    validate(model_g, valloader, stft_loss, step)


if __name__ == '__main__':
    trainloader = DataLoader(MelFromDisk(320, 0), batch_size=hp.train.batch_size, shuffle=True, drop_last=True)
    valloader = DataLoader(MelFromDisk(32, 1), batch_size=hp.train.batch_size)
    train(tempfile.mkdtemp(prefix='tfgan_'), trainloader, valloader)
