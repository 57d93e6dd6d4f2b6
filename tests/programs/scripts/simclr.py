"""Contrastive pre-training with two views and NT-Xent, then a linear probe on the frozen encoder."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
digits = load_digits()
images, labels = torch.tensor(digits.images).float().unsqueeze(1) / 16, torch.tensor(digits.target)
train_images, test_images = images[:1400], images[1400:]
loader = DataLoader(TensorDataset(train_images), batch_size=100, shuffle=True, drop_last=True)


def augment(batch):
    shift = torch.randint(-1, 2, (2,)).tolist()
    moved = torch.roll(batch, shifts=shift, dims=(2, 3))
    scale = 0.8 + 0.4 * torch.rand(len(batch), 1, 1, 1)
    return moved * scale + 0.05 * torch.randn_like(batch)


encoder = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
)
projector = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))


def info_nce_loss(features, temperature=0.5):
    n = features.shape[0] // 2
    features = F.normalize(features, dim=1)
    similarity = features @ features.T / temperature
    similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    return F.cross_entropy(similarity, torch.cat((torch.arange(n) + n, torch.arange(n))))


optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3, weight_decay=1e-5)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(loader) * 4)
for epoch in range(4):
    for (batch,) in loader:
        views = torch.cat((augment(batch), augment(batch)))
        loss = info_nce_loss(projector(encoder(views)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print("contrastive", epoch, loss.item())

encoder.eval()
for p in encoder.parameters():
    p.requires_grad = False
probe = nn.Linear(32, 10)
optimizer = torch.optim.Adam(probe.parameters(), lr=1e-2)
for epoch in range(5):
    for batch, target in DataLoader(TensorDataset(train_images, labels[:1400]), batch_size=100, shuffle=True):
        with torch.no_grad():
            features = encoder(batch)
        loss = F.cross_entropy(probe(features), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("probe", epoch, loss.item())
with torch.no_grad():
    print((probe(encoder(test_images)).argmax(1) == labels[1400:]).float().mean().item())
