import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def patterns(n, seed, n_classes=5):
    """Oriented gratings with jittered angle, phase and contrast."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, n_classes, (n,), generator=g)
    ang = (y + 0.3 * (torch.rand(n, generator=g) - 0.5)) * 3.14159 / n_classes
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    u = xx[None] * ang.cos()[:, None, None] + yy[None] * ang.sin()[:, None, None]
    x = torch.sin(1.3 * u + 6.28 * torch.rand(n, 1, 1, generator=g)) * (0.7 + 0.6 * torch.rand(n, 1, 1, generator=g))
    return (x + 0.6 * torch.randn(n, 16, 16, generator=g)).unsqueeze(1), y


def filter_bank(images, k=5, n_filters=12):
    """Principal components of image patches, used as ready-made first-layer filters."""
    patches = nn.functional.unfold(images, k).transpose(1, 2).reshape(-1, k * k)
    patches = patches - patches.mean(1, keepdim=True)
    _, _, v = torch.linalg.svd(patches[:20000], full_matrices=False)
    return v[:n_filters].view(n_filters, 1, k, k)


class Flatten(nn.Module):
    def forward(self, x):
        return x.flatten(1)


class ConvEncoder(nn.Module):
    """Feature extractor with given filters; `frozen` keeps it fixed during training."""

    def __init__(self, filters, pooling=4, frozen=True):
        super().__init__()
        conv = nn.Conv2d(1, 2 * len(filters), 5, padding=2, bias=False)
        conv.weight.data.copy_(torch.cat([filters, -filters]))
        modules = [conv, nn.ReLU(), nn.AvgPool2d(pooling)]
        if frozen:
            for module in modules:
                for param in module.parameters():
                    param.requires_grad = False
        modules += [Flatten()]
        self.encoder = nn.Sequential(*modules)
        self.out_features = 2 * len(filters) * (16 // pooling) ** 2

    def forward(self, images):
        return self.encoder(images)


class ClassificationNet(nn.Module):
    def __init__(self, encoder, n_classes, hidden=48):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(encoder.out_features, hidden), nn.ReLU(), nn.Dropout(0.1),
                                  nn.Linear(hidden, n_classes))

    def forward(self, x):
        return self.head(self.encoder(x))


class SupervisedRunner:
    def train(self, model, criterion, optimizer, loaders, num_epochs):
        for epoch in range(num_epochs):
            metrics = {}
            for name, loader in loaders.items():
                training = name == "train"
                model.train(training)
                loss_sum, hits, n = 0.0, 0, 0
                for features, targets in loader:
                    with torch.set_grad_enabled(training):
                        logits = model(features)
                        loss = criterion(logits, targets)
                    if training:
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    loss_sum += loss.item() * len(targets)
                    hits += (logits.argmax(1) == targets).sum().item()
                    n += len(targets)
                metrics[name] = (loss_sum / n, hits / n)
            print(f"{epoch + 1}/{num_epochs} * Epoch: " + " | ".join(
                f"{k} loss={v[0]:.4f} accuracy={v[1]:.3f}" for k, v in metrics.items()))


if __name__ == "__main__":
    torch.manual_seed(17)
    train_x, train_y = patterns(768, 0)
    loaders = {"train": DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True),
               "valid": DataLoader(TensorDataset(*patterns(192, 1)), batch_size=64)}
    model = ClassificationNet(ConvEncoder(filter_bank(train_x), frozen=True), n_classes=5)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    SupervisedRunner().train(model, nn.CrossEntropyLoss(), optimizer, loaders, num_epochs=6)
