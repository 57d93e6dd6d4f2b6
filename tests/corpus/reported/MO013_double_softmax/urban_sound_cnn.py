"""Urban sound classification: CNN on mel spectrograms."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLE_RATE, NUM_SAMPLES = 8000, 8000
N_FFT, HOP, N_MELS = 512, 256, 64
BATCH_SIZE, EPOCHS, LEARNING_RATE = 32, 8, 0.001
CLASS_NAMES = ["air_conditioner", "car_horn", "children_playing", "dog_bark", "drilling",
               "engine_idling", "gun_shot", "jackhammer", "siren", "street_music"]


def synth(label, g):
    """One second of audio of a class."""
    t = torch.arange(NUM_SAMPLES) / SAMPLE_RATE
    noise = torch.randn(NUM_SAMPLES, generator=g)
    r = torch.rand(4, generator=g)
    f = 150 + 330 * label * (0.9 + 0.2 * r[0])
    tone = torch.sin(2 * math.pi * f * t + 6 * r[1]) + 0.4 * torch.sin(4 * math.pi * f * t)
    if label % 3 == 0:
        env = torch.ones_like(t)
    elif label % 3 == 1:
        env = (torch.sin(2 * math.pi * (3 + 2 * r[2]) * t) > 0).float()
    else:
        env = torch.exp(-6 * ((t - r[2]).clamp(min=0)))
    return (0.5 * tone * env + 0.15 * noise) * (0.3 + 0.7 * r[3])


def mel_filterbank():
    def hz2mel(f):
        return 2595 * math.log10(1 + f / 700)
    pts = torch.linspace(hz2mel(0), hz2mel(SAMPLE_RATE / 2), N_MELS + 2)
    hz = 700 * (10 ** (pts / 2595) - 1)
    freqs = torch.linspace(0, SAMPLE_RATE / 2, N_FFT // 2 + 1)
    up = (freqs[None] - hz[:-2, None]) / (hz[1:-1, None] - hz[:-2, None])
    down = (hz[2:, None] - freqs[None]) / (hz[2:, None] - hz[1:-1, None])
    return torch.minimum(up, down).clamp(min=0)


class UrbanSoundDataset(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, len(CLASS_NAMES), (n,), generator=g)
        fb, window = mel_filterbank(), torch.hann_window(N_FFT)
        self.signals = []
        for y in self.labels.tolist():
            spec = torch.stft(synth(y, g), N_FFT, HOP, window=window, return_complex=True).abs() ** 2
            self.signals.append((fb @ spec)[None])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.signals[i], self.labels[i]


class CNNNetwork(nn.Module):
    def __init__(self):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, stride=1, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        self.conv1 = block(1, 8)
        self.conv2 = block(8, 16)
        self.conv3 = block(16, 32)
        self.conv4 = block(32, 32)
        self.flatten = nn.Flatten()
        self.linear = nn.LazyLinear(10)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, input_data):
        x = self.conv1(input_data)
        x = self.conv2(x)
        x = self.conv3(x)
        x = self.conv4(x)
        x = self.flatten(x)
        logits = self.linear(x)
        predictions = self.softmax(logits)
        return predictions


def train_single_epoch(model, loader, loss_fn, optimiser):
    model.train()
    total, n = 0.0, 0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item() * len(y)
        n += len(y)
    return total / n


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hit = n = 0
    for x, y in loader:
        hit += (model(x).argmax(1) == y).sum().item()
        n += len(y)
    return hit / n


def main():
    train_loader = DataLoader(UrbanSoundDataset(1200, 1), batch_size=BATCH_SIZE, shuffle=True)
    test_loader = DataLoader(UrbanSoundDataset(300, 2), batch_size=BATCH_SIZE)
    cnn = CNNNetwork()
    cnn(next(iter(train_loader))[0])
    loss_fn = nn.CrossEntropyLoss()
    optimiser = torch.optim.Adam(cnn.parameters(), lr=LEARNING_RATE)
    for i in range(EPOCHS):
        loss = train_single_epoch(cnn, train_loader, loss_fn, optimiser)
        print(f"Epoch {i + 1} loss: {loss:.4f} test accuracy: {accuracy(cnn, test_loader):.3f}", flush=True)
    print("Finished training")


if __name__ == "__main__":
    main()
