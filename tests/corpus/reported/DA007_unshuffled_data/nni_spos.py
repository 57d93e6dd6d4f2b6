import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class LayerChoice(nn.Module):
    def __init__(self, candidates):
        super().__init__()
        self.candidates = nn.ModuleList(candidates)
        self.sampled = 0

    def forward(self, x):
        return self.candidates[self.sampled](x)


class SuperNet(nn.Module):
    """Every block may use a 3x3 or a 5x5 convolution."""

    def __init__(self, classes=6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU())
        self.block1 = LayerChoice([nn.Conv2d(16, 24, 3, 2, 1), nn.Conv2d(16, 24, 5, 2, 2)])
        self.block2 = LayerChoice([nn.Conv2d(24, 32, 3, 2, 1), nn.Conv2d(24, 32, 5, 2, 2)])
        self.fc = nn.Linear(32 * 9, classes)

    def forward(self, x):
        x = torch.relu(self.block1(self.stem(x)))
        x = torch.relu(self.block2(x))
        return self.fc(x.flatten(1))


def folder_of_glyphs(per_class, seed, classes=6):
    """Laid out like an image folder: one class after the other."""
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(classes, 1, 12, 12, generator=torch.Generator().manual_seed(21))
    proto = nn.functional.avg_pool2d(proto, 3, 1, 1) * 2.2
    y = torch.arange(classes).repeat_interleave(per_class)
    x = proto[y] + 0.8 * torch.randn(len(y), 1, 12, 12, generator=g)
    return TensorDataset(x, y)


class SinglePathTrainer:
    def __init__(self, model, loss, metrics, optimizer, num_epochs, dataset_train, dataset_valid, batch_size=32):
        self.model = model
        self.loss = loss
        self.metrics = metrics
        self.optimizer = optimizer
        self.num_epochs = num_epochs
        self.choices = [m for m in model.modules() if isinstance(m, LayerChoice)]
        self.train_loader = DataLoader(dataset_train, batch_size=batch_size, num_workers=0)
        self.valid_loader = DataLoader(dataset_valid, batch_size=batch_size, num_workers=0)

    def _resample(self):
        for choice in self.choices:
            choice.sampled = random.randrange(len(choice.candidates))

    def _train_one_epoch(self, epoch):
        self.model.train()
        total = 0.0
        for step, (x, y) in enumerate(self.train_loader):
            self.optimizer.zero_grad()
            self._resample()
            logits = self.model(x)
            loss = self.loss(logits, y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.train_loader)

    def _validate_one_epoch(self, epoch):
        self.model.eval()
        accs = []
        with torch.no_grad():
            for x, y in self.valid_loader:
                self._resample()
                accs.append(self.metrics(self.model(x), y))
        return sum(accs) / len(accs)

    def fit(self):
        for i in range(self.num_epochs):
            loss = self._train_one_epoch(i)
            print("Epoch [%d/%d] loss %.4f valid acc1 %.3f" % (i + 1, self.num_epochs, loss, self._validate_one_epoch(i)))


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    net = SuperNet()
    trainer = SinglePathTrainer(
        net, nn.CrossEntropyLoss(), lambda out, y: (out.argmax(1) == y).float().mean().item(),
        torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), num_epochs=7,
        dataset_train=folder_of_glyphs(128, 1), dataset_valid=folder_of_glyphs(32, 2))
    trainer.fit()
