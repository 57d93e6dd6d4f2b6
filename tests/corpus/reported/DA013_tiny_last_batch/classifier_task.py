import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class InMemoryImages(Dataset):
    def __init__(self, n, seed, classes=5):
        base = torch.randn(classes, 3, 12, 12, generator=torch.Generator().manual_seed(31))
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, classes, (n,), generator=g)
        self.images = 0.35 * base[self.labels] + torch.randn(n, 3, 12, 12, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"img": self.images[i], "gt_label": self.labels[i]}


class MobileHead(nn.Module):
    def __init__(self, in_channels, hidden, classes):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(nn.Linear(in_channels * 4, hidden), nn.BatchNorm1d(hidden), nn.Hardswish(),
                                        nn.Linear(hidden, classes))

    def forward(self, x):
        return self.classifier(self.pool(x).flatten(1))


class ImageClassifier(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.Hardswish(), nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32), nn.Hardswish())
        self.head = MobileHead(32, 64, classes)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, data):
        return self.head(self.backbone(data["img"]))

    def train_step(self, data):
        logits = self(data)
        return self.loss(logits, data["gt_label"])


def build_dataloader(dataset, samples_per_gpu, train):
    return DataLoader(dataset, batch_size=samples_per_gpu, shuffle=train)


class Runner:
    def __init__(self, model, optimizer, max_epochs):
        self.model, self.optimizer, self.max_epochs = model, optimizer, max_epochs

    def run(self, train_loader, val_loader):
        for epoch in range(self.max_epochs):
            self.model.train()
            total = 0.0
            for data in train_loader:
                loss = self.model.train_step(data)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            acc, val_loss = self.validate(val_loader)
            print(f"Epoch [{epoch + 1}][{len(train_loader)}] loss: {total / len(train_loader):.4f}, "
                  f"val: {val_loss:.4f}, accuracy_top-1: {acc:.3f}")

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        hits, loss, n = 0, 0.0, 0
        for data in loader:
            logits = self.model(data)
            loss += self.model.loss(logits, data["gt_label"]).item() * len(logits)
            hits += (logits.argmax(1) == data["gt_label"]).sum().item()
            n += len(logits)
        return hits / n, loss / n


if __name__ == "__main__":
    torch.manual_seed(12)
    dataset = InMemoryImages(2817, seed=1)
    train_loader = build_dataloader(dataset, 32, train=True)
    val_loader = build_dataloader(InMemoryImages(500, seed=2), 50, train=False)
    model = ImageClassifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    Runner(model, optimizer, max_epochs=4).run(train_loader, val_loader)
