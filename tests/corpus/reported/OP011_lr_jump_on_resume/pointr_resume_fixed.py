import argparse
import io

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class ShapeCompletion(Dataset):
    """Half of an ellipsoid surface in, all of it out."""

    def __init__(self, n, seed, points=64):
        g = torch.Generator().manual_seed(seed)
        d = torch.randn(n, points, 3, generator=g)
        d = d / d.norm(dim=-1, keepdim=True)
        axes = 0.6 + 0.8 * torch.rand(n, 1, 3, generator=g)
        self.gt = d * axes
        order = self.gt[..., 2].argsort(1)
        half = order[:, points // 2:, None].expand(-1, -1, 3)
        self.partial = self.gt.gather(1, half)

    def __len__(self):
        return len(self.gt)

    def __getitem__(self, i):
        return self.partial[i], self.gt[i]


class FoldNet(nn.Module):
    def __init__(self, out_points=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 128))
        self.decoder = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, out_points * 3))

    def forward(self, partial):
        z = self.encoder(partial).max(1)[0]
        return self.decoder(z).view(len(partial), -1, 3)


def chamfer(a, b):
    d = torch.cdist(a, b)
    return d.min(1)[0].mean() + d.min(2)[0].mean()


def build_opti(model):
    return torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-4)


def build_scheduler(optimizer, last_epoch=-1):
    return LambdaLR(optimizer, lambda e: max(0.85 ** e, 0.01), last_epoch=last_epoch)


def run_net(args, storage, max_epoch, resume=False):
    torch.manual_seed(args.seed + int(resume))
    model = FoldNet()
    optimizer = build_opti(model)
    start_epoch = 0
    if resume:
        storage.seek(0)
        state = torch.load(storage)
        model.load_state_dict(state["base_model"])
        optimizer.load_state_dict(state["optimizer"])
        start_epoch = state["epoch"] + 1
        print(f"resume ckpts @ {start_epoch} epoch")
    scheduler = build_scheduler(optimizer, last_epoch=start_epoch - 1)

    train_loader = DataLoader(ShapeCompletion(480, 1), batch_size=32, shuffle=True)
    val_loader = DataLoader(ShapeCompletion(96, 2), batch_size=48)
    for epoch in range(start_epoch, max_epoch):
        model.train()
        total = 0.0
        for partial, gt in train_loader:
            loss = chamfer(model(partial), gt)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        lr = optimizer.param_groups[0]["lr"]
        scheduler.step()
        model.eval()
        with torch.no_grad():
            val = sum(chamfer(model(p), g).item() for p, g in val_loader) / len(val_loader)
        print(f"[Training] EPOCH: {epoch} lr = {lr:.6f} loss = {total / len(train_loader):.4f} val = {val:.4f}")
        storage.seek(0)
        storage.truncate()
        torch.save({"base_model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, storage)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max_epoch", type=int, default=12)
    parser.add_argument("--session", type=int, default=7, help="epochs one job may take")
    args = parser.parse_args()
    ckpt_last = io.BytesIO()
    run_net(args, ckpt_last, max_epoch=args.session)
    run_net(args, ckpt_last, max_epoch=args.max_epoch, resume=True)
