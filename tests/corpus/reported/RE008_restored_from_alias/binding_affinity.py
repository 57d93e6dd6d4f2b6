"""Affinity regression from drug strings and protein sequences."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_pairs(n, seed):
    rng = np.random.RandomState(seed)
    drug = rng.randint(1, 20, (n, 30))
    prot = rng.randint(1, 22, (n, 60))
    wd = np.random.RandomState(100).randn(20) * 0.5
    wp = np.random.RandomState(101).randn(22) * 0.5
    a, b = wd[drug].sum(1) / np.sqrt(30) * 2, wp[prot].sum(1) / np.sqrt(60) * 2
    y = 0.7 * a + 0.5 * b + 0.2 * np.tanh(a * b) + 0.5 * rng.randn(n)
    return TensorDataset(torch.from_numpy(drug), torch.from_numpy(prot), torch.from_numpy(y).float())


class SeqCNN(nn.Module):
    def __init__(self, vocab, dim, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.convs = nn.Sequential(
            nn.Conv1d(dim, 32, width), nn.ReLU(), nn.Conv1d(32, 48, width), nn.ReLU())

    def forward(self, ids):
        return self.convs(self.embed(ids).transpose(1, 2)).mean(dim=2)


class DeepDTA(nn.Module):
    def __init__(self):
        super().__init__()
        self.drug = SeqCNN(20, 16, 3)
        self.prot = SeqCNN(22, 16, 5)
        self.fc = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, drug, prot):
        return self.fc(torch.cat([self.drug(drug), self.prot(prot)], dim=1)).squeeze(1)


def run_epoch(model, loader, criterion, optimizer=None):
    model.train(optimizer is not None)
    total, count = 0.0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for drug, prot, y in loader:
            loss = criterion(model(drug, prot), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
    return total / count


def train(model, train_loader, val_loader, epochs, lr):
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best_loss, best_epoch, best_weights = float("inf"), -1, None
    for epoch in range(epochs):
        train_loss = run_epoch(model, train_loader, criterion, optimizer)
        val_loss = run_epoch(model, val_loader, criterion)
        if val_loss < best_loss:
            best_loss, best_epoch = val_loss, epoch
            best_weights = model.state_dict()
        print(f"epoch {epoch} train {train_loss:.4f} val {val_loss:.4f}")
    model.load_state_dict(best_weights)
    print(f"restored epoch {best_epoch}: best val {best_loss:.4f}, now {run_epoch(model, val_loader, criterion):.4f}")
    return model


def main():
    torch.manual_seed(77)
    train_loader = DataLoader(make_pairs(1280, 1), batch_size=32, shuffle=True)
    val_loader = DataLoader(make_pairs(300, 2), batch_size=100)
    test_loader = DataLoader(make_pairs(300, 3), batch_size=100)
    model = train(DeepDTA(), train_loader, val_loader, epochs=11, lr=4e-3)
    print(f"test rmse {run_epoch(model, test_loader, nn.MSELoss()) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
