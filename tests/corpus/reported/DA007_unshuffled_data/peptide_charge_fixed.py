import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class AnnotatedSpectra(Dataset):
    """Spectra read file by file, one file per charge state."""

    def __init__(self, per_file, n_files, seed):
        centers = torch.rand(n_files, 8, generator=torch.Generator().manual_seed(77)) * 2 - 1
        g = torch.Generator().manual_seed(seed)
        self.peaks, self.charge = [], []
        for c in range(n_files):
            mz = centers[c] + 0.25 * torch.randn(per_file, 8, generator=g)
            intensity = torch.rand(per_file, 8, generator=g)
            self.peaks.append(torch.stack([mz, intensity], -1))
            self.charge.append(torch.full((per_file,), c))
        self.peaks, self.charge = torch.cat(self.peaks), torch.cat(self.charge)

    def __len__(self):
        return len(self.charge)

    def __getitem__(self, idx):
        return self.peaks[idx], self.charge[idx]


class SpectrumEncoder(nn.Module):
    def __init__(self, dim=48, n_out=6):
        super().__init__()
        self.peak = nn.Linear(2, dim)
        self.order = nn.Parameter(torch.randn(1, 8, dim) * 0.5)
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.final = nn.Linear(dim, n_out)

    def forward(self, peaks):
        return self.final(self.transformer(self.peak(peaks) + self.order).mean(1))


class DeNovoDataModule:
    def __init__(self, train_set, valid_set, batch_size=32):
        self.train_set, self.valid_set, self.batch_size = train_set, valid_set, batch_size

    def _make_loader(self, dataset, shuffle=False):
        return DataLoader(dataset, batch_size=self.batch_size, shuffle=shuffle)

    def train_dataloader(self):
        return self._make_loader(self.train_set, shuffle=True)

    def val_dataloader(self):
        return self._make_loader(self.valid_set)


def fit(model, datamodule, max_epochs):
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train_loader, val_loader = datamodule.train_dataloader(), datamodule.val_dataloader()
    for epoch in range(max_epochs):
        model.train()
        running = 0.0
        for peaks, charge in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(peaks), charge)
            loss.backward()
            optimizer.step()
            running += loss.item()
        model.eval()
        with torch.no_grad():
            v = [(loss_fn(o := model(p), c).item(), (o.argmax(1) == c).float().mean().item()) for p, c in val_loader]
        print(f"epoch={epoch} train_loss={running / len(train_loader):.4f} "
              f"valid_loss={sum(a for a, _ in v) / len(v):.4f} acc={sum(b for _, b in v) / len(v):.3f}")


if __name__ == "__main__":
    torch.manual_seed(454)
    dm = DeNovoDataModule(AnnotatedSpectra(256, 6, seed=1), AnnotatedSpectra(64, 6, seed=2))
    fit(SpectrumEncoder(), dm, max_epochs=6)
