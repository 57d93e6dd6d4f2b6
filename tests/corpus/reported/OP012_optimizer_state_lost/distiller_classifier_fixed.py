"""Image classifier (compress_classifier style). The queue kills a job after some epochs; it then goes on from its checkpoint."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ShapesDataset(Dataset):
    """10 classes of 24x24 textures."""

    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:24, :24]
        proto = np.random.default_rng(11)
        freq, orient = proto.uniform(0.35, 1.0, 10), np.linspace(0, np.pi, 10, endpoint=False)
        tint = proto.uniform(-0.05, 0.05, (10, 3))
        self.train = train
        self.targets = rng.integers(0, 10, n)
        self.images = np.zeros((n, 3, 24, 24), dtype=np.float32)
        for k, c in enumerate(self.targets):
            th = orient[c] + rng.normal(0, 0.1)
            wave = np.sin(freq[c] * rng.uniform(0.9, 1.1) * (xx * np.cos(th) + yy * np.sin(th)) + rng.uniform(0, 6.28))
            self.images[k] = rng.uniform(0.5, 1.2) * wave[None] + tint[c][:, None, None] + rng.normal(0, 2.4, (3, 24, 24))
        self.images /= 2.5

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = torch.from_numpy(self.images[i])
        if self.train:
            dx, dy = torch.randint(-2, 3, (2,)).tolist()
            img = torch.roll(img, (dy, dx), dims=(1, 2))
        return img, int(self.targets[i])


def conv_dw(inp, oup, stride):
    return nn.Sequential(
        nn.Conv2d(inp, inp, 3, stride, 1, groups=inp, bias=False), nn.BatchNorm2d(inp), nn.ReLU(inplace=True),
        nn.Conv2d(inp, oup, 1, bias=False), nn.BatchNorm2d(oup), nn.ReLU(inplace=True))


class MobileNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(3, 24, 3, 1, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True),
            conv_dw(24, 32, 2), conv_dw(32, 64, 1), conv_dw(64, 96, 2), conv_dw(96, 96, 1), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(96, num_classes)

    def forward(self, x):
        return self.fc(self.model(x).flatten(1))


def save_checkpoint(epoch, arch, model, optimizer, best_top1, dir):
    checkpoint = {"epoch": epoch, "arch": arch, "state_dict": model.state_dict(), "best_top1": best_top1,
                  "optimizer": optimizer.state_dict()}
    torch.save(checkpoint, os.path.join(dir, "checkpoint.pth.tar"))


def load_checkpoint(model, optimizer, chkpt_file):
    print("=> loading checkpoint %s" % chkpt_file)
    checkpoint = torch.load(chkpt_file)
    start_epoch = checkpoint["epoch"] + 1
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    print("=> loaded checkpoint '{f}' (epoch {e})".format(f=chkpt_file, e=checkpoint["epoch"]))
    return start_epoch, checkpoint["best_top1"]


def adjust_learning_rate(optimizer, epoch, milestones, gamma=0.1):
    if epoch in milestones:
        for group in optimizer.param_groups:
            group["lr"] *= gamma


def train(loader, model, criterion, optimizer):
    model.train()
    total = 0.0
    for inputs, target in loader:
        loss = criterion(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def validate(loader, model, criterion):
    model.eval()
    loss = top1 = n = 0
    with torch.no_grad():
        for inputs, target in loader:
            output = model(inputs)
            loss += criterion(output, target).item() * len(target)
            top1 += (output.argmax(1) == target).sum().item()
            n += len(target)
    return loss / n, 100.0 * top1 / n


def run_job(args, out):
    """One job of the queue. Returns True when the training is complete."""
    torch.manual_seed(args.seed)
    train_loader = DataLoader(ShapesDataset(1920, 1, True), batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(ShapesDataset(400, 2, False), batch_size=200)
    model = MobileNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    start_epoch, best_top1 = 0, 0.0
    chkpt_file = os.path.join(out, "checkpoint.pth.tar")
    if os.path.exists(chkpt_file):
        start_epoch, best_top1 = load_checkpoint(model, optimizer, chkpt_file)
    for epoch in range(start_epoch, min(args.epochs, start_epoch + args.job_epochs)):
        torch.manual_seed(args.seed + 1 + epoch)
        adjust_learning_rate(optimizer, epoch, args.milestones)
        loss = train(train_loader, model, criterion, optimizer)
        vloss, top1 = validate(val_loader, model, criterion)
        best_top1 = max(best_top1, top1)
        print("==> Epoch %d  lr %g  train loss %.4f  val loss %.4f  Top1 %.2f (best %.2f)" %
              (epoch, optimizer.param_groups[0]["lr"], loss, vloss, top1, best_top1), flush=True)
        save_checkpoint(epoch, "mobilenet", model, optimizer, best_top1, out)
    return start_epoch + args.job_epochs >= args.epochs


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=None)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--job-epochs", type=int, default=6, help="epochs that fit into one job")
    parser.add_argument("--milestones", type=int, nargs="*", default=[4, 9])
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    while not run_job(args, out):
        print("-- job ended, resubmitted --")
