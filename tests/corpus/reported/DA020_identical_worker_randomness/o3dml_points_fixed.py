import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class SemanticAugmentation:
    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def __call__(self, pc):
        theta = self.rng.uniform(-np.pi, np.pi)
        c, s = np.cos(theta), np.sin(theta)
        rot = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)
        scale = self.rng.uniform(0.8, 1.2)
        jitter = self.rng.normal(0, 0.02, pc.shape)
        return (pc @ rot.T * scale + jitter).astype(np.float32)


class TorchDataloader(Dataset):
    """Point clouds of boxes, cylinders, cones and balls."""

    def __init__(self, n, seed, augment):
        rng = np.random.RandomState(seed)
        self.labels = rng.randint(0, 4, n)
        self.points = np.stack([self.sample(k, rng) for k in self.labels]).astype(np.float32)
        self.augment = SemanticAugmentation(seed) if augment else None

    @staticmethod
    def sample(kind, rng, m=48):
        u = rng.uniform(-1, 1, (m, 3))
        ang = rng.uniform(0, 2 * np.pi, m)
        if kind == 0:
            axis = rng.randint(0, 3, m)
            u[np.arange(m), axis] = np.sign(u[np.arange(m), axis])
            return u * 0.8
        z = u[:, 2]
        if kind == 1:
            return np.stack([np.cos(ang), np.sin(ang), z], 1)
        if kind == 2:
            r = (1 - z) / 2
            return np.stack([1.3 * r * np.cos(ang), 1.3 * r * np.sin(ang), z], 1)
        v = rng.normal(size=(m, 3))
        return v / np.linalg.norm(v, axis=1, keepdims=True)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        pc = self.points[index]
        if self.augment is not None:
            pc = self.augment(pc)
        return pc, self.labels[index]


def seed_worker(worker_id):
    info = torch.utils.data.get_worker_info()
    info.dataset.augment.rng.seed(info.seed % 2 ** 32)


class PointNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 96), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, classes))

    def forward(self, pc):
        return self.head(self.local(pc).max(1)[0])


class Pipeline:
    def __init__(self, model, max_epoch=8, batch_size=16):
        self.model, self.max_epoch = model, max_epoch
        train_split = TorchDataloader(320, 1, augment=True)
        valid_split = TorchDataloader(120, 2, augment=False)
        self.train_loader = DataLoader(train_split, batch_size, shuffle=True, num_workers=2, worker_init_fn=seed_worker)
        self.valid_loader = DataLoader(valid_split, 60)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
        self.loss = nn.CrossEntropyLoss()

    def run_train(self):
        for epoch in range(self.max_epoch):
            self.model.train()
            losses = []
            for pc, label in self.train_loader:
                loss = self.loss(self.model(pc), label)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
            self.model.eval()
            with torch.no_grad():
                acc = sum((self.model(p).argmax(1) == l).sum().item() for p, l in self.valid_loader) / 120
            print(f"EPOCH {epoch:03d} loss train: {np.mean(losses):.3f} acc eval: {acc:.3f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    Pipeline(PointNet()).run_train()
