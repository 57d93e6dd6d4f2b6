"""A small convolutional classifier of drawn shapes. ``--fault`` switches one mistake on, as people make them."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAULTS = (
    "none",
    "labels-of-others",
    "view-mixes-samples",
    "detached-features",
    "input-thrown-away",
    "lr-thousandfold",
    "lr-millionth",
    "softmax-before-loss",
    "no-step",
    "double-normalised",
    "batch-mean-subtracted",
    "schedule-too-short",
    "constant-target",
    "relu-after-logits",
)


class Shapes(Dataset):
    """Bars, squares and crosses with noise; the label is the shape."""

    def __init__(self, count: int, fault: str) -> None:
        generator = torch.Generator().manual_seed(3)
        self.labels = torch.randint(0, 3, (count,), generator=generator)
        images = 0.3 * torch.randn(count, 1, 16, 16, generator=generator)
        for i, label in enumerate(self.labels.tolist()):
            row, column = torch.randint(2, 9, (2,), generator=generator).tolist()
            if label in {0, 2}:
                images[i, 0, row, column : column + 6] += 2
            if label == 2:
                images[i, 0, max(0, row - 3) : row + 3, column + 3] += 2
            if label == 1:
                images[i, 0, row : row + 5, column : column + 5] += 2
        self.images = images * 0 if fault == "input-thrown-away" else images
        if fault == "double-normalised":
            self.images = images / 255 / 255
        if fault == "constant-target":
            self.labels = torch.zeros_like(self.labels)
        if fault == "labels-of-others":
            self.labels = self.labels[torch.randperm(count, generator=generator)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], self.labels[index]


class Net(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(16 * 4 * 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        if self.fault == "detached-features":
            x = x.detach()
        if self.fault == "view-mixes-samples":
            x = x.permute(1, 2, 3, 0).reshape(x.shape[0], -1)
        elif self.fault == "batch-mean-subtracted":
            x = (x - x.mean(0)).flatten(1)
        else:
            x = x.flatten(1)
        x = self.head(x)
        if self.fault == "relu-after-logits":
            x = F.relu(x - 3.0)
        return x.softmax(1) if self.fault == "softmax-before-loss" else x


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--epochs", type=int, default=50)
    fault = parser.parse_args().fault
    torch.manual_seed(0)
    model = Net(fault)
    loader = DataLoader(Shapes(2048, fault), batch_size=32, shuffle=True)
    lr = 3e-3 * {"lr-thousandfold": 1000.0, "lr-millionth": 1e-6}.get(fault, 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * 10, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=lr * 10, total_steps=20 if fault == "schedule-too-short" else 64 * 50
    )
    for _ in range(50):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            if fault != "no-step":
                optimizer.step()
            schedule.step()
        print(f"loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
