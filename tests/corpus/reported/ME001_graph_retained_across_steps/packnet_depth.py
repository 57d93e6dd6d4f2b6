import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class ScenesDataset(Dataset):
    """Synthetic images of slanted planes with a box; depth is the target."""

    def __init__(self, n, seed, size=16):
        g = torch.Generator().manual_seed(seed)
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        a = torch.rand(n, 1, 1, generator=g) - 0.5
        b = torch.rand(n, 1, 1, generator=g) - 0.5
        depth = 2.0 + a * xs + b * ys
        cx = torch.rand(n, 1, 1, generator=g) - 0.5
        cy = torch.rand(n, 1, 1, generator=g) - 0.5
        box = ((xs - cx).abs() < 0.3) & ((ys - cy).abs() < 0.3)
        depth = torch.where(box, depth - 0.8, depth)
        shade = 1.0 / depth
        rgb = torch.stack([shade, shade * 0.8 + 0.1, box.float() * 0.5 + shade * 0.3], 1)
        rgb = rgb + 0.03 * torch.randn(rgb.shape, generator=g)
        self.rgb = (rgb - 0.5) / 0.25
        self.depth = depth.unsqueeze(1)

    def __len__(self):
        return len(self.rgb)

    def __getitem__(self, i):
        return {"rgb": self.rgb[i], "depth": self.depth[i]}


class DepthNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c), nn.ELU())
        self.enc2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * c), nn.ELU())
        self.enc3 = nn.Sequential(nn.Conv2d(2 * c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * c), nn.ELU())
        self.dec2 = nn.Sequential(nn.Conv2d(4 * c, c, 3, padding=1), nn.ELU())
        self.dec1 = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.ELU())
        self.disp = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, rgb):
        e1 = self.enc1(rgb)
        e2 = self.enc2(e1)
        e3 = self.enc3(e2)
        d2 = self.dec2(torch.cat([F.interpolate(e3, scale_factor=2), e2], 1))
        d1 = self.dec1(torch.cat([F.interpolate(d2, scale_factor=2), e1], 1))
        return self.disp(d1)


class ModelWrapper:
    def __init__(self):
        self.depth_net = DepthNet()
        self.optimizer = torch.optim.Adam(self.depth_net.parameters(), lr=1e-3)

    def training_step(self, batch):
        depth = self.depth_net(batch["rgb"])
        loss = F.l1_loss(depth, batch["depth"])
        return {"loss": loss, "metrics": {"abs_rel": ((depth - batch["depth"]).abs() / batch["depth"]).mean().detach()}}

    def training_epoch_end(self, outputs):
        avg = torch.stack([o["loss"] for o in outputs]).mean()
        rel = torch.stack([o["metrics"]["abs_rel"] for o in outputs]).mean()
        return avg.item(), rel.item()

    @torch.no_grad()
    def validate(self, loader):
        self.depth_net.eval()
        errs = [F.l1_loss(self.depth_net(b["rgb"]), b["depth"]).item() for b in loader]
        self.depth_net.train()
        return sum(errs) / len(errs)


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs
        self.outputs = []

    def fit(self, module, train_loader, val_loader):
        for epoch in range(self.max_epochs):
            seen = len(self.outputs)
            self.train(train_loader, module)
            loss, rel = module.training_epoch_end(self.outputs[seen:])
            print(f"E: {epoch} | avg_train-loss {loss:.4f} | abs_rel {rel:.4f} | val l1 {module.validate(val_loader):.4f}")

    def train(self, loader, module):
        for batch in loader:
            module.optimizer.zero_grad()
            output = module.training_step(batch)
            output["loss"].backward()
            module.optimizer.step()
            self.outputs.append(output)


def main():
    torch.manual_seed(42)
    train = DataLoader(ScenesDataset(480, 1), batch_size=16, shuffle=True)
    val = DataLoader(ScenesDataset(96, 2), batch_size=32)
    module = ModelWrapper()
    trainer = Trainer(max_epochs=5)
    trainer.fit(module, train, val)
    best = min(o["loss"].item() for o in trainer.outputs)
    print(f"steps {len(trainer.outputs)}, lowest training loss {best:.4f}")


if __name__ == "__main__":
    main()
