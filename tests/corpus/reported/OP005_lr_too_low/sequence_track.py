"""Train a small chromatin track model on DNA windows."""
import logging

import numpy as np
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

logging.basicConfig(level=logging.INFO, format="%(message)s")
logger = logging.getLogger("train_model")

MOTIFS = ["ACGTG", "TTAGC", "GGCAT"]


class WindowSampler:
    """Draws windows at random, half of them with a motif planted."""

    def __init__(self, seed, length=40):
        self.rng = np.random.RandomState(seed)
        self.length = length

    def sample(self, batch_size):
        seq = self.rng.randint(0, 4, (batch_size, self.length))
        target = np.zeros((batch_size, len(MOTIFS)), dtype=np.float32)
        for i in range(batch_size):
            for m, motif in enumerate(MOTIFS):
                if self.rng.rand() < 0.5:
                    at = self.rng.randint(m * 13, m * 13 + 8)
                    seq[i, at:at + len(motif)] = ["ACGT".index(c) for c in motif]
                    target[i, m] = 1.0
        onehot = np.eye(4, dtype=np.float32)[seq].transpose(0, 2, 1)
        return torch.from_numpy(onehot), torch.from_numpy(target)


class TrackNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(4, 32, 7, padding=3), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveMaxPool1d(5))
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(160, 48), nn.ReLU(), nn.Linear(48, len(MOTIFS)))

    def forward(self, x):
        return self.fc(self.conv(x))


class TrainModel:
    def __init__(self, model, sampler, valid_sampler, max_steps, report_stats_every_n_steps, batch_size=32, lr=3e-3):
        self.model = model
        self.sampler = sampler
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.max_steps, self.every = max_steps, report_stats_every_n_steps
        self.batch_size = batch_size
        self.validation_data = [valid_sampler.sample(100) for _ in range(3)]

    def train(self):
        self.model.train()
        inputs, targets = self.sampler.sample(self.batch_size)
        loss = self.criterion(self.model(inputs), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self):
        self.model.eval()
        losses, hits = [], []
        with torch.no_grad():
            for inputs, targets in self.validation_data:
                out = self.model(inputs)
                losses.append(self.criterion(out, targets).item())
                hits.append(((out > 0).float() == targets).float().mean().item())
        return float(np.mean(losses)), float(np.mean(hits))

    def train_and_validate(self):
        scheduler = ReduceLROnPlateau(self.optimizer, "max", patience=2, factor=0.5)
        time_per_report = []
        for step in range(self.max_steps):
            time_per_report.append(self.train())
            if (step + 1) % self.every == 0:
                valid_loss, valid_acc = self.validate()
                scheduler.step(valid_loss)
                logger.info("[STEP %d] training loss: %.4f validation loss: %.4f accuracy: %.4f lr: %.2e" % (
                    step + 1, np.mean(time_per_report), valid_loss, valid_acc, self.optimizer.param_groups[0]["lr"]))
                time_per_report = []


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1337)
    TrainModel(TrackNet(), WindowSampler(1), WindowSampler(2), max_steps=300, report_stats_every_n_steps=15).train_and_validate()
