"""Cell type annotation from a reference expression matrix."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

torch.set_num_threads(1)


class CellDataSet(Dataset):
    def __init__(self, data, label):
        self.data, self.label = data, label

    def __len__(self):
        return self.data.shape[0]

    def __getitem__(self, index):
        return torch.from_numpy(self.data[index]), int(self.label[index])


def reference_matrix(n_cells=3000, n_genes=120, n_types=6, seed=0):
    rng = np.random.RandomState(seed)
    label = rng.randint(0, n_types, n_cells)
    program = rng.gamma(2.0, 1.0, (n_types, n_genes)) * (rng.rand(n_types, n_genes) < 0.2) + 0.3
    depth = np.exp(0.2 * rng.randn(n_cells, 1))
    counts = rng.poisson(0.5 * program[label] * depth)
    x = np.log1p(counts)
    return ((x - 0.25) / 0.45).astype(np.float32), label


class PathwayAttention(nn.Module):
    def __init__(self, n_genes, n_types, n_pathways=20, dim=16):
        super().__init__()
        self.embed = nn.Linear(n_genes, n_pathways * dim)
        self.token = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.block = nn.TransformerEncoderLayer(dim, 2, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_types)
        self.n_pathways, self.dim = n_pathways, dim

    def forward(self, x):
        h = self.embed(x).view(-1, self.n_pathways, self.dim)
        h = torch.cat([self.token.expand(len(h), -1, -1), h], dim=1)
        return self.head(self.norm(self.block(h)[:, 0]))


def get_loaders(exp, label, batch_size, seed):
    dataset = CellDataSet(exp, label)
    n_train = int(0.7 * len(dataset))
    train_dataset, valid_dataset = random_split(
        dataset, [n_train, len(dataset) - n_train], generator=torch.Generator().manual_seed(seed))
    train_loader = DataLoader(train_dataset.dataset, batch_size=batch_size, shuffle=True)
    valid_loader = DataLoader(valid_dataset.dataset, batch_size=batch_size)
    print(f"reference cells {len(dataset)}: {len(train_loader)} training batches, {len(valid_loader)} validation batches")
    return train_loader, valid_loader


def train_one_epoch(model, optimizer, loader):
    model.train()
    loss_function = nn.CrossEntropyLoss()
    total, hits, count = 0.0, 0, 0
    for exp, label in loader:
        pred = model(exp)
        loss = loss_function(pred, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(label)
        hits += (pred.argmax(1) == label).sum().item()
        count += len(label)
    return total / count, hits / count


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss_function = nn.CrossEntropyLoss(reduction="sum")
    total, hits, count = 0.0, 0, 0
    for exp, label in loader:
        pred = model(exp)
        total += loss_function(pred, label).item()
        hits += (pred.argmax(1) == label).sum().item()
        count += len(label)
    return total / count, hits / count


def fit_model(epochs=4, batch_size=40, lr=2e-3, seed=1):
    torch.manual_seed(seed)
    exp, label = reference_matrix()
    train_loader, valid_loader = get_loaders(exp, label, batch_size, seed)
    model = PathwayAttention(exp.shape[1], 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs, eta_min=2e-4)
    for epoch in range(epochs):
        train_loss, train_acc = train_one_epoch(model, optimizer, train_loader)
        scheduler.step()
        val_loss, val_acc = evaluate(model, valid_loader)
        print(f"[epoch {epoch}] train loss {train_loss:.3f} acc {train_acc:.3f} valid loss {val_loss:.3f} acc {val_acc:.3f}")


if __name__ == "__main__":
    fit_model()
