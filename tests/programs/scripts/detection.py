"""An anchor-free detector on drawn boxes: centre heat map with focal loss, sizes with L1, the way of CenterNet."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(17)
SIZE, STRIDE, CLASSES = 32, 4, 2


class Boxes(Dataset):
    """One to three filled or hollow squares an image; the class is filled or hollow."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            image = 0.1 * torch.randn(1, SIZE, SIZE, generator=g)
            boxes, classes = [], []
            for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
                side = int(torch.randint(6, 12, (1,), generator=g))
                x, y = (int(v) for v in torch.randint(0, SIZE - side, (2,), generator=g))
                kind = int(torch.randint(0, CLASSES, (1,), generator=g))
                image[0, y : y + side, x : x + side] = 1.0
                if kind:
                    image[0, y + 2 : y + side - 2, x + 2 : x + side - 2] = 0.0
                boxes.append([x, y, x + side, y + side])
                classes.append(kind)
            self.items.append((image, {"boxes": torch.tensor(boxes).float(), "labels": torch.tensor(classes)}))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    images, targets = zip(*batch)
    return list(images), list(targets)


class CenterNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(),
        )  # fmt: skip
        self.heat = nn.Conv2d(width, CLASSES, 1)
        self.size = nn.Conv2d(width, 2, 1)
        nn.init.constant_(self.heat.bias, -2.19)

    def forward(self, images, targets=None):
        features = self.backbone(torch.stack(images))
        heat, size = self.heat(features), self.size(features)
        return (heat.sigmoid(), size) if targets is None else self.losses(heat, size, targets)

    def losses(self, heat, size, targets):
        cells = SIZE // STRIDE
        wanted, sizes, mask = torch.zeros_like(heat), torch.zeros_like(size), torch.zeros_like(size[:, :1])
        ys, xs = torch.meshgrid(torch.arange(cells), torch.arange(cells), indexing="ij")
        for i, target in enumerate(targets):
            for box, label in zip(target["boxes"], target["labels"]):
                cx, cy = ((box[:2] + box[2:]) / 2 / STRIDE).long().clamp(max=cells - 1).tolist()
                bump = torch.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / 1.0)
                wanted[i, label] = torch.maximum(wanted[i, label], bump)
                sizes[i, :, cy, cx], mask[i, 0, cy, cx] = (box[2:] - box[:2]) / SIZE, 1
        p = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
        positive = wanted.eq(1).float()
        focal = positive * (1 - p) ** 2 * p.log() + (1 - positive) * (1 - wanted) ** 4 * p**2 * (1 - p).log()
        count = mask.sum().clamp(min=1)
        return {"heat": -focal.sum() / count, "size": (mask * (size - sizes).abs()).sum() / count}


data_loader = DataLoader(Boxes(120, 0), batch_size=8, shuffle=True, collate_fn=collate)
data_loader_test = DataLoader(Boxes(24, 1), batch_size=8, collate_fn=collate)
model = CenterNet()
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.02, momentum=0.9, weight_decay=0.0005)
lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
for epoch in range(4):
    model.train()
    warmup = None
    if epoch == 0:
        iterations = min(1000, len(data_loader) - 1)
        warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0 / 1000, total_iters=iterations)
    for images, targets in data_loader:
        loss_dict = model(images, targets)
        losses = sum(loss for loss in loss_dict.values())
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
        if warmup is not None:
            warmup.step()
        print(epoch, losses.item(), {k: v.item() for k, v in loss_dict.items()}, optimizer.param_groups[0]["lr"])
    lr_scheduler.step()
    model.eval()
    found = total = 0
    with torch.inference_mode():
        for images, targets in data_loader_test:
            heat, size = model(images)
            for row, target in zip(heat, targets):
                peaks = (row == F.max_pool2d(row[None], 3, 1, 1)[0]) & (row > 0.3)
                found, total = found + int(peaks.sum()), total + len(target["boxes"])
    print("found", found, "of", total)
