import tempfile
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def patches(n, seed, classes=4):
    g0 = torch.Generator().manual_seed(41)
    proto = torch.randn(classes, 4, 8, 8, generator=g0)
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    sign = torch.randint(0, 2, (n, 1, 1, 1), generator=g) * 2 - 1
    x = 0.8 * sign * proto[y] + torch.randn(n, 4, 8, 8, generator=g)
    return TensorDataset(x, y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(4, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.ReLU(), nn.MaxPool2d(2),
                                     nn.Conv2d(24, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.Flatten())
        self.decoder = nn.Sequential(nn.Linear(32 * 16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class FreezeUnfreeze:
    """Keep a module frozen for the first epochs of the run, then train it too."""

    def __init__(self, module_name, unfreeze_at_epoch):
        self.module_name = module_name
        self.unfreeze_at_epoch = unfreeze_at_epoch

    def _set(self, model, flag):
        for p in getattr(model, self.module_name).parameters():
            p.requires_grad = flag

    def on_fit_start(self, model, epoch):
        self._set(model, False)

    def on_epoch_start(self, model, epoch):
        if epoch == self.unfreeze_at_epoch:
            self._set(model, True)
            print(f"unfreezing {self.module_name} at epoch {epoch}")


class Trainer:
    def __init__(self, folder, max_epochs, callbacks):
        self.ckpt = Path(folder) / "last.pt"
        self.max_epochs = max_epochs
        self.callbacks = callbacks

    def fit(self, model, train_loader, val_loader):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        start = 0
        if self.ckpt.exists():
            state = torch.load(self.ckpt)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            start = state["epoch"] + 1
            print(f"restored at epoch {start}")
        for cb in self.callbacks:
            cb.on_fit_start(model, start)
        for epoch in range(start, self.max_epochs):
            for cb in self.callbacks:
                cb.on_epoch_start(model, epoch)
            model.train()
            total = 0.0
            for x, y in train_loader:
                loss = nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            model.eval()
            with torch.no_grad():
                val = []
                for x, y in val_loader:
                    out = model(x)
                    val.append((nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()))
            print(f"epoch {epoch} train {total / len(train_loader):.4f} val {sum(v[0] for v in val) / len(val):.4f} "
                  f"acc {sum(v[1] for v in val) / len(val):.3f}")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, self.ckpt)


def main():
    train_loader = DataLoader(patches(1600, 1), batch_size=40, shuffle=True)
    val_loader = DataLoader(patches(400, 2), batch_size=200)
    with tempfile.TemporaryDirectory() as folder:
        for session, epochs in enumerate((4, 7)):
            torch.manual_seed(100 + session)
            trainer = Trainer(folder, epochs, [FreezeUnfreeze("encoder", unfreeze_at_epoch=2)])
            trainer.fit(Model(), train_loader, val_loader)


if __name__ == "__main__":
    main()
