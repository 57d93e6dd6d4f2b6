from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainingParameters:
    batch_size: int = 32
    lr: float = 4e-3
    max_epochs: int = 4
    cutoff: float = 4.0
    seed: int = 12


class ConformerDataset(Dataset):
    """Conformers of several molecules, stored molecule by molecule as in the archive file."""

    def __init__(self, n_molecules, n_conformers, part, seed):
        gen = torch.Generator().manual_seed(seed)
        z_all, r_all, e_all = [], [], []
        for m in range(n_molecules):
            z = torch.randint(0, 4, (8,), generator=gen)
            base = torch.randn(8, 3, generator=gen) * 1.4
            r = (base + 0.25 * torch.randn(n_conformers, 8, 3, generator=gen))[part]
            z_all.append(z.expand(len(r), 8))
            r_all.append(r)
            e_all.append(self._energy(z, r))
        self.z, self.r = torch.cat(z_all), torch.cat(r_all)
        self.e = torch.cat(e_all)

    @staticmethod
    def _energy(z, r):
        d = (r[:, :, None] - r[:, None]).norm(dim=-1) + 10.0 * torch.eye(8)
        q = torch.tensor([0.4, -0.6, 0.9, -0.3])[z]
        pair = q[:, None] * q[None, :] * torch.exp(-0.6 * d)
        return 1.5 * pair.sum(dim=(1, 2)) + 0.8 * q.sum()

    def __len__(self):
        return len(self.e)

    def __getitem__(self, i):
        return self.z[i], self.r[i], self.e[i]


class DataModule:
    def __init__(self, params):
        self.params = params

    def setup(self):
        self.train_set = ConformerDataset(40, 54, slice(0, 48), seed=1)
        self.val_set = ConformerDataset(40, 54, slice(48, 54), seed=1)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.params.batch_size)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=120)


class SchNetLike(nn.Module):
    def __init__(self, cutoff, dim=32, n_rbf=16, interactions=2):
        super().__init__()
        self.embedding = nn.Embedding(4, dim)
        self.register_buffer("centers", torch.linspace(0.3, cutoff, n_rbf))
        self.filters = nn.ModuleList([
            nn.Sequential(nn.Linear(n_rbf, dim), nn.SiLU(), nn.Linear(dim, dim)) for _ in range(interactions)])
        self.updates = nn.ModuleList([
            nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim)) for _ in range(interactions)])
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, z, r):
        d = (r[:, :, None] - r[:, None]).pow(2).sum(-1).add(1e-6).sqrt()
        rbf = torch.exp(-4.0 * (d.unsqueeze(-1) - self.centers) ** 2)
        off = (1.0 - torch.eye(z.size(1))).unsqueeze(-1)
        h = self.embedding(z)
        for filt, update in zip(self.filters, self.updates):
            message = (filt(rbf) * off * h.unsqueeze(1)).mean(dim=2)
            h = h + update(message)
        return self.readout(h).squeeze(-1).sum(dim=1)


def run(params):
    torch.manual_seed(params.seed)
    data = DataModule(params)
    data.setup()
    model = SchNetLike(params.cutoff)
    optimizer = torch.optim.AdamW(model.parameters(), lr=params.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=params.max_epochs, eta_min=1e-4)
    loss_fn = nn.MSELoss()
    for epoch in range(params.max_epochs):
        model.train()
        loader = data.train_dataloader()
        running = 0.0
        for z, r, e in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(z, r), e)
            loss.backward()
            optimizer.step()
            running += loss.item()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            errors = [loss_fn(model(z, r), e).item() for z, r, e in data.val_dataloader()]
        print(f"epoch {epoch:2d}  train/mse {running / len(loader):.4f}  val/mse {sum(errors) / len(errors):.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(TrainingParameters())
