# Light-weight semantic segmentation of street scenes (road, sidewalk, building, sky, car).
import argparse
import os
import random
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = ['sky', 'building', 'road', 'sidewalk', 'car']


class AverageMeter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(1, self.count)


class StreetDataset(Dataset):
    def __init__(self, length, height, width, seed, train):
        self.train = train
        rng = np.random.default_rng(seed)
        pairs = [self.render(rng, height, width) for _ in range(length)]
        self.images = torch.tensor(np.stack([p[0] for p in pairs]))
        self.masks = torch.tensor(np.stack([p[1] for p in pairs])).long()

    @staticmethod
    def render(rng, h, w):
        yy, xx = np.mgrid[0:h, 0:w]
        horizon = rng.integers(int(0.35 * h), int(0.55 * h))
        mask = np.zeros((h, w), dtype=np.uint8)
        x = 0
        while x < w:
            bw, top = rng.integers(8, 22), rng.integers(2, horizon)
            mask[top:horizon, x:x + bw] = 1
            x += bw + rng.integers(0, 4)
        vanish, slope = rng.uniform(0.35, 0.65) * w, rng.uniform(0.9, 1.8)
        below = yy >= horizon
        distance = np.abs(xx - vanish) / (yy - horizon + 1.5)
        mask[below] = 3
        mask[below & (distance < slope)] = 2
        for _ in range(rng.integers(1, 4)):
            cy = rng.integers(horizon + 2, h - 2)
            size = 2 + int(0.35 * (cy - horizon))
            cx = int(np.clip(vanish + rng.uniform(-1, 1) * slope * (cy - horizon), 4, w - 4))
            mask[max(0, cy - size):cy + 1, max(0, cx - size):cx + size] = 4
        base = np.array([[0.6, 0.7, 0.9], [0.5, 0.4, 0.35], [0.3, 0.3, 0.32], [0.45, 0.43, 0.42], rng.uniform(0, 1, 3)])
        light = rng.uniform(0.6, 1.2)
        image = base[mask] * light + 0.08 * rng.standard_normal((h, w, 1)) + 0.04 * rng.standard_normal((h, w, 3))
        image[mask == 1] += 0.1 * ((xx + yy) % 6 < 3)[mask == 1][:, None]
        return image.transpose(2, 0, 1).astype(np.float32), mask

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        if self.train and random.random() < 0.5:
            image, mask = image.flip(-1), mask.flip(-1)
        return image, mask


class EESP(nn.Module):
    """Depth-wise pyramid of dilated convolutions with a point-wise fusion."""

    def __init__(self, cin, cout, stride=1, branches=(1, 2, 4)):
        super().__init__()
        n = cout // len(branches)
        self.reduce = nn.Sequential(nn.Conv2d(cin, n, 1, bias=False), nn.BatchNorm2d(n), nn.PReLU(n))
        self.spp = nn.ModuleList(nn.Conv2d(n, n, 3, stride, d, d, groups=n, bias=False) for d in branches)
        self.fuse = nn.Sequential(nn.BatchNorm2d(n * len(branches)), nn.PReLU(n * len(branches)),
                                  nn.Conv2d(n * len(branches), cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Identity() if stride == 1 and cin == cout else nn.Sequential(
            nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
        self.act = nn.PReLU(cout)

    def forward(self, x):
        y = self.reduce(x)
        outs = [self.spp[0](y)]
        for conv in list(self.spp)[1:]:
            outs.append(conv(y) + outs[-1])
        return self.act(self.fuse(torch.cat(outs, 1)) + self.skip(x))


class SegNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.level1 = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.PReLU(24))
        self.level2 = nn.Sequential(EESP(24, 48, 2), EESP(48, 48))
        self.level3 = nn.Sequential(EESP(48, 96, 2), EESP(96, 96), EESP(96, 96))
        self.proj3, self.proj2, self.proj1 = nn.Conv2d(96, 32, 1), nn.Conv2d(48, 32, 1), nn.Conv2d(24, 32, 1)
        self.merge = nn.Sequential(nn.BatchNorm2d(32), nn.PReLU(32), nn.Conv2d(32, classes, 3, padding=1))

    def forward(self, x):
        f1 = self.level1(x)
        f2 = self.level2(f1)
        f3 = self.level3(f2)
        y = self.proj2(f2) + F.interpolate(self.proj3(f3), size=f2.shape[2:], mode='bilinear', align_corners=False)
        y = self.proj1(f1) + F.interpolate(y, size=f1.shape[2:], mode='bilinear', align_corners=False)
        return F.interpolate(self.merge(y), size=x.shape[2:], mode='bilinear', align_corners=False)


def train_seg(model, loader, optimizer, criterion, epoch, scheduler, print_freq=20):
    losses, batch_time = AverageMeter(), AverageMeter()
    model.train()
    end = time.time()
    for i, (inputs, target) in enumerate(loader):
        outputs = model(inputs)
        loss = criterion(outputs, target)
        losses.update(loss.item(), inputs.size(0))

        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        scheduler.step()

        batch_time.update(time.time() - end)
        end = time.time()
        if i % print_freq == 0:
            print('Epoch: %d[%d/%d]\t\tBatch Time:%.4f\t\tLoss:%.4f' % (epoch, i, len(loader), batch_time.avg, losses.avg), flush=True)
    return losses.avg


@torch.no_grad()
def val_seg(model, loader, criterion):
    losses = AverageMeter()
    inter = union = torch.zeros(len(CLASSES))
    model.eval()
    for inputs, target in loader:
        outputs = model(inputs)
        losses.update(criterion(outputs, target).item(), inputs.size(0))
        pred = F.one_hot(outputs.argmax(1), len(CLASSES)).bool()
        true = F.one_hot(target, len(CLASSES)).bool()
        inter = inter + (pred & true).sum((0, 1, 2))
        union = union + (pred | true).sum((0, 1, 2))
    return losses.avg, inter / union.clamp(min=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=150)
    parser.add_argument('--batch-size', type=int, default=20)
    parser.add_argument('--lr', type=float, default=0.02)
    parser.add_argument('--power', type=float, default=0.9)
    parser.add_argument('--train-images', type=int, default=1600)
    parser.add_argument('--seed', type=int, default=1882)
    parser.add_argument('--savedir', default='results_segmentation')
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.savedir, exist_ok=True)
    train_loader = DataLoader(StreetDataset(args.train_images, 64, 96, args.seed, True), args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(StreetDataset(200, 64, 96, args.seed + 1, False), args.batch_size)

    model = SegNet(len(CLASSES))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=4e-5)
    total = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: (1 - min(s, total - 1) / total) ** args.power)
    best = 0.0
    for epoch in range(args.epochs):
        train_loss = train_seg(model, train_loader, optimizer, criterion, epoch, scheduler)
        val_loss, iou = val_seg(model, val_loader, criterion)
        print('Epoch %d: train %.4f val %.4f mIOU %.4f (%s)' % (epoch, train_loss, val_loss, iou.mean(), ' '.join(
            '%s %.2f' % (c, v) for c, v in zip(CLASSES, iou.tolist()))), flush=True)
        if iou.mean() > best:
            best = iou.mean().item()
            torch.save({'epoch': epoch, 'state_dict': model.state_dict(), 'best_miou': best}, os.path.join(args.savedir, 'best.pth'))


if __name__ == '__main__':
    main()
