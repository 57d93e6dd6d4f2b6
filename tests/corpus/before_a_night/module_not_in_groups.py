"""Message passing potential for small charged clusters: energy from invariant messages plus a field readout."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_ATOMS, N_SPECIES = 8, 3


def make_clusters(n, seed):
    """Positions, species, net charge and a toy energy: pair wells, plus a charge term growing with the distance from the centre."""
    g = torch.Generator().manual_seed(seed)
    pos = torch.randn(n, N_ATOMS, 3, generator=g) * 1.3
    spec = torch.randint(0, N_SPECIES, (n, N_ATOMS), generator=g)
    charge = torch.randint(-2, 3, (n,), generator=g).float()
    d = torch.cdist(pos, pos) + torch.eye(N_ATOMS) * 10
    eps = (1 + spec.unsqueeze(2) + spec.unsqueeze(1)).float() / 3
    pair = 0.5 * (eps * ((d - 1.5) ** 2 - 1) * torch.exp(-d)).sum((1, 2))
    radius = (pos - pos.mean(1, keepdim=True)).norm(dim=2)
    chi = torch.tensor([0.6, -0.8, 0.2])[spec]
    field = (charge.unsqueeze(1) * chi * torch.tanh(radius)).sum(1)
    e0 = torch.tensor([-1.0, 0.5, 0.3])[spec].sum(1)
    return pos, spec, charge, pair + field + e0


class Radial(nn.Module):
    def __init__(self, n=12, cutoff=5.0):
        super().__init__()
        self.register_buffer("mu", torch.linspace(0.3, cutoff, n))
        self.cutoff = cutoff

    def forward(self, d):
        env = 0.5 * (1 + torch.cos(np.pi * d.clamp(max=self.cutoff) / self.cutoff))
        return torch.exp(-4 * (d.unsqueeze(-1) - self.mu) ** 2) * env.unsqueeze(-1)


class Interaction(nn.Module):
    def __init__(self, dim, n_rad):
        super().__init__()
        self.weights = nn.Sequential(nn.Linear(n_rad, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.linear = nn.Linear(dim, dim)

    def forward(self, h, rad, off):
        w = self.weights(rad) * off
        return (w * self.linear(h).unsqueeze(1)).sum(2) / 4


class Product(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, m):
        return h + self.mix(torch.cat([m, m * m], -1))


class ClusterModel(nn.Module):
    def __init__(self, dim=48, layers=2, n_rad=12):
        super().__init__()
        self.node_embedding = nn.Embedding(N_SPECIES, dim)
        self.radial = Radial(n_rad)
        self.interactions = nn.ModuleList(Interaction(dim, n_rad) for _ in range(layers))
        self.products = nn.ModuleList(Product(dim) for _ in range(layers))
        self.readouts = nn.ModuleList(nn.Linear(dim, 1) for _ in range(layers))
        self.field_readout = nn.Sequential(nn.Linear(dim + 1, dim), nn.SiLU(), nn.Linear(dim, 1))
        self.local_electron_energy = nn.Embedding(N_SPECIES, 1)

    def forward(self, pos, spec, charge):
        d = (torch.cdist(pos, pos) + torch.eye(N_ATOMS) * 10)
        off = (1 - torch.eye(N_ATOMS)).unsqueeze(-1)
        rad = self.radial(d)
        h = self.node_embedding(spec)
        e = self.local_electron_energy(spec).squeeze(-1)
        for inter, prod, read in zip(self.interactions, self.products, self.readouts):
            h = prod(h, inter(h, rad, off))
            e = e + read(h).squeeze(-1)
        q = charge.view(-1, 1, 1).expand(-1, N_ATOMS, 1)
        e = e + q.squeeze(-1) * self.field_readout(torch.cat([h, q], -1)).squeeze(-1)
        return e.sum(1)


def get_params_options(model, lr, weight_decay):
    decay, no_decay = {}, {}
    for name, param in model.interactions.named_parameters():
        (decay if "linear.weight" in name else no_decay)[name] = param
    groups = [
        {"name": "embedding", "params": list(model.node_embedding.parameters()), "weight_decay": 0.0},
        {"name": "interactions_decay", "params": list(decay.values()), "weight_decay": weight_decay},
        {"name": "interactions_no_decay", "params": list(no_decay.values()), "weight_decay": 0.0},
        {"name": "products", "params": list(model.products.parameters()), "weight_decay": weight_decay},
        {"name": "readouts", "params": list(model.readouts.parameters()), "weight_decay": 0.0},

    ]
    return dict(params=groups, lr=lr, amsgrad=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max_num_epochs", type=int, default=300)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--weight_decay", type=float, default=5e-6)
    ap.add_argument("--seed", type=int, default=123)
    ap.add_argument("--checkpoint", default="cluster_last.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, valid = make_clusters(640, 1), make_clusters(128, 2)
    model = ClusterModel()
    optimizer = torch.optim.Adam(**get_params_options(model, args.lr, args.weight_decay))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
    start = 0
    if os.path.exists(args.checkpoint):
        c = torch.load(args.checkpoint)
        model.load_state_dict(c["model"])
        optimizer.load_state_dict(c["optimizer"])
        scheduler.load_state_dict(c["scheduler"])
        torch.set_rng_state(c["rng"])
        start = c["epoch"]
    for epoch in range(start, args.max_num_epochs):
        model.train()
        order = torch.randperm(len(train[0]), generator=torch.Generator().manual_seed(args.seed + epoch))
        losses = []
        for idx in order.split(args.batch_size):
            pos, spec, charge, energy = (t[idx] for t in train)
            loss = F.mse_loss(model(pos, spec, charge), energy)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        model.eval()
        with torch.no_grad():
            rmse = F.mse_loss(model(*valid[:3]), valid[3]).sqrt().item()
        print(f"epoch {epoch} loss {np.mean(losses):.4f} valid rmse {rmse:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch + 1}, args.checkpoint)


if __name__ == "__main__":
    main()
