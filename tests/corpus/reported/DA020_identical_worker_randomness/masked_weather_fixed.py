"""Masked token training on gridded weather fields with a streaming sampler."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)
CELLS, CHANNELS = 16, 6


class TokenizerMasking:
    """Hides a random part of the cells of a field."""

    def __init__(self, masking_rate, seed):
        self.masking_rate = masking_rate
        self.rng = np.random.default_rng(seed)

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, field):
        mask = np.zeros(CELLS, dtype=bool)
        mask[self.rng.permutation(CELLS)[:int(self.masking_rate * CELLS)]] = True
        source = np.where(mask[:, None], 0.0, field).astype(np.float32)
        return source, mask, field


def simulate(n, seed):
    """Travelling waves with a fixed relation between the channels."""
    rng = np.random.RandomState(seed)
    x = np.arange(CELLS) / CELLS * 2 * np.pi
    phase = rng.rand(n, 2) * 2 * np.pi
    amp = 0.6 + 0.8 * rng.rand(n, 2)
    waves = np.stack([amp[:, k, None] * np.sin((k + 1) * x + phase[:, k, None]) for k in range(2)]
                     + [amp[:, k, None] * np.cos((k + 1) * x + phase[:, k, None]) for k in range(2)], axis=-1)
    mix = np.random.RandomState(9).randn(4, CHANNELS) / 1.6
    return (waves @ mix + 0.05 * rng.randn(n, CELLS, CHANNELS)).astype(np.float32)


class MultiStreamDataSampler(IterableDataset):
    def __init__(self, fields, batch_size, masking_rate, shuffle, seed):
        self.fields, self.batch_size, self.shuffle = fields, batch_size, shuffle
        self.seed, self.epoch = seed, 0
        self.tokenizer = TokenizerMasking(masking_rate, seed)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def worker_workset(self):
        order = np.arange(len(self.fields))
        if self.shuffle:
            order = np.random.default_rng(self.seed + self.epoch).permutation(order)
        info = torch.utils.data.get_worker_info()
        if info is None:
            return order
        self.tokenizer.reset(info.seed)
        per_worker = len(order) // info.num_workers
        return order[info.id * per_worker:(info.id + 1) * per_worker]

    def __iter__(self):
        order = self.worker_workset()
        for start in range(0, len(order) - self.batch_size + 1, self.batch_size):
            items = [self.tokenizer(self.fields[i]) for i in order[start:start + self.batch_size]]
            yield tuple(torch.from_numpy(np.stack(part)) for part in zip(*items))


class MaskedModel(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Linear(CHANNELS, dim)
        self.mask_token = nn.Parameter(torch.randn(dim) * 0.1)
        self.pos = nn.Parameter(torch.randn(CELLS, dim) * 0.3)
        self.block = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, CHANNELS))

    def forward(self, source, mask):
        h = torch.where(mask.unsqueeze(-1), self.mask_token, self.embed(source)) + self.pos
        return self.head(self.block(h))


def masked_loss(model, batch):
    source, mask, target = batch
    error = (model(source, mask) - target).pow(2).mean(-1)
    return (error * mask).sum() / mask.sum()


def main():
    torch.manual_seed(40)
    train_data = MultiStreamDataSampler(simulate(1920, 1), 32, 0.5, shuffle=True, seed=100)
    valid_data = MultiStreamDataSampler(simulate(320, 2), 32, 0.5, shuffle=False, seed=200)
    train_loader = DataLoader(train_data, batch_size=None, num_workers=2)
    valid_batches = list(valid_data)
    model = MaskedModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(4):
        train_data.set_epoch(epoch)
        model.train()
        losses = []
        for batch in train_loader:
            loss = masked_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            valid = np.mean([masked_loss(model, b).item() for b in valid_batches])
        print(f"epoch {epoch} steps {len(losses)} train {np.mean(losses):.4f} valid {valid:.4f}")


if __name__ == "__main__":
    main()
