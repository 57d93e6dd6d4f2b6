import argparse
import math
import random
import time

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="Cell-cycle phase from spliced/unspliced counts (circular autoencoder).")
parser.add_argument("--n_cells", type=int, default=5640)
parser.add_argument("--n_genes", type=int, default=120)
parser.add_argument("--base_gene", type=int, default=0, help="gene used for the initial guess of the phase")
parser.add_argument("--encoder_epochs", type=int, default=20)
parser.add_argument("--epochs", type=int, default=1000)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--output", type=str, default="deepcycle_ae.pt")
args = parser.parse_args()

# TRAINING SETTINGS
fraction_of_cells_to_validation = 0.17
BATCH_SIZE = 5
lr = 1e-4

random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)


def simulate_counts(n_cells, n_genes, rng):
    """Spliced and unspliced expression of genes that peak at different phases of the cycle."""
    theta = rng.random(n_cells)
    peak = rng.random(n_genes)
    peak[args.base_gene] = 0.25
    amp = rng.uniform(0.5, 2.0, n_genes)
    level = rng.uniform(2.0, 5.0, n_genes)
    lag = rng.uniform(0.03, 0.08, n_genes)
    ang = 2 * np.pi * (theta[:, None] - peak[None])
    spliced = level + amp * np.cos(ang) + 0.3 * amp * np.cos(2 * ang)
    ang_u = 2 * np.pi * (theta[:, None] - peak[None] + lag[None])
    unspliced = 0.6 * level + 0.8 * amp * np.cos(ang_u) + 0.2 * amp * np.cos(2 * ang_u)
    spliced += rng.normal(0, 0.45, spliced.shape)
    unspliced += rng.normal(0, 0.45, unspliced.shape)
    data = np.stack([spliced, unspliced], axis=2).reshape(n_cells, 2 * n_genes)
    return data, theta


rng = np.random.default_rng(args.seed)
raw, true_theta = simulate_counts(args.n_cells, args.n_genes, rng)
np_data = ((raw - raw.mean(0)) / raw.std(0)).astype(np.float32)

n_cells = np_data.shape[0]
n_cells_to_validation = int(n_cells * fraction_of_cells_to_validation)
print("[Total number of cells]:", n_cells)
print("[Number of cells used for training]:", n_cells - n_cells_to_validation)
print("[Number of cells used for validation]:", n_cells_to_validation)

# initial guess of the phase from one gene
g = args.base_gene
angles = (np.arctan2(np_data[:, 2 * g + 1], np_data[:, 2 * g]) % (2 * np.pi)) / (2 * np.pi)

data = torch.from_numpy(np_data)
targets = torch.from_numpy(angles.astype(np.float32))

# batches of cells
order = torch.from_numpy(rng.permutation(n_cells))
batches = list(order.split(BATCH_SIZE))
eval_batches = batches[:n_cells_to_validation]
train_batches = batches[n_cells_to_validation:]
train_cells = torch.cat(train_batches)

INPUT_DIM = np_data.shape[1]
HIDDEN_DIM = args.n_genes * 8


class Circularize(nn.Module):
    def forward(self, x):
        return torch.cat([torch.cos(2 * math.pi * x), torch.sin(2 * math.pi * x)], dim=1)


class GaussianNoise(nn.Module):
    def __init__(self, std):
        super().__init__()
        self.std = std

    def forward(self, x):
        return x + self.std * torch.randn_like(x) if self.training else x


encoder = nn.Sequential(
    GaussianNoise(0.01),
    nn.Linear(INPUT_DIM, HIDDEN_DIM), nn.LeakyReLU(0.2),
    nn.Linear(HIDDEN_DIM, HIDDEN_DIM // 2), nn.LeakyReLU(0.2),
    nn.Linear(HIDDEN_DIM // 2, 1),
)
decoder = nn.Sequential(
    Circularize(),
    nn.Linear(2, HIDDEN_DIM // 2), nn.LeakyReLU(0.2),
    nn.Linear(HIDDEN_DIM // 2, HIDDEN_DIM), nn.LeakyReLU(0.2),
    nn.Linear(HIDDEN_DIM, INPUT_DIM),
)
circle = Circularize()


def encoder_loss(idx):
    return ((circle(encoder(data[idx])) - circle(targets[idx][:, None])) ** 2).mean()


def autoencoder_loss(idx):
    x = data[idx]
    return ((decoder(encoder(x)) - x) ** 2).mean()


def run_phase(name, params, loss_fn, epochs, save=None):
    optimizer = torch.optim.Adam(params, lr=lr)
    best = float("inf")
    for epoch in range(1, epochs + 1):
        encoder.train()
        decoder.train()
        t0, total = time.time(), 0.0
        epoch_batches = train_cells[torch.randperm(len(train_cells))].split(BATCH_SIZE)
        for it, idx in enumerate(epoch_batches, 1):
            loss = loss_fn(idx)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if it % 100 == 0:
                print(f"  {name} epoch {epoch} {it}/{len(epoch_batches)} loss {total / it:.4f} "
                      f"({1000 * (time.time() - t0) / it:.1f} ms)", flush=True)
        encoder.eval()
        decoder.eval()
        with torch.no_grad():
            val = sum(loss_fn(idx).item() * len(idx) for idx in eval_batches)
            val /= sum(len(idx) for idx in eval_batches)
        print(f"[{name}] epoch {epoch}/{epochs} loss {total / len(epoch_batches):.4f} val_loss {val:.4f}", flush=True)
        if save and val < best:
            torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, save)
        best = min(best, val)
    return best


if __name__ == "__main__":
    run_phase("encoder", encoder.parameters(), encoder_loss, args.encoder_epochs)
    best = run_phase("autoencoder", list(encoder.parameters()) + list(decoder.parameters()),
                     autoencoder_loss, args.epochs, save=args.output)
    print("[Best validation MSE]:", best)
