"""Speech recognition in small: made-up tones, a spectrogram, a bidirectional GRU, CTC loss, greedy decoding."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(5)
ALPHABET, RATE, TONE = 6, 2000, 200


class Utterances(Dataset):
    """Each letter is a tone of its own frequency, of a length that varies, with noise."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            label = torch.randint(1, ALPHABET + 1, (int(torch.randint(2, 5, (1,), generator=g)),), generator=g)
            tones = []
            for letter in label.tolist():
                length = TONE + int(torch.randint(0, 80, (1,), generator=g))
                time = torch.arange(length) / RATE
                tones.append(torch.sin(2 * torch.pi * 100 * (letter + 1) * time))
                tones.append(torch.zeros(60))
            wave = torch.cat(tones)
            self.items.append((wave + 0.1 * torch.randn(len(wave), generator=g), label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    spectrograms, labels, input_lengths, label_lengths = [], [], [], []
    for wave, label in batch:
        spec = torch.stft(wave, 64, 32, window=torch.hann_window(64), return_complex=True).abs().log1p().T
        spectrograms.append(spec)
        labels.append(label)
        input_lengths.append(spec.shape[0])
        label_lengths.append(len(label))
    return (
        pad_sequence(spectrograms, batch_first=True),
        torch.cat(labels),
        torch.tensor(input_lengths),
        torch.tensor(label_lengths),
    )


class SpeechRecognitionModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(33, 32, 3, padding=1)
        self.norm = nn.LayerNorm(32)
        self.rnn = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(64, ALPHABET + 1)

    def forward(self, x):
        x = F.gelu(self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2)))
        x, _ = self.rnn(x)
        return self.classifier(x)


train_loader = DataLoader(Utterances(160, 0), batch_size=16, shuffle=True, collate_fn=collate)
test_loader = DataLoader(Utterances(32, 1), batch_size=16, collate_fn=collate)
model = SpeechRecognitionModel()
epochs = 8
optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=5e-3, steps_per_epoch=len(train_loader), epochs=epochs
)
criterion = nn.CTCLoss(blank=0)
for epoch in range(epochs):
    model.train()
    for batch_idx, (spectrograms, labels, input_lengths, label_lengths) in enumerate(train_loader):
        optimizer.zero_grad()
        output = F.log_softmax(model(spectrograms), dim=2).transpose(0, 1)
        loss = criterion(output, labels, input_lengths, label_lengths)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if batch_idx % 5 == 0:
            print(f"Train Epoch: {epoch} [{batch_idx}/{len(train_loader)}] Loss: {loss.item()!r}")
    model.eval()
    test_loss, right, total = 0.0, 0, 0
    with torch.no_grad():
        for spectrograms, labels, input_lengths, label_lengths in test_loader:
            output = F.log_softmax(model(spectrograms), dim=2).transpose(0, 1)
            test_loss += criterion(output, labels, input_lengths, label_lengths).item() / len(test_loader)
            for best, length, label in zip(output.argmax(2).T, input_lengths, labels.split(label_lengths.tolist())):
                heard = [int(c) for c in torch.unique_consecutive(best[:length]) if c]
                right += heard == label.tolist()
                total += 1
    print(f"Test: loss {test_loss!r} exact {right}/{total}")
