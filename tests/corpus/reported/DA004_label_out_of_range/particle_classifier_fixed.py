"""Particle identification from photosensor charge patterns."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
PARTICLE_CODES = [11, 13, 22]


class HitDataset(Dataset):
    """Charge on a small cylinder of sensors, labelled by particle code."""

    def __init__(self, n, seed, size=12):
        rng = np.random.RandomState(seed)
        self.labels = rng.choice(PARTICLE_CODES, n)
        grid = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), -1).astype(float)
        center = 3.5 + 4.5 * rng.rand(n, 1, 1, 2)
        r = np.linalg.norm(grid[None] - center, axis=-1)
        blur = {11: 1.1, 13: 0.5, 22: 1.1}
        second = {11: 0.0, 13: 0.0, 22: 0.8}
        width = np.vectorize(blur.get)(self.labels)[:, None, None]
        extra = np.vectorize(second.get)(self.labels)[:, None, None]
        charge = np.exp(-((r - 3.0) / width) ** 2) + extra * np.exp(-(r / 1.0) ** 2)
        charge = charge * (0.8 + 0.4 * rng.rand(n, 1, 1)) + 0.15 * rng.randn(n, size, size)
        self.charge = ((charge - 0.25) / 0.4).astype(np.float32)[:, None]

    def map_labels(self, label_set):
        self.label_set = sorted(set(label_set))
        table = {code: i for i, code in enumerate(self.label_set)}
        self.labels = np.array([table[code] for code in self.labels])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"data": self.charge[i], "labels": int(self.labels[i])}


class PIDNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.classifier = nn.Linear(24 * 9, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class ClassifierEngine:
    def __init__(self, model, label_set=None):
        self.model = model
        self.label_set = label_set
        self.criterion = nn.CrossEntropyLoss()
        self.softmax = nn.Softmax(dim=1)
        self.data_loaders = {}

    def configure_data_loaders(self, datasets, batch_size):
        for name, dataset in datasets.items():
            if self.label_set is not None:
                dataset.map_labels(self.label_set)
            self.data_loaders[name] = DataLoader(dataset, batch_size=batch_size, shuffle=(name == "train"))

    def configure_optimizers(self, lr):
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def forward(self, batch, train=True):
        with torch.set_grad_enabled(train):
            output = self.model(batch["data"])
            loss = self.criterion(output, batch["labels"])
            accuracy = (output.argmax(1) == batch["labels"]).float().mean().item()
        return loss, accuracy

    def train(self, epochs, report_interval):
        iteration = 0
        for epoch in range(epochs):
            for batch in self.data_loaders["train"]:
                self.model.train()
                loss, accuracy = self.forward(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if iteration % report_interval == 0:
                    print(f"... Iteration {iteration} ... Epoch {epoch} ... Training Loss {loss.item():.3f} ... Accuracy {accuracy:.3f}")
                iteration += 1
            self.validate(epoch)

    def validate(self, epoch):
        self.model.eval()
        results = [(loss.item(), acc) for loss, acc in (self.forward(b, train=False) for b in self.data_loaders["validation"])]
        print(f"epoch {epoch} validation loss {np.mean([r[0] for r in results]):.3f} accuracy {np.mean([r[1] for r in results]):.3f}")


if __name__ == "__main__":
    torch.manual_seed(4)
    engine = ClassifierEngine(PIDNet(num_classes=len(PARTICLE_CODES)), label_set=PARTICLE_CODES)
    engine.configure_data_loaders({"train": HitDataset(1600, 1), "validation": HitDataset(300, 2)}, batch_size=32)
    engine.configure_optimizers(lr=2e-3)
    engine.train(epochs=3, report_interval=20)
