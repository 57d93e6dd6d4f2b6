"""Variational autoencoder for expression data ("varix"): preprocess, train, predict."""
import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    batch_size: int = 16
    epochs: int = 2
    learning_rate: float = 1e-3
    latent_dim: int = 16
    n_layers: int = 2
    enc_factor: float = 4.0
    drop_p: float = 0.1
    beta: float = 0.02
    valid_ratio: float = 0.2
    n_cells: int = 8000
    k_filter: int = 2000
    min_counts: int = 1200
    seed: int = 1


def simulate_counts(n_cells: int, n_genes: int, n_types: int, seed: int):
    """Counts of cells of several types with gene programs, library size and dropouts."""
    rng = np.random.RandomState(seed)
    programs = rng.normal(0, 1.0, (8, n_genes)) * (rng.rand(8, n_genes) < 0.15)
    usage = rng.normal(0, 1.0, (n_types, 8))
    base = rng.normal(-0.3, 0.9, n_genes)
    types = rng.randint(n_types, size=n_cells)
    activity = usage[types] + rng.normal(0, 0.35, (n_cells, 8))
    log_rate = base + activity @ programs
    lib = rng.lognormal(0, 0.25, (n_cells, 1))
    counts = rng.poisson(np.exp(np.clip(log_rate, -6, 3.5)) * lib).astype(np.float32)
    # a few empty droplets that the quality filter has to find
    empty = rng.choice(n_cells, 39, replace=False)
    counts[empty] = rng.poisson(0.3, (39, n_genes))
    return counts, types


class Preprocessor:
    """Quality filter, library size, log1p, most variable genes, standard scale, split."""

    def __init__(self, config: Config):
        self.config = config

    def __call__(self, counts: np.ndarray, types: np.ndarray) -> Dict[str, tuple]:
        keep = counts.sum(1) >= self.config.min_counts
        counts, types = counts[keep], types[keep]
        x = np.log1p(counts / counts.sum(1, keepdims=True) * 3000)
        top = np.sort(np.argsort(-x.var(0))[:self.config.k_filter])
        x = x[:, top]
        rng = np.random.RandomState(self.config.seed)
        order = rng.permutation(len(x))
        n_valid = int(self.config.valid_ratio * len(x))
        valid, train = order[:n_valid], order[n_valid:]
        mean, std = x[train].mean(0), x[train].std(0) + 1e-6
        x = ((x - mean) / std).astype(np.float32)
        return {'train': (x[train], types[train]), 'valid': (x[valid], types[valid])}


class NumericDataset(Dataset):
    def __init__(self, data: np.ndarray, labels: np.ndarray):
        self.data = torch.from_numpy(data)
        self.labels = torch.from_numpy(labels)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return i, self.data[i], self.labels[i]


class VarixArchitecture(nn.Module):
    def __init__(self, config: Config, input_dim: int):
        super().__init__()
        dims: List[int] = [input_dim]
        for _ in range(config.n_layers):
            dims.append(max(int(dims[-1] / config.enc_factor * 2), config.latent_dim))
        self.encoder = nn.Sequential(*[self._layer(a, b, config.drop_p) for a, b in zip(dims[:-1], dims[1:])])
        self.mu = nn.Linear(dims[-1], config.latent_dim)
        self.logvar = nn.Linear(dims[-1], config.latent_dim)
        rev = [config.latent_dim] + dims[::-1][:-1]
        self.decoder = nn.Sequential(*[self._layer(a, b, config.drop_p) for a, b in zip(rev[:-1], rev[1:])],
                                     nn.Linear(rev[-1], input_dim))

    @staticmethod
    def _layer(n_in, n_out, drop_p):
        return nn.Sequential(nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out), nn.Dropout(drop_p), nn.ReLU())

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.logvar(h).clamp(-8, 8)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return self.decoder(z), mu, logvar


class VarixLoss(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.beta = config.beta

    def forward(self, rec, x, mu, logvar):
        recon = F.mse_loss(rec, x)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        return recon + self.beta * kl, recon, kl


class GeneralTrainer:
    def __init__(self, trainset: NumericDataset, validset: Optional[NumericDataset], config: Config):
        self._trainset, self._validset, self._config = trainset, validset, config
        torch.manual_seed(config.seed)
        self._init_loaders()
        self._model = VarixArchitecture(config, trainset.data.shape[1])
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=config.learning_rate, weight_decay=1e-4)
        self._loss_fn = VarixLoss(config)
        self.losses: List[dict] = []

    def _init_loaders(self):
        last_batch_is_one_sample = len(self._trainset) % self._config.batch_size == 1
        corrected_bs = self._config.batch_size + 1 if last_batch_is_one_sample else self._config.batch_size
        if last_batch_is_one_sample:
            warnings.warn(f'increased batch_size to {corrected_bs} for trainset')
        self._trainloader = DataLoader(
            self._trainset,
            batch_size=corrected_bs,
            shuffle=True,  # best practice to shuffle in training
        )
        if self._validset:
            self._validloader = DataLoader(self._validset, batch_size=self._config.batch_size * 8, shuffle=False)

    def train(self):
        for epoch in range(self._config.epochs):
            start = time.time()
            row = dict(epoch=epoch, **self._train_epoch(epoch))
            if self._validset:
                row.update(self._validate())
            self.losses.append(row)
            print(' '.join('%s: %.4f' % (k, v) if isinstance(v, float) else '%s: %d' % (k, v)
                           for k, v in row.items()) + ' (%.1fs)' % (time.time() - start))

    def _train_epoch(self, epoch):
        self._model.train()
        total, n = 0.0, 0
        for i, (indices, features, _) in enumerate(self._trainloader):
            self._optimizer.zero_grad()
            rec, mu, logvar = self._model(features)
            loss, recon, kl = self._loss_fn(rec, features, mu, logvar)
            loss.backward()
            self._optimizer.step()
            total += loss.item() * len(features)
            n += len(features)
            if (i + 1) % 100 == 0:
                print('  epoch %d batch %d/%d loss %.4f recon %.4f kl %.3f' % (
                    epoch, i + 1, len(self._trainloader), loss.item(), recon.item(), kl.item()))
        return dict(train_loss=total / n)

    @torch.no_grad()
    def _validate(self):
        self._model.eval()
        total, recon_total, n = 0.0, 0.0, 0
        for _, features, _ in self._validloader:
            rec, mu, logvar = self._model(features)
            loss, recon, _ = self._loss_fn(rec, features, mu, logvar)
            total += loss.item() * len(features)
            recon_total += recon.item() * len(features)
            n += len(features)
        return dict(valid_loss=total / n, valid_r2=1 - recon_total / n)

    @torch.no_grad()
    def predict(self, dataset: NumericDataset):
        self._model.eval()
        return torch.cat([self._model.encode(x)[0] for _, x, _ in DataLoader(dataset, batch_size=512)])


def neighbour_accuracy(z: torch.Tensor, labels: torch.Tensor, k: int = 10) -> float:
    d = torch.cdist(z, z)
    d.fill_diagonal_(float('inf'))
    votes = labels[d.topk(k, largest=False).indices]
    return (votes.mode(1).values == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--batch_size', type=int, default=Config.batch_size)
    parser.add_argument('--epochs', type=int, default=Config.epochs)
    args = parser.parse_args()
    torch.set_num_threads(1)
    config = Config(batch_size=args.batch_size, epochs=args.epochs)
    counts, types = simulate_counts(config.n_cells, 2400, 9, seed=0)
    data = Preprocessor(config)(counts, types)
    trainset, validset = NumericDataset(*data['train']), NumericDataset(*data['valid'])
    print('train: %d samples, valid: %d samples, %d features' % (len(trainset), len(validset),
                                                                 trainset.data.shape[1]))
    trainer = GeneralTrainer(trainset, validset, config)
    trainer.train()
    z = trainer.predict(validset)
    print('cell type accuracy of the neighbours in the latent space: %.3f'
          % neighbour_accuracy(z[:2000], validset.labels[:2000]))


if __name__ == '__main__':
    main()
