import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(77)


def stripes(n, seed):
    """3x12x12 images of four texture classes."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    r = torch.arange(12.0)
    ph = torch.rand(n, 1, 1, generator=g) * 6.28
    hor = torch.sin(1.6 * r[None, :, None] + ph).expand(n, 12, 12)
    ver = torch.sin(1.6 * r[None, None, :] + ph).expand(n, 12, 12)
    dia = torch.sin(1.1 * (r[None, :, None] + r[None, None, :]) + ph)
    chk = torch.sin(1.6 * r[None, :, None] + ph) * torch.sin(1.6 * r[None, None, :] + ph) * 1.4
    pick = torch.stack([hor, ver, dia, chk], 1)[torch.arange(n), y]
    x = pick.unsqueeze(1).repeat(1, 3, 1, 1) + 1.3 * torch.randn(n, 3, 12, 12, generator=g)
    return TensorDataset(x, y)


class simplenet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = self._make_layers()
        self.classifier = nn.Linear(48, classes)

    def _make_layers(self):
        def block(i, o):
            return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]
        return nn.Sequential(*block(3, 16), *block(16, 32), nn.MaxPool2d(2), *block(32, 48))

    def forward(self, x):
        out = self.features(x)

        # Global Max Pooling
        out = F.max_pool2d(out, kernel_size=out.size()[2:])
        out = F.dropout2d(out, 0.3, training=True)

        out = out.view(out.size(0), -1)
        out = self.classifier(out)
        return out


def train(train_loader, model, criterion, optimizer):
    model.train()
    losses = []
    for input, target in train_loader:
        output = model(input)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def validate(val_loader, model, criterion):
    model.eval()
    correct = total = 0
    loss = 0.0
    with torch.no_grad():
        for input, target in val_loader:
            output = model(input)
            loss += criterion(output, target).item() * len(target)
            correct += (output.argmax(1) == target).sum().item()
            total += len(target)
    return loss / total, 100.0 * correct / total


train_loader = DataLoader(stripes(512, 1), batch_size=32, shuffle=True)
val_loader = DataLoader(stripes(200, 2), batch_size=100)
model = simplenet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
for epoch in range(6):
    tr = train(train_loader, model, criterion, optimizer)
    va, prec = validate(val_loader, model, criterion)
    print("epoch %d  train %.4f  val %.4f  Prec@1 %.2f" % (epoch, tr, va, prec))
