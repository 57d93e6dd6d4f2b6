"""Active learning: rounds of training from scratch, entropy over the pool, the most uncertain samples get their labels."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(3)
digits = load_digits()
dataset = TensorDataset(torch.tensor(digits.data).float() / 16, torch.tensor(digits.target))
order = torch.randperm(len(dataset)).tolist()
test_indices, pool = order[:400], order[400:]
labelled, pool = pool[:60], pool[60:]


def make_model():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))


def fit(model, indices, epochs=10):
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    loader = DataLoader(Subset(dataset, indices), batch_size=32, shuffle=True)
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    return loss.item()


@torch.no_grad()
def predictive_entropy(model, indices, passes=4):
    model.train()  # dropout stays on: Monte Carlo samples of the prediction
    x = torch.stack([dataset[i][0] for i in indices])
    mean = torch.stack([F.softmax(model(x), dim=1) for _ in range(passes)]).mean(0)
    return -(mean * mean.clamp_min(1e-12).log()).sum(1)


@torch.no_grad()
def accuracy(model):
    model.eval()
    loader = DataLoader(Subset(dataset, test_indices), batch_size=200)
    return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(test_indices)


for round_ in range(5):
    model = make_model()
    loss = fit(model, labelled)
    print(f"round {round_}: {len(labelled)} labels, loss {loss!r}, test accuracy {accuracy(model)!r}")
    chosen = set(predictive_entropy(model, pool).topk(40).indices.tolist())
    labelled += [pool[i] for i in chosen]
    pool = [sample for i, sample in enumerate(pool) if i not in chosen]
