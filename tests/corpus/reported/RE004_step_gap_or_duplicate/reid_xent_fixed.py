import argparse
import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--max-epoch", type=int, default=10)
    p.add_argument("--stop-after", type=int, default=5)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--stepsize", type=int, nargs="+", default=[6, 8])
    p.add_argument("--train-batch", type=int, default=32)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def persons(n, seed, ids=16):
    g = torch.Generator().manual_seed(seed)
    look = torch.randn(ids, 3, 16, 8, generator=torch.Generator().manual_seed(40))
    pid = torch.randint(0, ids, (n,), generator=g)
    light = 0.8 + 0.4 * torch.rand(n, 1, 1, 1, generator=g)
    return TensorDataset(0.6 * look[pid] * light + 0.9 * torch.randn(n, 3, 16, 8, generator=g), pid)


class ReidNet(nn.Module):
    def __init__(self, ids=16):
        super().__init__()
        self.base = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.classifier = nn.Linear(32 * 8, ids)

    def forward(self, x):
        return self.classifier(self.base(x))


def save_checkpoint(state, path):
    torch.save(state, path)


def adjust_lr(optimizer, args, epoch):
    lr = args.lr * 0.1 ** sum(epoch >= s for s in args.stepsize)
    for group in optimizer.param_groups:
        group["lr"] = lr
    return lr


def train(model, criterion, optimizer, loader):
    model.train()
    total = 0.0
    for imgs, pids in loader:
        optimizer.zero_grad()
        loss = criterion(model(imgs), pids)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def test(model, data):
    model.eval()
    imgs, pids = data.tensors
    return (model(imgs).argmax(1) == pids).float().mean().item()


def main(args, path, resume=False):
    torch.manual_seed(args.seed)
    trainset, queryset = persons(960, 3), persons(320, 4)
    model = ReidNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    start_epoch = 0
    if resume:
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start_epoch = checkpoint["epoch"] + 1
        print(f"- start_epoch: {start_epoch} - rank1: {checkpoint['rank1']:.3f}")
    end = args.max_epoch if resume else args.stop_after
    for epoch in range(start_epoch, end):
        lr = adjust_lr(optimizer, args, epoch)
        loader = DataLoader(trainset, batch_size=args.train_batch, shuffle=True,
                            generator=torch.Generator().manual_seed(1000 + epoch))
        loss = train(model, criterion, optimizer, loader)
        rank1 = test(model, queryset)
        print(f"epoch {epoch} lr {lr:.5f} loss {loss:.4f} rank1 {rank1:.3f}")
        save_checkpoint({
            "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "rank1": rank1,
            "epoch": epoch,
        }, path)


if __name__ == "__main__":
    args = parse()
    with tempfile.TemporaryDirectory() as d:
        ckpt = os.path.join(d, "checkpoint.pth.tar")
        main(args, ckpt)
        main(args, ckpt, resume=True)
