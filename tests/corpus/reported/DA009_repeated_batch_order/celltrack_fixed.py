"""Contrastive embedding of cells in time-lapse movies: the positive of a cell is the same cell one frame later."""
from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

torch.set_num_threads(1)


@dataclass
class Index:
    """One row for every (track, frame) that has a next frame."""
    track: np.ndarray
    frame: np.ndarray
    experiment: np.ndarray

    def __len__(self) -> int:
        return len(self.track)


def simulate_movies(num_tracks: int, frames: int, size: int, seed: int):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    movies = np.empty((num_tracks, frames, 1, size, size), dtype=np.float32)
    for k in range(num_tracks):
        # nucleus shape and organelle spots belong to the cell and change slowly
        a, b, theta = rng.uniform(5, 8), rng.uniform(3, 5), rng.uniform(0, np.pi)
        spots = rng.normal(0, 2.6, (rng.integers(2, 6), 2))
        bright, texture = rng.uniform(0.5, 1.0), rng.uniform(0.5, 1.5)
        for t in range(frames):
            theta += rng.normal(0, 0.08)
            spots = spots + rng.normal(0, 0.1, spots.shape)
            cy, cx = size / 2 - 0.5 + rng.normal(0, 0.7, 2)
            u = (yy - cy) * np.cos(theta) + (xx - cx) * np.sin(theta)
            v = -(yy - cy) * np.sin(theta) + (xx - cx) * np.cos(theta)
            img = bright / (1 + np.exp(4 * (np.hypot(u / a, v / b) - 1)))
            for sy, sx in spots:
                img = img + 1.0 * np.exp(-((u - sy) ** 2 + (v - sx) ** 2) / texture)
            movies[k, t, 0] = img + rng.normal(0, 0.08, (size, size))
    movies = (movies - movies.mean()) / movies.std()
    track, frame = np.divmod(np.arange(num_tracks * (frames - 1)), frames - 1)
    return torch.from_numpy(movies), Index(track, frame, track % 4)


class TripletDataset(Dataset):
    def __init__(self, movies: Tensor, index: Index):
        self.movies, self.index = movies, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, i: int):
        k, t = self.index.track[i], self.index.frame[i]
        return self.movies[k, t], self.movies[k, t + 1], int(k)


class FlexibleBatchSampler(Sampler[list[int]]):
    """Batches of different tracks, by choice all from one experiment."""

    def __init__(self, index: Index, batch_size: int, experiment_aware: bool = True, seed: int = 0):
        self.index, self.batch_size = index, batch_size
        self.experiment_aware = experiment_aware
        self.seed, self.epoch = seed, 0
        self.groups = [np.flatnonzero(index.experiment == e) for e in np.unique(index.experiment)]

    def set_epoch(self, epoch: int) -> None:
        """Set epoch for deterministic shuffling."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.index) // self.batch_size

    def _build_one_batch(self, rng: np.random.Generator) -> list[int]:
        pool = self.groups[rng.integers(len(self.groups))] if self.experiment_aware else np.arange(len(self.index))
        chosen, seen = [], set()
        for i in rng.permutation(pool):
            if self.index.track[i] not in seen:
                seen.add(self.index.track[i])
                chosen.append(int(i))
                if len(chosen) == self.batch_size:
                    break
        return chosen

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self.epoch
        self.epoch += 1
        rng = np.random.default_rng(self.seed + epoch)
        for _ in range(len(self)):
            yield self._build_one_batch(rng)


def augment(x: Tensor) -> Tensor:
    """Flips, quarter turns, gain and noise, on the whole batch."""
    if torch.rand(()) < 0.5:
        x = x.flip(-1)
    x = torch.rot90(x, int(torch.randint(0, 4, ())), dims=(-2, -1))
    gain = 1 + 0.2 * torch.randn(len(x), 1, 1, 1)
    return x * gain + 0.05 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, width: int, embedding: int, projection: int):
        super().__init__()
        layers, c = [], 1
        for o in (width, 2 * width, 4 * width):
            layers += [nn.Conv2d(c, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
            c = o
        self.backbone = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * 9, embedding))
        self.projection = nn.Sequential(nn.ReLU(), nn.Linear(embedding, embedding), nn.ReLU(), nn.Linear(embedding, projection))

    def forward(self, x: Tensor):
        features = self.backbone(x)
        return features, F.normalize(self.projection(features), dim=1)


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    z = torch.cat([a, b])
    sim = z @ z.T / temperature
    sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), float('-inf'))
    n = len(a)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


@torch.no_grad()
def validate(model: Encoder, loader: DataLoader, temperature: float):
    """Loss, and how often the next frame of a cell is its nearest neighbour."""
    model.eval()
    losses, hits, total = [], 0, 0
    for anchor, positive, _ in loader:
        (_, za), (_, zp) = model(anchor), model(positive)
        losses.append(nt_xent(za, zp, temperature).item())
        hits += ((za @ zp.T).argmax(1) == torch.arange(len(za))).sum().item()
        total += len(za)
    return np.mean(losses), hits / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--tracks', type=int, default=1800)
    parser.add_argument('--frames', type=int, default=4)
    parser.add_argument('--batch-size', type=int, default=64)
    parser.add_argument('--max-epochs', type=int, default=80)
    parser.add_argument('--limit-train-batches', type=int, default=5)
    parser.add_argument('--check-val-every-n-epoch', type=int, default=4)
    parser.add_argument('--temperature', type=float, default=0.2)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--seed', type=int, default=42)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    train_movies, train_index = simulate_movies(args.tracks, args.frames, 24, args.seed)
    val_movies, val_index = simulate_movies(200, 5, 24, args.seed + 1)
    train_loader = DataLoader(TripletDataset(train_movies, train_index),
                              batch_sampler=FlexibleBatchSampler(train_index, args.batch_size, seed=args.seed))
    # frame by frame, so that every batch holds different cells
    order = np.argsort(val_index.frame, kind='stable')
    val_set = TripletDataset(val_movies, Index(val_index.track[order], val_index.frame[order], val_index.experiment[order]))
    val_loader = DataLoader(val_set, batch_size=200)

    model = Encoder(width=12, embedding=64, projection=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    total_steps = args.max_epochs * args.limit_train_batches
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 30) * 0.5 * (1 + math.cos(math.pi * s / total_steps)))
    print(f'{len(train_index)} anchors, {args.limit_train_batches} of {len(train_loader)} batches per epoch')
    for epoch in range(args.max_epochs):
        model.train()
        losses, t0 = [], time.time()
        for step, (anchor, positive, _) in enumerate(train_loader):
            if step == args.limit_train_batches:
                break
            optimizer.zero_grad()
            (_, za), (_, zp) = model(augment(anchor)), model(augment(positive))
            loss = nt_xent(za, zp, args.temperature)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        if (epoch + 1) % args.check_val_every_n_epoch:
            continue
        val_loss, top1 = validate(model, val_loader, args.temperature)
        print(f'epoch {epoch:2d}  loss/train {np.mean(losses):.4f}  loss/val {val_loss:.4f}  val top-1 {top1:.3f}  ({time.time() - t0:.1f}s)')


if __name__ == '__main__':
    main()
