"""CosmoFlow-like regression: 3D convolutions from a density cube to two parameters, polynomial decay of the rate."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--num-epochs", type=int, default=200)
parser.add_argument("--mini-batch-size", type=int, default=16)
parser.add_argument("--init-lr", type=float, default=2e-3)
parser.add_argument("--end-lr", type=float, default=1e-5)
parser.add_argument("--power", type=float, default=1.0)
parser.add_argument("--seed", type=int, default=2021)
parser.add_argument("--checkpoint", default="cosmo.pt")


def cubes(n, seed, size=16):
    """Gaussian fields whose slope and amplitude are the parameters to infer."""
    rng = np.random.default_rng(seed)
    k = np.fft.fftfreq(size) * size
    kk = np.sqrt(k[:, None, None] ** 2 + k[None, :, None] ** 2 + k[None, None] ** 2)
    kk[0, 0, 0] = 1.0
    slope, amp = rng.uniform(0.5, 2.5, n), rng.uniform(0.6, 1.6, n)
    x = np.empty((n, 1, size, size, size), np.float32)
    for i in range(n):
        f = np.fft.fftn(rng.normal(size=(size,) * 3)) * kk ** (-slope[i])
        f[0, 0, 0] = 0
        r = np.fft.ifftn(f).real
        x[i, 0] = np.log1p(np.abs(r / r.std() * amp[i])) * np.sign(r)
    y = np.stack([(slope - 1.5) / 0.577, (amp - 1.1) / 0.289], 1).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class CosmoNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        def stage(i, o):
            return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.LeakyReLU(0.1), nn.AvgPool3d(2))
        self.features = nn.Sequential(stage(1, c), stage(c, 2 * c), stage(2 * c, 4 * c))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * c * 8, 64), nn.LeakyReLU(0.1), nn.Linear(64, 2))

    def forward(self, x):
        return self.head(self.features(x))


class PolynomialDecay:
    """lr(step) = (start - end) * (1 - step / max_step) ** power + end, set before every step."""

    def __init__(self, optimizer, max_step, end_lr, power):
        self.optimizer, self.max_step, self.end_lr, self.power = optimizer, max_step, end_lr, power
        self.start_lr = optimizer.param_groups[0]["lr"]
        self.count = 0

    def step(self):
        self.count += 1
        scale = (1 - min(self.count, self.max_step) / self.max_step) ** self.power
        for group in self.optimizer.param_groups:
            base = group["lr"]
            group["lr"] = (base - self.end_lr) * scale + self.end_lr

    def state_dict(self):
        return {"start_lr": self.start_lr, "count": self.count}

    def load_state_dict(self, state):
        self.start_lr, self.count = state["start_lr"], state["count"]


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(*cubes(384, 1)), args.mini_batch_size, shuffle=True, generator=gen)
    val = DataLoader(TensorDataset(*cubes(96, 2)), 48)
    model = CosmoNet()
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.init_lr)
    schedule = PolynomialDecay(optimizer, args.num_epochs * len(train), args.end_lr, args.power)
    start = 0
    if os.path.exists(args.checkpoint):
        c = torch.load(args.checkpoint, weights_only=False)
        model.load_state_dict(c["model"])
        optimizer.load_state_dict(c["optimizer"])
        schedule.load_state_dict(c["schedule"])
        start = c["epoch"]
        torch.set_rng_state(c["torch_rng"])
        np.random.set_state(c["numpy_rng"])
        random.setstate(c["python_rng"])
        gen.set_state(c["loader_rng"])
    for epoch in range(start, args.num_epochs):
        model.train()
        total = 0.0
        for i, (x, y) in enumerate(train):
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
            if i % 6 == 0:
                print(f"epoch {epoch} mini-batch {i} mse {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.3e}")
        model.eval()
        with torch.no_grad():
            v = np.mean([loss_fn(model(x), y).item() for x, y in val])
        print(f"epoch {epoch} train mse {total / len(train):.4f} val mse {v:.4f}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
                    "epoch": epoch + 1, "torch_rng": torch.get_rng_state(), "numpy_rng": np.random.get_state(),
                    "python_rng": random.getstate(), "loader_rng": gen.get_state()}, args.checkpoint + ".tmp")
        os.replace(args.checkpoint + ".tmp", args.checkpoint)


if __name__ == "__main__":
    main()
