import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BinaryOutput(nn.Module):
    """Prediction head for binary targets."""

    def __init__(self, in_features, loss=None):
        super().__init__()
        self.to_call = nn.Sequential(nn.Linear(in_features, 1), nn.Sigmoid())
        self.default_loss = loss or nn.BCELoss()

    def forward(self, x):
        return self.to_call(x)

    def compute_loss(self, prediction, target):
        return self.default_loss(prediction, target)


class DLRM(nn.Module):
    def __init__(self, cardinalities, n_dense, dim=12):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(c, dim) for c in cardinalities])
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.3)
        self.bottom = nn.Sequential(nn.Linear(n_dense, 32), nn.ReLU(), nn.Linear(32, dim))
        n = len(cardinalities) + 1
        self.register_buffer("pairs", torch.triu_indices(n, n, 1))
        self.top = nn.Sequential(nn.Linear(dim + self.pairs.size(1), 48), nn.ReLU())
        self.output = BinaryOutput(48)

    def forward(self, cat, dense):
        bottom = self.bottom(dense)
        vecs = torch.stack([bottom] + [t(cat[:, i]) for i, t in enumerate(self.tables)], dim=1)
        inter = torch.bmm(vecs, vecs.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.output(self.top(torch.cat([bottom, inter], dim=1)))


def clicks(n, seed, cardinalities, n_dense):
    g0 = torch.Generator().manual_seed(55)
    factors = [torch.randn(c, 3, generator=g0) for c in cardinalities]
    w = torch.randn(n_dense, generator=g0)
    g = torch.Generator().manual_seed(seed)
    cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in cardinalities], dim=1)
    dense = torch.randn(n, n_dense, generator=g)
    score = 1.6 * (factors[0][cat[:, 0]] * factors[1][cat[:, 1]]).sum(1) + factors[2][cat[:, 2], 0] + 1.2 * dense @ w
    y = (torch.rand(n, generator=g) < torch.sigmoid(score - 1.0)).float().unsqueeze(1)
    return TensorDataset(cat, dense, y)


def fit(model, train_dl, valid_dl, epochs, lr):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for cat, dense, y in train_dl:
            loss = model.output.compute_loss(model(cat, dense), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        model.eval()
        loss_sum, hits, n = 0.0, 0, 0
        with torch.no_grad():
            for cat, dense, y in valid_dl:
                p = model(cat, dense)
                loss_sum += model.output.compute_loss(p, y).item() * len(y)
                hits += ((p > 0.5).float() == y).sum().item()
                n += len(y)
        print(f"epoch {epoch} train {running / len(train_dl):.4f} valid {loss_sum / n:.4f} accuracy {hits / n:.3f}")


if __name__ == "__main__":
    torch.manual_seed(27)
    cards, n_dense = [30, 40, 12], 6
    train_dl = DataLoader(clicks(12000, 0, cards, n_dense), batch_size=120, shuffle=True)
    valid_dl = DataLoader(clicks(3000, 1, cards, n_dense), batch_size=500)
    fit(DLRM(cards, n_dense), train_dl, valid_dl, epochs=4, lr=5e-3)
