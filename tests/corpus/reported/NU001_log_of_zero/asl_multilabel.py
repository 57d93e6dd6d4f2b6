import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class AsymmetricLoss(nn.Module):
    def __init__(self, gamma_neg=4, gamma_pos=1, clip=0.05):
        super().__init__()
        self.gamma_neg = gamma_neg
        self.gamma_pos = gamma_pos
        self.clip = clip

    def forward(self, x, y):
        # Calculating probabilities
        xs_pos = torch.sigmoid(x)
        xs_neg = 1 - xs_pos

        # Asymmetric clipping
        if self.clip is not None and self.clip > 0:
            xs_neg = (xs_neg + self.clip).clamp(max=1)

        # Basic CE calculation
        los_pos = y * torch.log(xs_pos)
        los_neg = (1 - y) * torch.log(xs_neg)
        loss = los_pos + los_neg

        # Asymmetric focusing
        with torch.no_grad():
            pt = xs_pos * y + xs_neg * (1 - y)
            w = torch.pow(1 - pt, self.gamma_pos * y + self.gamma_neg * (1 - y))
        return -(loss * w).sum() / x.size(0)


class TaggerNet(nn.Module):
    """Embedding network with one scaled-cosine score per tag."""

    def __init__(self, n_in, n_tags, dim=64, scale=50.0):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, dim))
        self.tags = nn.Parameter(torch.randn(n_tags, dim))
        self.bias = nn.Parameter(torch.zeros(n_tags))
        self.scale = scale

    def forward(self, x):
        z = F.normalize(self.body(x), dim=-1)
        return self.scale * z @ F.normalize(self.tags, dim=-1).t() + self.bias


def make_data(n, seed, n_in=48, n_tags=12):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(n_tags, n_in, generator=torch.Generator().manual_seed(99))
    y = (torch.rand(n, n_tags, generator=g) < 0.2).float()
    x = y @ proto + 0.4 * torch.randn(n, n_in, generator=g)
    return TensorDataset(x / x.std(), y)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    tp = fp = fn = 0
    for x, y in loader:
        p = (model(x) > 0).float()
        tp += (p * y).sum().item()
        fp += (p * (1 - y)).sum().item()
        fn += ((1 - p) * y).sum().item()
    return 2 * tp / max(2 * tp + fp + fn, 1)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(make_data(1600, 1), batch_size=64, shuffle=True)
    val_loader = DataLoader(make_data(400, 2), batch_size=100)
    model = TaggerNet(48, 12)
    criterion = AsymmetricLoss(gamma_neg=2, gamma_pos=1, clip=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(7):
        model.train()
        total = 0.0
        for i, (inputs, target) in enumerate(train_loader):
            loss = criterion(model(inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print("Epoch [{}/7], loss {:.4f}, F1 {:.3f}".format(epoch, total / len(train_loader), validate(model, val_loader)))


if __name__ == "__main__":
    main()
