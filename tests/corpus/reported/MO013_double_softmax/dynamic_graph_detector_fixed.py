"""Edge anomaly detection: a transformer over the features of an edge's neighbourhood."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def build_split(n, nodes, dim, seed):
    gen = torch.Generator().manual_seed(seed)
    labels = torch.rand(n, generator=gen) < 0.4
    centre = torch.randn(n, 1, dim, generator=gen)
    noise = torch.randn(n, nodes, dim, generator=gen)
    # edges of a normal event share one neighbourhood, anomalous ones bridge two
    other = torch.randn(n, 1, dim, generator=gen)
    half = torch.arange(nodes)[None, :, None] < nodes // 2
    mixed = torch.where(half, centre, other)
    base = torch.where(labels[:, None, None], mixed, centre.expand_as(mixed))
    x = 0.8 * base + 0.4 * noise
    lengths = torch.randint(nodes - 3, nodes + 1, (n,), generator=gen)
    mask = torch.arange(nodes)[None] < lengths[:, None]
    return TensorDataset(x * mask[..., None], mask, labels.float())


class TransformerBinaryClassifier(nn.Module):
    def __init__(self, in_dim, dim, heads, layers, nodes):
        super().__init__()
        self.project = nn.Linear(in_dim, dim)
        self.position = nn.Parameter(0.02 * torch.randn(1, nodes, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classifier = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, x, mask):
        h = self.encoder(self.project(x) + self.position, src_key_padding_mask=~mask)
        weights = mask.float().unsqueeze(-1)
        mean_output = (h * weights).sum(1) / weights.sum(1)
        logits = self.classifier(mean_output)
        logits = logits.squeeze(-1)
        return logits


def criterion(logits, labels):
    loss_classify = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return torch.mean(loss_classify)


def auc(scores, labels):
    order = torch.argsort(scores)
    ranks = torch.empty_like(order, dtype=torch.float64)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    pos = labels == 1
    n_pos, n_neg = pos.sum().item(), (~pos).sum().item()
    return (ranks[pos].sum().item() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def evaluate(model, loader):
    model.eval()
    scores, labels, losses = [], [], []
    with torch.no_grad():
        for x, mask, y in loader:
            out = model(x, mask)
            losses.append(criterion(out, y).item())
            scores.append(out)
            labels.append(y)
    return auc(torch.cat(scores), torch.cat(labels)), sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch_size", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    nodes, in_dim = 10, 8
    train_loader = DataLoader(build_split(1440, nodes, in_dim, 11), args.batch_size, shuffle=True)
    val_loader = DataLoader(build_split(360, nodes, in_dim, 12), 120)
    model = TransformerBinaryClassifier(in_dim, 32, 4, 2, nodes)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, mask, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x, mask), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        val_auc, val_loss = evaluate(model, val_loader)
        print(f"epoch {epoch}: loss {running / len(train_loader):.4f} val {val_loss:.4f} auc {val_auc:.4f}")


if __name__ == "__main__":
    main()
