"""Neural-network potential: energies of small clusters from pair features, exponential moving average of the weights."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=400)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--ema-decay", type=float, default=0.995)
parser.add_argument("--seed", type=int, default=114)
parser.add_argument("--ckpt", default="potential.pt")

ATOMS = 8


def clusters(n, seed):
    rng = np.random.default_rng(seed)
    lattice = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)], float) * 1.15
    pos = lattice[None] + rng.normal(0, 0.09, (n, ATOMS, 3))
    pos *= rng.uniform(0.94, 1.12, (n, 1, 1))
    kind = rng.integers(0, 2, (n, ATOMS))
    d = np.linalg.norm(pos[:, :, None] - pos[:, None], axis=-1) + 10 * np.eye(ATOMS)
    eps = np.array([[1.0, 0.7], [0.7, 1.5]])[kind[:, :, None], kind[:, None]]
    e = 2.0 * (eps * ((1 / d) ** 8 - 1.2 * (1 / d) ** 4)).sum((1, 2))
    return pos.astype(np.float32), kind, e.astype(np.float32)


class Potential(nn.Module):
    def __init__(self, dim=48, rbf=16):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.8, 2.6, rbf))
        self.kind = nn.Embedding(2, dim)
        self.filter = nn.Sequential(nn.Linear(rbf, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.update = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim)) for _ in range(2))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, pos, kind):
        diff = pos[:, :, None] - pos[:, None]
        d = (diff.pow(2).sum(-1) + 1e-9).sqrt()
        w = self.filter(torch.exp(-18.0 * (d[..., None] - self.centers) ** 2))
        w = w * (1 - torch.eye(ATOMS)[None, :, :, None])
        h = self.kind(kind)
        for u in self.update:
            h = h + u((w * h[:, None]).sum(2) / 4)
        return self.readout(h).mean((1, 2))


class EMA:
    """Moving average of the parameters; the decay grows with the number of updates at first."""

    def __init__(self, model, decay):
        self.decay, self.num_updates = decay, 0
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        self.num_updates += 1
        d = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        for k, v in model.named_parameters():
            self.shadow[k].lerp_(v, 1 - d)

    def state_dict(self):
        return {"num_updates": self.num_updates, "shadow": self.shadow}

    def load_state_dict(self, state):
        self.num_updates = state["num_updates"]
        self.shadow = {k: v.clone() for k, v in state["shadow"].items()}


@torch.no_grad()
def evaluate(model, ema, loader):
    raw = {k: v.detach().clone() for k, v in model.named_parameters()}
    for k, v in model.named_parameters():
        v.copy_(ema.shadow[k])
    model.eval()
    mae = np.mean([(model(p, z) - e).abs().mean().item() for p, z, e in loader])
    for k, v in model.named_parameters():
        v.copy_(raw[k])
    model.train()
    return mae


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    pos, kind, e = clusters(768, 1)
    vpos, vkind, ve = clusters(192, 2)
    shift, scale = e.mean(), e.std()
    gen = torch.Generator().manual_seed(args.seed)
    train = DataLoader(TensorDataset(torch.from_numpy(pos), torch.from_numpy(kind), torch.from_numpy((e - shift) / scale)),
                       args.batch_size, shuffle=True, generator=gen)
    val = DataLoader(TensorDataset(torch.from_numpy(vpos), torch.from_numpy(vkind), torch.from_numpy((ve - shift) / scale)), 96)
    model = Potential()
    ema = EMA(model, args.ema_decay)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt, weights_only=False)
        model.load_state_dict(ck["model"])
        ema = EMA(model, args.ema_decay)
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"]
        torch.set_rng_state(ck["torch"])
        np.random.set_state(ck["numpy"])
        random.setstate(ck["python"])
        gen.set_state(ck["loader"])
        print(f"resume at epoch {start}")
    for epoch in range(start, args.epochs):
        total = 0.0
        for i, (p, z, y) in enumerate(train):
            loss = nn.functional.mse_loss(model(p, z), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            opt.step()
            ema.update(model)
            total += loss.item()
            if i % 6 == 0:
                print(f"epoch {epoch} step {i} mse {loss.item():.5f}")
        sched.step()
        print(f"epoch {epoch} train mse {total / len(train):.5f} val mae (ema) {evaluate(model, ema, val):.5f}")
        torch.save({
            "model": model.state_dict(),
            "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
            "torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(), "loader": gen.get_state(),
        }, args.ckpt + ".tmp")
        os.replace(args.ckpt + ".tmp", args.ckpt)


if __name__ == "__main__":
    main()
