import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(2025)

NUM_ELEMENTS = 12
MAX_ATOMS = 10


class ToyCrystals(Dataset):
    """Atoms with a species and a position; the target is a pairwise energy per structure."""

    def __init__(self, size, seed):
        gen = torch.Generator().manual_seed(seed)
        self.species = torch.randint(1, NUM_ELEMENTS, (size, MAX_ATOMS), generator=gen)
        self.pos = torch.randn(size, MAX_ATOMS, 3, generator=gen)
        counts = torch.randint(5, MAX_ATOMS + 1, (size,), generator=gen)
        self.mask = torch.arange(MAX_ATOMS)[None] < counts[:, None]
        table = torch.randn(NUM_ELEMENTS, generator=torch.Generator().manual_seed(7))
        charge = table[self.species] * self.mask
        radius = self.pos.norm(dim=-1)
        energy = (charge * torch.exp(-0.5 * radius)).sum(1) + 0.3 * charge.sum(1) / counts.sqrt()
        self.energy = (energy / 1.2).unsqueeze(-1)

    def __len__(self):
        return len(self.species)

    def __getitem__(self, index):
        return {
            "species": self.species[index],
            "pos": self.pos[index],
            "mask": self.mask[index],
            "targets": {"energy": self.energy[index]},
        }


class GraphEncoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(NUM_ELEMENTS, dim)
        self.geometry = nn.Sequential(nn.Linear(4, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.update = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        pos, mask = batch["pos"], batch["mask"].unsqueeze(-1).float()
        geo = torch.cat([pos, pos.norm(dim=-1, keepdim=True)], dim=-1)
        h = self.embed(batch["species"]) + self.geometry(geo)
        mean = (h * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        h = h + self.update(torch.cat([h, mean.expand_as(h)], dim=-1))
        per_atom = self.readout(h) * mask
        return per_atom.sum(dim=(1, 2)) / 3.0


class ScalarRegressionTask(nn.Module):
    def __init__(self, encoder, task_keys, lr):
        super().__init__()
        self.encoder = encoder
        self.task_keys = task_keys
        self.loss_func = nn.MSELoss()
        self.lr = lr

    def forward(self, batch):
        embedding = self.encoder(batch)
        return {key: embedding for key in self.task_keys}

    def _compute_losses(self, batch):
        predictions = self(batch)
        losses = {}
        for key in self.task_keys:
            target_val = batch["targets"][key]
            if predictions[key].shape != target_val.shape:
                predictions[key] = predictions[key].reshape(target_val.shape)
            losses[key] = self.loss_func(predictions[key], target_val)
        return sum(losses.values()), losses

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4)
        return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, task, train_loader, val_loader):
        optimizer, scheduler = task.configure_optimizers()
        for epoch in range(self.max_epochs):
            task.train()
            total = 0.0
            for batch in train_loader:
                optimizer.zero_grad()
                loss, _ = task._compute_losses(batch)
                loss.backward()
                optimizer.step()
                total += loss.item()
            scheduler.step()
            task.eval()
            with torch.no_grad():
                val = sum(task._compute_losses(b)[0].item() for b in val_loader) / len(val_loader)
                first = next(iter(val_loader))
                spread = task(first)["energy"].std().item()
            print(f"epoch {epoch} train {total / len(train_loader):.4f} val {val:.4f} pred std {spread:.3f}")


if __name__ == "__main__":
    train_loader = DataLoader(ToyCrystals(2560, 1), batch_size=64, shuffle=True)
    val_loader = DataLoader(ToyCrystals(320, 2), batch_size=64)
    task = ScalarRegressionTask(GraphEncoder(), ["energy"], lr=3e-3)
    Trainer(max_epochs=5).fit(task, train_loader, val_loader)
