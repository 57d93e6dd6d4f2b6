# Convolutional network on small glyph images
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)


# data -----------------------------------------------------------------
def glyphs(n, seed):
    g = torch.Generator().manual_seed(seed)
    fonts = torch.rand(10, 1, 14, 14, generator=torch.Generator().manual_seed(4)).round()
    fonts = F.avg_pool2d(fonts, 3, stride=1, padding=1)
    y = torch.randint(0, 10, (n,), generator=g)
    x = fonts[y]
    dx = torch.randint(-2, 3, (n,), generator=g)
    x = torch.stack([torch.roll(im, int(s), dims=2) for im, s in zip(x, dx)])
    x = x + 0.15 * torch.randn(x.shape, generator=g)
    return TensorDataset((x - 0.45) / 0.25, y)


train_data, valid_data = glyphs(2400, 10), glyphs(600, 11)
train_loader = DataLoader(train_data, batch_size=40, shuffle=True)
valid_loader = DataLoader(valid_data, batch_size=100)


# model ----------------------------------------------------------------
class ConvNet(nn.Module):
    def __init__(self):
        super(ConvNet, self).__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(32 * 9, 64)
        self.drop = nn.Dropout(0.4)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(self.drop(x))


model = ConvNet()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()

# training -------------------------------------------------------------
n_epochs = 5
history = []
for epoch in range(n_epochs):
    model.train()
    train_loss, train_hits = 0.0, 0
    for images, labels in train_loader:
        optimizer.zero_grad()
        output = model(images)
        loss = loss_fn(output, labels)
        loss.backward()
        optimizer.step()
        train_loss += loss.item() * len(labels)
        train_hits += (output.argmax(1) == labels).sum().item()

    model.eval()
    valid_loss, valid_hits = 0.0, 0
    with torch.no_grad():
        for images, labels in valid_loader:
            output = model(images)
            valid_loss += loss_fn(output, labels).item() * len(labels)
            valid_hits += (output.argmax(1) == labels).sum().item()

    history.append((train_loss / 2400, valid_loss / 600))
    print("epoch {:d}: train loss {:.4f} acc {:.3f} | valid loss {:.4f} acc {:.3f}".format(
        epoch + 1, train_loss / 2400, train_hits / 2400, valid_loss / 600, valid_hits / 600))

print("best validation loss: {:.4f}".format(min(h[1] for h in history)))
