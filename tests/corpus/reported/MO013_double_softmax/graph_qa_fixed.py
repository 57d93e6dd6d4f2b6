import torch
import torch.nn as nn
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset


def build_questions(n, n_nodes, dim, n_rel, seed):
    """Random entity graphs. The answer is the entity linked to the mention that matches the query."""
    g = torch.Generator().manual_seed(seed)
    nodes = torch.randn(n, n_nodes, dim, generator=g)
    adj = (torch.rand(n, n_rel, n_nodes, n_nodes, generator=g) < 0.1).float()
    key = torch.randint(0, n_nodes, (n,), generator=g)
    shift = torch.randint(1, n_nodes, (n,), generator=g)
    answer = (key + shift) % n_nodes
    idx = torch.arange(n)
    adj[idx, 0, :, key] = 0.0
    adj[idx, 0, answer, key] = 1.0
    query = nodes[idx, key] + 0.2 * torch.randn(n, dim, generator=g)
    adj = adj / adj.sum(-1, keepdim=True).clamp(min=1.0)
    return query, nodes, adj, answer


class RGCNLayer(nn.Module):
    def __init__(self, d_in, d_out, n_rel):
        super().__init__()
        self.rel = nn.ModuleList([nn.Linear(d_in, d_out, bias=False) for _ in range(n_rel)])
        self.loop = nn.Linear(d_in, d_out)

    def forward(self, h, adj):
        out = self.loop(h)
        for r, lin in enumerate(self.rel):
            out = out + adj[:, r] @ lin(h)
        return torch.relu(out)


class TransformerGCNQA(nn.Module):
    def __init__(self, dim, hidden, n_rel=2):
        super().__init__()
        self.query_proj = nn.Linear(dim, hidden)
        self.node_proj = nn.Linear(dim, hidden)
        self.fuse = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.ReLU())
        self.layers = nn.ModuleList([RGCNLayer(hidden, hidden, n_rel) for _ in range(2)])
        self.scorer = nn.Linear(2 * hidden, 1)

    def forward(self, query, nodes, adj):
        q = self.query_proj(query).unsqueeze(1)
        x = self.node_proj(nodes)
        h0 = self.fuse(torch.cat([x, q.expand_as(x), x * q], dim=-1))
        h = h0
        for layer in self.layers:
            h = layer(h, adj)
        logits = self.scorer(torch.cat([h0, h], dim=-1)).squeeze(-1)
        return logits


def run_epoch(model, loader, criterion, optimizer=None):
    model.train(optimizer is not None)
    total, hits, n = 0.0, 0, 0
    for query, nodes, adj, answer in loader:
        logits = model(query, nodes, adj)
        loss = criterion(logits, answer)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * answer.size(0)
        hits += (logits.argmax(dim=-1) == answer).sum().item()
        n += answer.size(0)
    return total / n, hits / n


def main():
    torch.manual_seed(13)
    n_nodes, dim, n_rel = 12, 16, 2
    train_set = TensorDataset(*build_questions(3072, n_nodes, dim, n_rel, seed=0))
    dev_set = TensorDataset(*build_questions(512, n_nodes, dim, n_rel, seed=1))
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    dev_loader = DataLoader(dev_set, batch_size=128)

    model = TransformerGCNQA(dim, 64, n_rel)
    criterion = nn.CrossEntropyLoss()
    optimizer = Adam(model.parameters(), lr=2e-3)
    for epoch in range(5):
        train_loss, train_acc = run_epoch(model, train_loader, criterion, optimizer)
        with torch.no_grad():
            dev_loss, dev_acc = run_epoch(model, dev_loader, criterion)
        print(f"Epoch {epoch + 1:02d} | train {train_loss:.4f} acc {train_acc:.3f} | dev {dev_loss:.4f} acc {dev_acc:.3f}")


if __name__ == "__main__":
    main()
