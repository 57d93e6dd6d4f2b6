import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def binary_focal_loss_with_logits(input, target, alpha=0.5, gamma=0.5, eps=1e-8):
    probs = torch.sigmoid(input)
    loss = -alpha * torch.pow(1.0 - probs, gamma) * target * torch.log(probs + eps) \
        - (1 - alpha) * torch.pow(probs, gamma) * (1.0 - target) * torch.log(1.0 - probs + eps)
    return loss.mean()


class BinaryFocalLossWithLogits(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, input, target):
        return binary_focal_loss_with_logits(input, target, self.alpha, self.gamma)


def patches(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=g) < 0.4).float()
    template = torch.sign(torch.randn(1, 12, 12, generator=torch.Generator().manual_seed(9)))
    x = torch.randn(n, 1, 12, 12, generator=g)
    strength = 0.25 + 0.35 * torch.rand(n, 1, 1, 1, generator=g)
    x = x + (2 * y - 1)[:, None, None, None] * strength * template
    return TensorDataset(x / x.std(), y)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU())
        self.score = nn.Sequential(nn.Flatten(), nn.Linear(16 * 36, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.score(self.features(x)).squeeze(1)


def main():
    torch.manual_seed(3)
    train_loader = DataLoader(patches(3000, 0), batch_size=50, shuffle=True)
    test_loader = DataLoader(patches(500, 1), batch_size=250)
    model = Detector()
    criterion = BinaryFocalLossWithLogits(alpha=0.5, gamma=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        hits, top = 0, 0.0
        with torch.no_grad():
            for x, y in test_loader:
                out = model(x)
                hits += ((out > 0).float() == y).sum().item()
                top = max(top, out.max().item())
        print(f"epoch {epoch} loss {total / len(train_loader):.5f} acc {hits / 500:.3f} max logit {top:.1f}")


if __name__ == "__main__":
    main()
