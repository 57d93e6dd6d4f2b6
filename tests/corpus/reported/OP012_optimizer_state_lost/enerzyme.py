"""Machine-learned force field: continuous-filter network for energies and forces, with restart support."""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class MolecularDataset(Dataset):
    """Perturbed geometries of one small molecule, Morse bonds plus screened charges as the reference method."""

    def __init__(self, n, seed, n_atoms=7):
        rng = np.random.default_rng(11)
        self.Za = torch.tensor([0, 1, 1, 2, 0, 2, 1])[:n_atoms]
        charges = torch.tensor([0.3, -0.4, 0.2])[self.Za]
        base = torch.tensor(rng.uniform(-1.6, 1.6, size=(n_atoms, 3)), dtype=torch.float32)
        gen = torch.Generator().manual_seed(seed)
        self.Ra = base + 0.25 * torch.randn(n, n_atoms, 3, generator=gen)
        R = self.Ra.clone().requires_grad_(True)
        i, j = torch.triu_indices(n_atoms, n_atoms, 1)
        d = (R[:, i] - R[:, j]).norm(dim=-1).clamp(min=0.6)
        morse = ((1 - torch.exp(-1.2 * (d - 1.5))) ** 2) * torch.exp(-0.4 * d)
        self.E = (morse + charges[i] * charges[j] * torch.exp(-d / 3) / d).sum(1)
        self.F = -torch.autograd.grad(self.E.sum(), R)[0]
        self.E = self.E.detach()

    def __len__(self):
        return len(self.Ra)

    def __getitem__(self, k):
        return self.Ra[k], self.Za, self.E[k], self.F[k]


class InteractionBlock(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inp = nn.Linear(dim, dim, bias=False)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, rbf, mask):
        w = self.filter(rbf) * mask
        return h + self.out((w * self.inp(h)[:, None]).sum(2))


class ForceField(nn.Module):
    def __init__(self, dim=24, n_rbf=16, n_blocks=2):
        super().__init__()
        self.embedding = nn.Embedding(3, dim)
        self.register_buffer("centers", torch.linspace(0.5, 5.0, n_rbf))
        self.blocks = nn.ModuleList(InteractionBlock(dim, n_rbf) for _ in range(n_blocks))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, Ra, Za):
        Ra = Ra.clone().requires_grad_(True)
        n = Ra.shape[1]
        mask = (1 - torch.eye(n))[None, :, :, None]
        diff = Ra[:, :, None] - Ra[:, None]
        dist = (diff.pow(2).sum(-1) + 1e-6).sqrt()
        rbf = torch.exp(-4.0 * (dist[..., None] - self.centers) ** 2)
        h = self.embedding(Za)
        for block in self.blocks:
            h = block(h, rbf, mask)
        E = self.readout(h).sum((1, 2))
        F = -torch.autograd.grad(E.sum(), Ra, create_graph=True)[0]
        return E, F


class Trainer:
    def __init__(self, config, train_set, val_set, out_dir, resume=None):
        self.cfg = config
        self.out_dir = out_dir
        self.train_loader = DataLoader(train_set, batch_size=config.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(val_set, batch_size=64)
        self.E_shift = train_set.E.mean()
        self.model = ForceField()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr, amsgrad=True)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=config.lr_decay)
        self.start_epoch = 0
        self.best = float("inf")
        if resume is not None:
            self.load(resume)

    def save(self, epoch):
        path = os.path.join(self.out_dir, "model_last.pth")
        torch.save({
            "epoch": epoch,
            "best_score": self.best,
            "model_state_dict": self.model.state_dict(),
        }, path)
        return path

    def load(self, path):
        checkpoint = torch.load(path, weights_only=True)
        self.start_epoch = checkpoint["epoch"] + 1
        self.best = checkpoint["best_score"]
        self.model.load_state_dict(checkpoint["model_state_dict"])
        print(f"resumed from {os.path.basename(path)} at epoch {self.start_epoch}")

    def loss_fn(self, batch):
        Ra, Za, E, F = batch
        E_pred, F_pred = self.model(Ra, Za)
        loss_E = (E_pred - (E - self.E_shift)).pow(2).mean()
        loss_F = (F_pred - F).pow(2).mean()
        return self.cfg.weight_E * loss_E + loss_F, (E_pred - (E - self.E_shift)).abs().mean().item(), \
            (F_pred - F).abs().mean().item()

    def evaluate(self):
        self.model.eval()
        stats = []
        for batch in self.val_loader:
            loss, mae_E, mae_F = self.loss_fn(batch)
            stats.append((loss.item(), mae_E, mae_F))
        self.model.train()
        return np.mean(stats, axis=0)

    def train(self, until_epoch):
        t0, path = time.time(), None
        for epoch in range(self.start_epoch, until_epoch):
            losses = []
            for batch in self.train_loader:
                loss, _, _ = self.loss_fn(batch)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
                self.optimizer.step()
                losses.append(loss.item())
            lr = self.optimizer.param_groups[0]["lr"]
            self.scheduler.step()
            val_loss, mae_E, mae_F = self.evaluate()
            self.best = min(self.best, float(val_loss))
            path = self.save(epoch)
            print(f"epoch {epoch:3d} lr {lr:.2e} train_loss {np.mean(losses):.5f} val_loss {val_loss:.5f} "
                  f"MAE_E {mae_E:.4f} MAE_F {mae_F:.4f} best {self.best:.5f} ({time.time() - t0:.1f}s)")
        return path


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=34)
    p.add_argument("--walltime_epochs", type=int, default=24, help="epochs that fit into one queue slot")
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--lr_decay", type=float, default=0.84)
    p.add_argument("--weight_E", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=114514)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    train_set, val_set = MolecularDataset(640, seed=1), MolecularDataset(128, seed=2)

    with tempfile.TemporaryDirectory() as out_dir:
        trainer = Trainer(args, train_set, val_set, out_dir)
        print(f"parameters {sum(q.numel() for q in trainer.model.parameters())}, train {len(train_set)}")
        checkpoint = trainer.train(args.walltime_epochs)
        print("queue slot over, job is submitted again")
        trainer = Trainer(args, train_set, val_set, out_dir, resume=checkpoint)
        trainer.train(args.epochs)


if __name__ == "__main__":
    main()
