"""Semantic segmentation of drawn discs and boxes: a U-Net, cross-entropy plus Dice, RMSprop, plateau schedule."""

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split

torch.manual_seed(0)


class Shapes(Dataset):
    def __init__(self, n=160, size=24):
        g = torch.Generator().manual_seed(1)
        rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.images, self.masks = [], []
        for _ in range(n):
            mask = torch.zeros(size, size, dtype=torch.long)
            r, c, radius = (int(torch.randint(a, b, (1,), generator=g)) for a, b in ((6, 18), (6, 18), (3, 6)))
            mask[(rows - r) ** 2 + (columns - c) ** 2 <= radius**2] = 1
            top, left = (int(torch.randint(0, 16, (1,), generator=g)) for _ in range(2))
            mask[top : top + 6, left : left + 6] = 2
            colour = torch.tensor([0.1, 0.5, 0.9])[mask]
            self.images.append((colour + 0.1 * torch.randn(size, size, generator=g)).unsqueeze(0))
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"image": self.images[i], "mask": self.masks[i]}


class DoubleConv(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv2d(a, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, padding=1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.inc, self.down1, self.down2 = DoubleConv(1, 8), DoubleConv(8, 16), DoubleConv(16, 32)
        self.up1, self.conv1 = nn.ConvTranspose2d(32, 16, 2, stride=2), DoubleConv(32, 16)
        self.up2, self.conv2 = nn.ConvTranspose2d(16, 8, 2, stride=2), DoubleConv(16, 8)
        self.outc = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(F.max_pool2d(x1, 2))
        x3 = self.down2(F.max_pool2d(x2, 2))
        x = self.conv1(torch.cat((x2, self.up1(x3)), dim=1))
        return self.outc(self.conv2(torch.cat((x1, self.up2(x)), dim=1)))


def dice_loss(probabilities, target, epsilon=1e-6):
    inter = 2 * (probabilities * target).sum((0, 2, 3))
    sets = probabilities.sum((0, 2, 3)) + target.sum((0, 2, 3))
    return 1 - ((inter + epsilon) / (sets + epsilon)).mean()


train_set, val_set = random_split(Shapes(), [128, 32], generator=torch.Generator().manual_seed(0))
train_loader = DataLoader(train_set, shuffle=True, batch_size=16)
val_loader = DataLoader(val_set, batch_size=16)
model = UNet()
optimizer = optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=2)
criterion = nn.CrossEntropyLoss()
for epoch in range(1, 6):
    model.train()
    for batch in train_loader:
        masks_pred = model(batch["image"])
        one_hot = F.one_hot(batch["mask"], 3).permute(0, 3, 1, 2).float()
        loss = criterion(masks_pred, batch["mask"]) + dice_loss(F.softmax(masks_pred, dim=1), one_hot)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("train loss", loss.item())
    model.eval()
    score = 0.0
    with torch.inference_mode():
        for batch in val_loader:
            predicted = F.one_hot(model(batch["image"]).argmax(1), 3).permute(0, 3, 1, 2).float()
            score += 1 - dice_loss(predicted, F.one_hot(batch["mask"], 3).permute(0, 3, 1, 2).float()).item()
    scheduler.step(score / len(val_loader))
    print("Validation Dice score:", score / len(val_loader))
