import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
NODES, FEAT = 10, 6


def make_graphs(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = F.one_hot(torch.randint(0, FEAT, (n, NODES), generator=g), FEAT).float()
    upper = torch.triu((torch.rand(n, NODES, NODES, generator=g) < 0.3).float(), 1)
    adj = upper + upper.transpose(1, 2)
    charge = torch.tensor([-1.0, -0.5, 0.2, 0.4, 0.8, 1.2])
    q = (x @ charge)
    y = torch.einsum("bi,bij,bj->b", q, adj, q) / 5.0 + 0.4 * q.sum(1) + 0.3 * torch.randn(n, generator=g)
    return x, adj, y


class GNN(nn.Module):
    def __init__(self, hidden=32, layers=2):
        super().__init__()
        self.inp = nn.Linear(FEAT, hidden)
        self.self_lin = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(layers)])
        self.nbr_lin = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x, adj):
        h = F.relu(self.inp(x))
        for s, n, norm in zip(self.self_lin, self.nbr_lin, self.norms):
            h = h + F.relu(norm(s(h) + n(adj @ h)))
        return self.out(h.mean(1)).squeeze(-1)


class GNNMolecularPredictor:
    def __init__(self, epochs=18, batch_size=32, lr=5e-3, patience=6):
        self.model = GNN()
        self.epochs, self.batch_size, self.lr, self.patience = epochs, batch_size, lr, patience

    def _loss(self, data):
        x, adj, y = data
        return F.mse_loss(self.model(x, adj), y)

    def evaluate(self, data):
        self.model.eval()
        with torch.no_grad():
            return self._loss(data).item()

    def fit(self, train, val):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        best_loss, best_state_dict, waited = float("inf"), None, 0
        for epoch in range(self.epochs):
            self.model.train()
            total = 0.0
            for idx in torch.randperm(len(train[2])).split(self.batch_size):
                loss = self._loss([t[idx] for t in train])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(idx)
            val_loss = self.evaluate(val)
            if val_loss < best_loss:
                best_loss, waited = val_loss, 0
                best_state_dict = copy.deepcopy(self.model.state_dict())
            else:
                waited += 1
            print(f"epoch {epoch} train {total / len(train[2]):.4f} val {val_loss:.4f}")
            if waited >= self.patience:
                break
        self.model.load_state_dict(best_state_dict)
        print(f"best val {best_loss:.4f} restored val {self.evaluate(val):.4f}")
        return self


if __name__ == "__main__":
    torch.manual_seed(13)
    GNNMolecularPredictor().fit(make_graphs(640, 1), make_graphs(192, 2))
