import copy
from typing import Dict, Optional, Tuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def rollouts(n, seed, noise):
    rng = np.random.RandomState(seed)
    obs = rng.uniform(-1, 1, (n, 4)).astype(np.float32)
    act = rng.uniform(-1, 1, (n, 1)).astype(np.float32)
    delta = np.stack([
        obs[:, 2], obs[:, 3],
        np.sin(2 * obs[:, 0]) + act[:, 0] * np.cos(obs[:, 1]),
        -0.8 * obs[:, 3] + obs[:, 0] * act[:, 0]], 1)
    delta = delta + noise * rng.randn(n, 4)
    return torch.from_numpy(np.concatenate([obs, act], 1)), torch.from_numpy(delta.astype(np.float32))


class GaussianMLP(nn.Module):
    def __init__(self, din, dout, hid=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(din, hid), nn.SiLU(), nn.Linear(hid, hid), nn.SiLU())
        self.mean = nn.Linear(hid, dout)

    def forward(self, x):
        return self.mean(self.body(x))

    def loss(self, x, y):
        return nn.functional.mse_loss(self(x), y)

    @torch.no_grad()
    def eval_score(self, x, y):
        return (self(x) - y) ** 2


class ModelTrainer:
    def __init__(self, model, lr=3e-3):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train(self, dataset, val: Tuple[torch.Tensor, torch.Tensor], num_epochs: int, patience: int):
        losses, scores = [], []
        best_weights: Optional[Dict] = None
        best_score = self.evaluate(*val)
        epochs_since_update = 0
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        for epoch in range(num_epochs):
            self.model.train()
            batch_losses = []
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = self.model.loss(x, y)
                loss.backward()
                self.optimizer.step()
                batch_losses.append(loss.item())
            losses.append(np.mean(batch_losses))
            score = self.evaluate(*val)
            scores.append(score)
            if (best_score - score) / abs(best_score) > 0.01:
                best_score = score
                best_weights = copy.deepcopy(self.model.state_dict())
                epochs_since_update = 0
            else:
                epochs_since_update += 1
            if epoch % 5 == 0:
                print(f"epoch {epoch} train {losses[-1]:.4f} val {score:.4f}")
            if epochs_since_update >= patience:
                break
        if best_weights:
            self.model.load_state_dict(best_weights)
        return losses, scores, best_score

    def evaluate(self, x, y):
        self.model.eval()
        return self.model.eval_score(x, y).mean().item()


if __name__ == "__main__":
    torch.manual_seed(7)
    train_x, train_y = rollouts(480, 0, 0.15)
    val = rollouts(400, 1, 0.15)
    model = GaussianMLP(5, 4)
    trainer = ModelTrainer(model)
    losses, scores, best = trainer.train(TensorDataset(train_x, train_y), val, num_epochs=40, patience=12)
    print(f"epochs {len(losses)} best val {best:.4f} val of the model in use {trainer.evaluate(*val):.4f}")
