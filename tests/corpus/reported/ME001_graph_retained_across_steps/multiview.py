import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class MultiViewShapes(Dataset):
    """Each object is seen from several viewpoints (noisy, shifted renders of the same template)."""

    def __init__(self, n, n_views=4, n_classes=8, size=16, seed=0):
        templates = torch.randn(n_classes, n_views, 1, size, size, generator=torch.Generator().manual_seed(5))
        self.templates = nn.functional.avg_pool2d(templates.flatten(0, 1), 3, 1, 1).view_as(templates) * 2.5
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, n_classes, (n,), generator=g)
        self.noise = torch.randn(n, n_views, 1, size, size, generator=g) * 0.9

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.templates[self.labels[i]] + self.noise[i], self.labels[i]


class ViewNet(nn.Module):
    def __init__(self, n_classes=8):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(24 * 16, 64), nn.ReLU(), nn.Linear(64, n_classes))

    def forward(self, views):
        b, v = views.shape[:2]
        feats = self.cnn(views.flatten(0, 1)).view(b, v, -1)
        return self.head(feats.max(dim=1).values)


def train(loader, model, criterion, optimizer):
    model.train()
    total = 0
    correct = 0
    total_loss = 0.0
    for i, (images, targets) in enumerate(loader):
        outputs = model(images)
        loss = criterion(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        total_loss += loss
        correct += (outputs.argmax(1) == targets).sum().item()
        total += targets.size(0)
        if (i + 1) % 50 == 0:
            print("\tIter [%d/%d] Loss: %.4f" % (i + 1, len(loader), loss.item()))
    return total_loss / len(loader), correct / total


def evaluate(loader, model, criterion):
    model.eval()
    n, correct, loss_sum = 0, 0, 0.0
    with torch.no_grad():
        for images, targets in loader:
            outputs = model(images)
            loss_sum += criterion(outputs, targets).item() * targets.size(0)
            correct += (outputs.argmax(1) == targets).sum().item()
            n += targets.size(0)
    return loss_sum / n, correct / n


torch.manual_seed(2)
train_loader = DataLoader(MultiViewShapes(4000, seed=1), batch_size=20, shuffle=True)
test_loader = DataLoader(MultiViewShapes(600, seed=2), batch_size=100)
model = ViewNet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

for epoch in range(2):
    t0 = time.time()
    avg_loss, acc = train(train_loader, model, criterion, optimizer)
    val_loss, val_acc = evaluate(test_loader, model, criterion)
    print(f"epoch {epoch}: train loss {avg_loss:.4f} acc {acc:.3f} | test loss {val_loss:.4f} acc {val_acc:.3f} "
          f"({time.time() - t0:.1f}s)")
