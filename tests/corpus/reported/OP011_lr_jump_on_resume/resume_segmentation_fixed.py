import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    """16x16 images with a bright square and a dark disc on textured background; 3 classes per pixel."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
        self.images, self.masks = [], []
        for _ in range(n):
            mask = torch.zeros(16, 16, dtype=torch.long)
            r = torch.randint(2, 12, (4,), generator=g)
            mask[(yy - r[0]).abs().le(2) & (xx - r[1]).abs().le(2)] = 1
            mask[((yy - r[2]) ** 2 + (xx - r[3]) ** 2) <= 9] = 2
            level = torch.tensor([0.0, 1.2, -1.2])[mask]
            self.images.append((level + 0.6 * torch.randn(16, 16, generator=g)).unsqueeze(0))
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class PatchSegmenter(nn.Module):
    def __init__(self, dim=48, classes=3):
        super().__init__()
        self.embed = nn.Conv2d(1, dim, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 16, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 16 * classes)
        self.classes = classes

    def forward(self, x):
        t = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        t = self.head(self.encoder(t)).transpose(1, 2)
        t = t.view(x.size(0), self.classes * 16, 4, 4)
        return F.pixel_shuffle(t, 4)


def warmup_poly(step, warmup=40, total=320, power=0.9):
    if step < warmup:
        return (step + 1) / warmup
    return max(1e-3, (1 - (step - warmup) / (total - warmup)) ** power)


class TrainTask:
    def __init__(self, out, max_steps=320, lr=2e-3):
        self.out = Path(out)
        self.max_steps = max_steps
        self.model = PatchSegmenter()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=1e-2)
        self.scheduler = LambdaLR(self.optimizer, warmup_poly)
        self.step = 0

    def save(self):
        torch.save({"step": self.step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict()}, self.out / "last.ckpt")

    def resume(self):
        state = torch.load(self.out / "last.ckpt")
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        print(f"resumed from step {self.step}")

    def fit(self, train_loader, val_loader, stop_at=None):
        end = stop_at or self.max_steps
        while self.step < end:
            self.model.train()
            for x, y in train_loader:
                loss = F.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.step += 1
                if self.step % 40 == 0:
                    print(f"step {self.step} loss {loss.item():.4f} lr {self.scheduler.get_last_lr()[0]:.2e}")
                if self.step >= end:
                    break
            self.validate(val_loader)
        self.save()

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        losses, hit, n = [], 0, 0
        for x, y in loader:
            out = self.model(x)
            losses.append(F.cross_entropy(out, y).item())
            hit += (out.argmax(1) == y).sum().item()
            n += y.numel()
        print(f"  val loss {sum(losses) / len(losses):.4f} pixel acc {hit / n:.3f}")


def main():
    torch.manual_seed(21)
    train_loader = DataLoader(Blobs(1280, 0), batch_size=32, shuffle=True)
    val_loader = DataLoader(Blobs(256, 1), batch_size=64)
    with tempfile.TemporaryDirectory() as out:
        task = TrainTask(out)
        task.fit(train_loader, val_loader, stop_at=160)
        task = TrainTask(out)
        task.resume()
        task.fit(train_loader, val_loader)


if __name__ == "__main__":
    main()
