"""bf16 autocast with gradient accumulation, clipping and a cosine schedule with warm restarts, on an image classifier."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
digits = load_digits()
full = TensorDataset(torch.tensor(digits.images).float().unsqueeze(1) / 16, torch.tensor(digits.target))
train_set, val_set = random_split(full, [1500, 297], generator=torch.Generator().manual_seed(0))
train_loader = DataLoader(train_set, batch_size=32, shuffle=True, drop_last=True)
val_loader = DataLoader(val_set, batch_size=99)
accumulation_steps = 4


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(x + self.bn2(self.conv2(out)))


model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    ResidualBlock(16),
    nn.MaxPool2d(2),
    ResidualBlock(16),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=11)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
for epoch in range(3):
    model.train()
    optimizer.zero_grad(set_to_none=True)
    for i, (images, targets) in enumerate(train_loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(images), targets) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(train_loader):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            print(epoch, i, loss.item() * accumulation_steps, norm.item(), scheduler.get_last_lr()[0])
    model.eval()
    hits = 0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for images, targets in val_loader:
            hits += (model(images).argmax(1) == targets).sum().item()
    print(f"epoch {epoch} accuracy {hits / len(val_set)!r}")
