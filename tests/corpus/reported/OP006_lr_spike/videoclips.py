"""Action recognition on short clips with a small 3D network, gradual warm-up and cosine schedule."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset

ACTIONS = ['left', 'right', 'up', 'down', 'clockwise', 'counterclockwise', 'grow', 'shrink']


class AttrDict(dict):
    __getattr__ = dict.__getitem__


def get_cfg_defaults():
    return AttrDict(
        TRAIN=AttrDict(
            EPOCH_NUM=12,
            BATCH_SIZE=32,
            LR=0.002,
            MOMENTUM=0.9,
            W_DECAY=1e-4,
            LR_POLICY='Cosine',
            USE_WARMUP=True,
            WARMUP_EPOCHS=3,
            WARMUP_END_LR=0.02,
        ),
        VAL=AttrDict(FREQ=1, BATCH_SIZE=100),
        DATA=AttrDict(NUM_TRAIN=1920, NUM_VAL=600, NUM_FRAME=6, SIZE=24),
        LOG=AttrDict(DISPLAY_FREQ=20),
    )


class GradualWarmupScheduler(LRScheduler):
    """ Gradually warm-up(increasing) learning rate in optimizer.
    Proposed in 'Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour'.

    Args:
        optimizer (Optimizer): Wrapped optimizer.
        multiplier: target learning rate = base lr * multiplier if multiplier > 1.0.
            if multiplier = 1.0, lr starts from 0 and ends up with the base_lr.
        total_iter: target learning rate is reached at total_iter, gradually
        after_scheduler: after total_iter, use this scheduler
    """

    def __init__(self, optimizer, multiplier, total_iter, after_scheduler=None):
        self.multiplier = multiplier
        if self.multiplier < 1.:
            raise ValueError('multiplier should be greater than or equal to 1.')
        self.total_iter = total_iter
        self.after_scheduler = after_scheduler
        self.finished = False
        super().__init__(optimizer)

    def get_lr(self):
        if self.last_epoch > self.total_iter:
            if self.after_scheduler:
                if not self.finished:
                    self.after_scheduler.base_lrs = [base_lr * self.multiplier for base_lr in self.base_lrs]
                    self.finished = True
                return self.after_scheduler.get_last_lr()
            return [base_lr * self.multiplier for base_lr in self.base_lrs]
        if self.multiplier == 1.0:
            return [base_lr * (float(self.last_epoch) / self.total_iter) for base_lr in self.base_lrs]
        return [base_lr * ((self.multiplier - 1.) * self.last_epoch / self.total_iter + 1.)
                for base_lr in self.base_lrs]

    def step(self, epoch=None):
        if self.finished and self.after_scheduler:
            self.after_scheduler.step()
            self._last_lr = self.after_scheduler.get_last_lr()
        else:
            super().step(epoch)


class Clips(Dataset):
    """A textured blob that moves, turns or changes its size in front of a still background."""

    def __init__(self, n, frames, size, seed, train):
        rng = np.random.RandomState(seed)
        self.frames, self.size, self.train = frames, size, train
        self.labels = rng.randint(len(ACTIONS), size=n)
        self.clips = np.stack([self.render(rng, c) for c in self.labels])

    def render(self, rng, label):
        s = self.size
        yy, xx = np.mgrid[0:s, 0:s].astype(np.float32)
        kx, ky = rng.uniform(0.2, 0.6, 2)
        background = 0.25 * np.sin(kx * xx + rng.uniform(0, 6)) * np.sin(ky * yy + rng.uniform(0, 6))
        cx, cy = rng.uniform(0.35, 0.65, 2) * s
        ang, radius = rng.uniform(0, 2 * np.pi), rng.uniform(3.0, 4.2)
        speed = rng.uniform(0.8, 1.6)
        out = np.zeros((self.frames, s, s), np.float32)
        for t in range(self.frames):
            k = t - (self.frames - 1) / 2
            x, y, a, r = cx, cy, ang, radius
            if label == 0:
                x = cx - speed * k
            elif label == 1:
                x = cx + speed * k
            elif label == 2:
                y = cy - speed * k
            elif label == 3:
                y = cy + speed * k
            elif label == 4:
                a = ang + 0.35 * speed * k
            elif label == 5:
                a = ang - 0.35 * speed * k
            elif label == 6:
                r = radius * (1 + 0.14 * speed * k)
            else:
                r = radius * (1 - 0.14 * speed * k)
            u = (xx - x) * np.cos(a) + (yy - y) * np.sin(a)
            v = -(xx - x) * np.sin(a) + (yy - y) * np.cos(a)
            blob = np.exp(-(u / (r * 1.5)) ** 4 - (v / (r * 0.8)) ** 4) * (1 + 0.5 * np.tanh(u))
            out[t] = background + blob
        return (out + rng.normal(0, 0.15, out.shape)).astype(np.float32)[None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        clip = self.clips[i]
        if self.train:
            dy, dx = np.random.randint(-2, 3, 2)
            clip = np.roll(clip, (dy, dx), (2, 3))
        return torch.from_numpy((clip - 0.2) / 0.4), int(self.labels[i])


class I3DSmall(nn.Module):
    def __init__(self, num_classes, width=12):
        super().__init__()

        def conv(cin, cout, stride):
            return nn.Sequential(nn.Conv3d(cin, cout, 3, (1, stride, stride), 1, bias=False), nn.BatchNorm3d(cout),
                                 nn.ReLU(inplace=True))

        self.features = nn.Sequential(conv(1, width, 2), conv(width, width * 2, 2), conv(width * 2, width * 4, 2))
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(width * 4 * 9, num_classes)

    def forward(self, x):
        x = self.features(x).mean(2).flatten(1)
        return self.fc(self.dropout(x))


def train_classification(base_iter, model, loader, epoch, criterion, optimizer, scheduler, cfg):
    model.train()
    losses, right, seen = [], 0, 0
    for step, (video, label) in enumerate(loader):
        pred = model(video)
        loss = criterion(pred, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        right += (pred.argmax(1) == label).sum().item()
        seen += len(label)
        base_iter += 1
        if (step + 1) % cfg.LOG.DISPLAY_FREQ == 0:
            print('Epoch %d [%d/%d] iter %d loss %.4f lr %.5f' % (
                epoch, step + 1, len(loader), base_iter, np.mean(losses[-cfg.LOG.DISPLAY_FREQ:]),
                optimizer.param_groups[0]['lr']))
    print('Epoch %d train loss %.4f top1 %.4f' % (epoch, np.mean(losses), right / seen))
    return base_iter


@torch.no_grad()
def validation_classification(model, loader, epoch, criterion):
    model.eval()
    loss, right, seen = 0.0, 0, 0
    for video, label in loader:
        pred = model(video)
        loss += criterion(pred, label).item() * len(label)
        right += (pred.argmax(1) == label).sum().item()
        seen += len(label)
    print('Epoch %d val loss %.4f top1 %.4f' % (epoch, loss / seen, right / seen))


def main_worker(cfg, seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    train_loader = DataLoader(Clips(cfg.DATA.NUM_TRAIN, cfg.DATA.NUM_FRAME, cfg.DATA.SIZE, 1, True),
                              batch_size=cfg.TRAIN.BATCH_SIZE, shuffle=True, drop_last=True)
    val_loader = DataLoader(Clips(cfg.DATA.NUM_VAL, cfg.DATA.NUM_FRAME, cfg.DATA.SIZE, 2, False),
                            batch_size=cfg.VAL.BATCH_SIZE)
    model = I3DSmall(len(ACTIONS))
    # create optimizer
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.TRAIN.LR, momentum=cfg.TRAIN.MOMENTUM,
                                weight_decay=cfg.TRAIN.W_DECAY)
    # create lr scheduler
    iters = len(train_loader)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=(cfg.TRAIN.EPOCH_NUM - cfg.TRAIN.WARMUP_EPOCHS) * iters, eta_min=0)
    if cfg.TRAIN.USE_WARMUP:
        scheduler = GradualWarmupScheduler(optimizer,
                                           multiplier=(cfg.TRAIN.WARMUP_END_LR / cfg.TRAIN.LR),
                                           total_iter=cfg.TRAIN.WARMUP_EPOCHS * iters,
                                           after_scheduler=scheduler)
    # create criterion
    criterion = nn.CrossEntropyLoss()

    # train loop
    base_iter, start = 0, time.time()
    for epoch in range(cfg.TRAIN.EPOCH_NUM):
        base_iter = train_classification(base_iter, model, train_loader, epoch, criterion, optimizer, scheduler, cfg)
        if epoch % cfg.VAL.FREQ == 0 or epoch == cfg.TRAIN.EPOCH_NUM - 1:
            validation_classification(model, val_loader, epoch, criterion)
    print('done in %.1fs' % (time.time() - start))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Train video action recognition models.')
    parser.add_argument('--seed', type=int, default=6)
    args = parser.parse_args()
    torch.set_num_threads(1)
    main_worker(get_cfg_defaults(), args.seed)
