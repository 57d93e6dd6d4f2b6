"""Neural network potential for small metal clusters: energies and forces from symmetry functions."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ETAS = (0.3, 0.8, 1.6, 3.0)
SHIFTS = (0.0, 1.0, 1.6)
CUTOFF = 3.2


def cutoff_fn(r):
    return np.where(r < CUTOFF, 0.5 * (np.cos(np.pi * r / CUTOFF) + 1), 0.0)


def cutoff_grad(r):
    return np.where(r < CUTOFF, -0.5 * np.pi / CUTOFF * np.sin(np.pi * r / CUTOFF), 0.0)


class AtomsDataset(Dataset):
    """Perturbed clusters with Morse energies; fingerprints and their derivatives are computed once."""

    def __init__(self, n_images, n_atoms, seed, scaling=None):
        rng = np.random.default_rng(seed)
        self.n_atoms = n_atoms
        self.n_fp = len(ETAS) * len(SHIFTS)
        self.images = [self.image(rng) for _ in range(n_images)]
        if scaling is None:
            fps = np.concatenate([im['fp'] for im in self.images])
            energies = np.array([im['energy'] for im in self.images]) / n_atoms
            scaling = {'fp_mean': fps.mean(0), 'fp_std': fps.std(0) + 1e-6, 'e_mean': energies.mean(), 'e_std': energies.std()}
        self.scaling = scaling
        for im in self.images:
            im['fp'] = (im['fp'] - scaling['fp_mean']) / scaling['fp_std']
            im['fprime'] = im['fprime'] / scaling['fp_std'][None, :, None, None]
            im['energy'] = (im['energy'] - n_atoms * scaling['e_mean']) / scaling['e_std']
            im['forces'] = im['forces'] / scaling['e_std']
            for key, value in im.items():
                im[key] = torch.tensor(value, dtype=torch.float32)

    def image(self, rng):
        n = self.n_atoms
        side = int(np.ceil(n ** (1 / 3)))
        lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing='ij'), -1).reshape(-1, 3)
        pos = 1.1 * lattice[rng.permutation(len(lattice))[:n]] + rng.normal(0, 0.09, (n, 3))
        delta = pos[:, None] - pos[None]                                   # i - j
        r = np.sqrt((delta ** 2).sum(-1)) + np.eye(n) * 1e3
        unit = delta / r[..., None]
        # Morse potential
        x = np.exp(-1.8 * (r - 1.12))
        energy = 0.5 * (x ** 2 - 2 * x).sum()
        dpair = -1.8 * (2 * x ** 2 - 2 * x)                                # dV/dr
        forces = -(dpair[..., None] * unit).sum(1)
        fp = np.zeros((n, self.n_fp))
        fprime = np.zeros((n, self.n_fp, n, 3))
        for k, (eta, shift) in enumerate((e, s) for e in ETAS for s in SHIFTS):
            g = np.exp(-eta * (r - shift) ** 2)
            fp[:, k] = (g * cutoff_fn(r)).sum(1)
            dg = (-2 * eta * (r - shift) * g * cutoff_fn(r) + g * cutoff_grad(r))[..., None] * unit
            fprime[:, k] = -dg                                             # derivative by the neighbour
            fprime[np.arange(n), k, np.arange(n)] = dg.sum(1)              # derivative by the atom itself
        return {'fp': fp, 'fprime': fprime, 'energy': energy, 'forces': forces}

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i]


def factorize_data(batch):
    """Collect a batch; the derivatives become one block-diagonal matrix (fingerprints x coordinates)."""
    n_atoms, n_fp = batch[0]['fp'].shape
    fingerprints = torch.cat([im['fp'] for im in batch])
    energies = torch.stack([im['energy'] for im in batch])
    forces = torch.cat([im['forces'] for im in batch])
    image_idx = torch.arange(len(batch)).repeat_interleave(n_atoms)
    rows, cols = n_atoms * n_fp, n_atoms * 3
    fprimes = torch.zeros(0, len(batch) * cols)
    for i, im in enumerate(batch):
        block = im['fprime'].reshape(rows, cols)
        left = torch.zeros(rows, i * cols)
        right = torch.zeros(rows, (len(batch) - i - 1) * cols)
        fprimes = torch.cat([fprimes, torch.cat([left, block, right], dim=1)], dim=0)
    return fingerprints, fprimes, energies, forces, image_idx


class BPNN(nn.Module):
    """Behler-Parrinello network; the forces follow from the chain rule with the stored derivatives."""

    def __init__(self, n_fp, hidden=192):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_fp, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, fingerprints, fprimes, image_idx, n_images):
        fingerprints = fingerprints.requires_grad_(True)
        atomic = self.net(fingerprints).squeeze(1)
        energy = torch.zeros(n_images).index_add(0, image_idx, atomic)
        grad, = torch.autograd.grad(energy.sum(), fingerprints, create_graph=self.training)
        forces = -(grad.reshape(1, -1) @ fprimes).view(-1, 3)
        return energy, forces


def loss_fn(energy, forces, target_e, target_f, n_atoms, force_coefficient):
    e = ((energy - target_e) / n_atoms).pow(2).mean()
    f = (forces - target_f).pow(2).mean()
    return e + force_coefficient * f, e.item() ** 0.5, f.item() ** 0.5


def evaluate(model, loader, args, scale):
    model.eval()
    rows = []
    for fp, fprimes, e, f, idx in loader:
        pe, pf = model(fp, fprimes, idx, len(e))
        with torch.no_grad():
            rows.append(loss_fn(pe, pf, e, f, args.atoms, args.force_coefficient)[1:])
    model.train()
    return np.mean(rows, axis=0) * scale


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--images', type=int, default=1200)
    parser.add_argument('--atoms', type=int, default=14)
    parser.add_argument('--batch-size', type=int, default=24)
    parser.add_argument('--epochs', type=int, default=900)
    parser.add_argument('--lr', type=float, default=2e-3)
    parser.add_argument('--force-coefficient', type=float, default=0.05)
    parser.add_argument('--seed', type=int, default=3)
    parser.add_argument('--out', default='potential')
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    t0 = time.time()
    train_set = AtomsDataset(args.images, args.atoms, args.seed)
    val_set = AtomsDataset(160, args.atoms, args.seed + 1, train_set.scaling)
    print(f'fingerprints of {len(train_set) + len(val_set)} images: {time.time() - t0:.1f}s')
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, collate_fn=factorize_data, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size, collate_fn=factorize_data)

    model = BPNN(train_set.n_fp)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=1e-5)
    scale, best = train_set.scaling['e_std'], float('inf')
    for epoch in range(args.epochs):
        start, rows = time.time(), []
        for step, (fp, fprimes, e, f, idx) in enumerate(train_loader):
            pe, pf = model(fp, fprimes, idx, len(e))
            loss, rmse_e, rmse_f = loss_fn(pe, pf, e, f, args.atoms, args.force_coefficient)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows.append((loss.item(), rmse_e * scale, rmse_f * scale))
            if step % 10 == 0:
                print(f'epoch {epoch} step {step} loss {rows[-1][0]:.5f}', flush=True)
        scheduler.step()
        val_e, val_f = evaluate(model, val_loader, args, scale)
        print('epoch %d loss %.5f train E %.4f F %.4f | val E/atom %.4f F %.4f (%.1fs)' % (
            epoch, *np.mean(rows, axis=0), val_e, val_f, time.time() - start), flush=True)
        if val_e + val_f < best:
            best = val_e + val_f
            torch.save({'model': model.state_dict(), 'scaling': train_set.scaling, 'epoch': epoch}, os.path.join(args.out, 'best.pt'))


if __name__ == '__main__':
    main()
