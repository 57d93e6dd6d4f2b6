import math
from copy import deepcopy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_boxes(n, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    wh = torch.rand(n, 2, generator=g) * 0.35 + 0.25
    cxy = wh / 2 + torch.rand(n, 2, generator=g) * (1 - wh)
    cls = torch.randint(0, 3, (n,), generator=g)
    grid = (torch.arange(size) + 0.5) / size
    inx = (grid[None, None, :] - cxy[:, 0, None, None]).abs() < wh[:, 0, None, None] / 2
    iny = (grid[None, :, None] - cxy[:, 1, None, None]).abs() < wh[:, 1, None, None] / 2
    inside = (inx & iny).float()
    colour = torch.eye(3)[cls] * 1.5 - 0.4
    imgs = inside.unsqueeze(1) * colour[:, :, None, None] + 0.15 * torch.randn(n, 3, size, size, generator=g)
    return TensorDataset(imgs, torch.cat([cxy, wh], 1), cls)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.SiLU(),
            nn.Conv2d(12, 24, 3, 2, 1), nn.SiLU(), nn.Flatten(),
            nn.Linear(24 * 16, 64), nn.SiLU())
        self.box = nn.Linear(64, 4)
        self.cls = nn.Linear(64, 3)

    def forward(self, x):
        f = self.backbone(x)
        return torch.sigmoid(self.box(f)), self.cls(f)


class ExponentialMovingAverage:
    def __init__(self, model: nn.Module, decay: float, tau: float = 40):
        self.model = model
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))
        self.batch_step_counter = 0
        self.shadow = {k: v.clone().detach() for k, v in model.state_dict().items()}
        self.backup = None

    @torch.no_grad()
    def update(self):
        """Update the shadow parameters using the current model parameters."""
        self.batch_step_counter += 1
        decay = self.decay(self.batch_step_counter)
        for key, param in self.model.state_dict().items():
            self.shadow[key] = decay * self.shadow[key] + (1.0 - decay) * param.detach()

    def apply_shadow(self):
        """Apply the shadow parameters to the model."""
        self.model.load_state_dict(self.shadow)

    def restore(self):
        """Restore the original parameters from the backup."""
        self.model.load_state_dict(self.shadow)


class ModelTrainer:
    def __init__(self, model, train_set, val_set, epochs=6, lr=3e-3, batch_size=16):
        self.model = model
        self.epochs = epochs
        self.train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
        self.val_loader = DataLoader(val_set, batch_size=64)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-4)
        self.ema = ExponentialMovingAverage(model, decay=0.95)

    def loss_fn(self, outputs, box, cls):
        return 10 * nn.functional.smooth_l1_loss(outputs[0], box) + nn.functional.cross_entropy(outputs[1], cls)

    def train_one_batch(self, imgs, box, cls):
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(imgs), box, cls)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def train_one_epoch(self):
        self.model.train()
        total = 0.0
        for imgs, box, cls in self.train_loader:
            total += self.train_one_batch(imgs, box, cls)
        return total / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total = sum(self.loss_fn(self.model(i), b, c).item() for i, b, c in self.val_loader)
        return total / len(self.val_loader)

    def save_checkpoint(self, epoch):
        self.ema.apply_shadow()
        val = self.validate()
        checkpoint = {"epoch": epoch, "model_state_dict_ema": deepcopy(self.model.state_dict()),
                      "optimizer": self.optimizer.state_dict()}
        self.ema.restore()
        checkpoint["model_state_dict"] = deepcopy(self.model.state_dict())
        self.checkpoint = checkpoint
        return val

    def solve(self):
        for epoch in range(self.epochs):
            loss = self.train_one_epoch()
            val = self.save_checkpoint(epoch)
            print(f"[epoch {epoch}] train loss {loss:.4f} | val loss (ema) {val:.4f}")


if __name__ == "__main__":
    torch.manual_seed(10)
    ModelTrainer(Detector(), make_boxes(640, 1), make_boxes(128, 2)).solve()
