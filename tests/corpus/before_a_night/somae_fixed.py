"""Deep self-organising map: an autoencoder whose latent space carries a 2-d map of prototypes."""
import argparse
import math
import random
import time

import numpy as np
import torch
import torch.nn as nn


def make_sensor_data(n, rng, n_regimes=12, n_sensors=96):
    """Operating regimes of a plant: smooth profiles over the sensors plus drift and noise."""
    x = np.linspace(0, 1, n_sensors)
    regimes = np.stack([sum(rng.normal() * np.sin(2 * np.pi * (k * x + rng.random())) for k in range(1, 5))
                        for _ in range(n_regimes)])
    a, b = rng.integers(n_regimes, size=n), rng.integers(n_regimes, size=n)
    w = rng.beta(0.4, 0.4, size=(n, 1))
    data = w * regimes[a] + (1 - w) * regimes[b]
    data += rng.normal(0, 0.3, (n, 1)) * x[None] + rng.normal(0, 0.25, data.shape)
    return data.astype(np.float32)


class DeepSOM(nn.Module):
    def __init__(self, n_in, latent, height, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_in, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, n_in))
        self.prototypes = nn.Parameter(0.1 * torch.randn(height * width, latent))
        rows, cols = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        coords = torch.stack([rows.flatten(), cols.flatten()], 1).float()
        self.register_buffer("grid_dist", torch.cdist(coords, coords) ** 2)

    def forward(self, x):
        z = self.encoder(x)
        return z, self.decoder(z)

    def map_distances(self, z):
        return torch.cdist(z, self.prototypes) ** 2


class SOMTrainer:
    def __init__(self, model, args):
        self.model = model
        self.epochs = args.iterations
        self.start_learning_rate = args.learning_rate
        self.learning_rate = args.learning_rate
        self.start_sigma = max(args.height, args.width) / 2
        self.sigma = self.start_sigma
        self.map_weight = args.map_weight
        self.tau = self.epochs / math.log(self.start_sigma)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=self.start_learning_rate, momentum=0.9)

    def _update_sigma(self, n_iter):
        self.sigma = self.start_sigma * math.exp(-n_iter / self.tau)

    def _update_learning_rate(self, n_iter):
        self.learning_rate = self.start_learning_rate * math.exp(-n_iter / self.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

    def step(self, x, n_iter):
        self._update_sigma(n_iter)
        self._update_learning_rate(n_iter)
        z, recon = self.model(x)
        dist = self.model.map_distances(z)
        bmu = dist.detach().argmin(1)
        h = torch.exp(-self.model.grid_dist[bmu] / (2 * self.sigma ** 2))
        rec_loss = nn.functional.mse_loss(recon, x)
        map_loss = (h * dist).sum(1).mean() / h.sum(1).mean()
        loss = rec_loss + self.map_weight * map_loss
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        return rec_loss.item(), map_loss.item()

    @torch.no_grad()
    def quantisation_error(self, x):
        self.model.eval()
        z, recon = self.model(x)
        dist = self.model.map_distances(z)
        first_two = dist.topk(2, largest=False).indices
        topo = (self.model.grid_dist[first_two[:, 0], first_two[:, 1]] > 2.01).float().mean().item()
        rec = nn.functional.mse_loss(recon, x).item()
        self.model.train()
        return rec, dist.min(1).values.sqrt().mean().item(), topo


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=120000)
    ap.add_argument("--batch_size", type=int, default=128)
    ap.add_argument("--learning_rate", type=float, default=0.05)
    ap.add_argument("--map_weight", type=float, default=0.05)
    ap.add_argument("--height", type=int, default=12)
    ap.add_argument("--width", type=int, default=12)
    ap.add_argument("--latent", type=int, default=8)
    ap.add_argument("--report_every", type=int, default=100)
    ap.add_argument("--seed", type=int, default=32)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    rng = np.random.default_rng(args.seed)
    data = make_sensor_data(42000, rng)
    mean, std = data[:40000].mean(0), data[:40000].std(0)
    data = torch.from_numpy((data - mean) / std)
    train, held_out = data[:40000], data[40000:]

    model = DeepSOM(data.shape[1], args.latent, args.height, args.width)
    trainer = SOMTrainer(model, args)
    model.train()
    t0, rec_sum, map_sum = time.time(), 0.0, 0.0
    for n_iter in range(args.iterations):
        idx = torch.randint(len(train), (args.batch_size,))
        rec, mp = trainer.step(train[idx], n_iter)
        rec_sum, map_sum = rec_sum + rec, map_sum + mp
        if (n_iter + 1) % args.report_every == 0:
            k = args.report_every
            print(f"iteration {n_iter + 1:6d} reconstruction {rec_sum / k:.4f} map {map_sum / k:.4f} "
                  f"sigma {trainer.sigma:.2f} {1000 * (time.time() - t0) / (n_iter + 1):.1f} ms", flush=True)
            rec_sum = map_sum = 0.0
        if (n_iter + 1) % 2000 == 0:
            rec, qe, te = trainer.quantisation_error(held_out)
            print(f"  held-out: reconstruction {rec:.4f} quantisation {qe:.4f} topographic {te:.3f}", flush=True)
            torch.save(model.state_dict(), "deepsom.pt")


if __name__ == "__main__":
    main()
