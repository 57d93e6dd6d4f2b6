import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
sep = os.sep


class Prf1a:
    """Precision, recall, F1 and accuracy."""

    def __init__(self):
        self.tn, self.fp, self.fn, self.tp = 0, 0, 0, 0

    def add(self, pred, true):
        y_true, y_pred = true.reshape(-1).long(), pred.reshape(-1).long()
        y_cases = torch.bincount(y_true + y_pred * 2, minlength=4)
        tn, fn, fp, tp = [v.item() for v in y_cases]
        self.tp += tp
        self.tn += tn
        self.fp += fp
        self.fn += fn
        return self

    @property
    def precision(self):
        return self.tp / max(self.tp + self.fp, 1)

    @property
    def recall(self):
        return self.tp / max(self.tp + self.fn, 1)

    @property
    def f1(self):
        return 2 * self.precision * self.recall / max(self.precision + self.recall, 1e-5)

    @property
    def accuracy(self):
        return (self.tp + self.tn) / max(self.tp + self.fp + self.fn + self.tn, 1)


def dice_loss_binary(outputs=None, target=None, beta=1, weights=None):
    """
    :param weights: element-wise weights
    :param outputs:
    :param target:
    :param beta: More beta, better precision. 1 is neutral
    :return:
    """
    smooth = 1.0
    w = 1.0 if weights is None else weights.contiguous().float().view(-1)

    iflat = outputs.contiguous().float().view(-1)
    tflat = target.contiguous().float().view(-1)
    intersection = (iflat * tflat * w).sum()

    return (((1 + beta ** 2) * intersection) + smooth) / (
            ((beta ** 2 * (w * iflat).sum()) + (w * tflat).sum()) + smooth)


class VesselDataset(Dataset):
    """Fundus-like patches with a few thin winding vessels."""

    def __init__(self, size, patch=40, seed=0):
        self.patch = patch
        rng = np.random.default_rng(seed)
        self.data = [self._make(rng) for _ in range(size)]

    def _make(self, rng):
        p = self.patch
        yy, xx = np.mgrid[0:p, 0:p]
        mask = np.zeros((p, p), dtype=bool)
        for _ in range(rng.integers(2, 5)):
            pos, ang = rng.uniform(0, p, 2), rng.uniform(0, 2 * np.pi)
            width = rng.uniform(1.0, 2.0)
            for _ in range(p):
                ang += rng.normal(0, 0.18)
                pos = pos + 1.2 * np.array([np.sin(ang), np.cos(ang)])
                mask |= (yy - pos[0]) ** 2 + (xx - pos[1]) ** 2 < width ** 2
        shade = 0.15 * np.sin(yy / rng.uniform(6, 14)) + 0.15 * np.cos(xx / rng.uniform(6, 14))
        img = 0.5 + shade - rng.uniform(0.18, 0.3) * mask + rng.normal(0, 0.07, (p, p))
        img = (img - img.mean()) / (img.std() + 1e-6)
        return img[None].astype(np.float32), mask.astype(np.int64)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, ix):
        img, mask = self.data[ix]
        return {'input': torch.from_numpy(img), 'label': torch.from_numpy(mask)}


def _block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, num_channels=1, num_classes=2, r=8):
        super().__init__()
        self.C1 = _block(num_channels, r)
        self.C2 = _block(r, r * 2)
        self.C3 = _block(r * 2, r * 4)
        self.U2 = nn.ConvTranspose2d(r * 4, r * 2, 2, stride=2)
        self.C4 = _block(r * 4, r * 2)
        self.U1 = nn.ConvTranspose2d(r * 2, r, 2, stride=2)
        self.C5 = _block(r * 2, r)
        self.out = nn.Conv2d(r, num_classes, 1)

    def forward(self, x):
        c1 = self.C1(x)
        c2 = self.C2(F.max_pool2d(c1, 2))
        c3 = self.C3(F.max_pool2d(c2, 2))
        x = self.C4(torch.cat([c2, self.U2(c3)], 1))
        x = self.C5(torch.cat([c1, self.U1(x)], 1))
        return self.out(x)


class VesselTrainer:
    def __init__(self, args):
        self.args = args
        self.nn = {'model': UNet(r=args['model_scale'])}
        self.optimizer = {'adam': torch.optim.Adam(self.nn['model'].parameters(), lr=args['learning_rate'])}

    def iteration(self, batch):
        out = F.softmax(self.nn['model'](batch['input']), 1)
        loss = dice_loss_binary(out[:, 1, :, :], batch['label'])
        _, pred = torch.max(out, 1)
        return {'loss': loss, 'pred': pred, 'label': batch['label']}

    def training_iteration(self, batch):
        self.optimizer['adam'].zero_grad()
        it = self.iteration(batch)
        it['loss'].backward()
        self.optimizer['adam'].step()
        return it

    def evaluation(self, loader):
        self.nn['model'].eval()
        sc, losses = Prf1a(), []
        with torch.no_grad():
            for batch in loader:
                it = self.iteration(batch)
                losses.append(it['loss'].item())
                sc.add(it['pred'], it['label'])
        return np.mean(losses), sc

    def train(self, train_loader, val_loader):
        for ep in range(1, self.args['epochs'] + 1):
            self.nn['model'].train()
            sc, losses, t0 = Prf1a(), [], time.time()
            for batch in train_loader:
                it = self.training_iteration(batch)
                losses.append(it['loss'].item())
                sc.add(it['pred'], it['label'])
            print('Epoch {}/{}: train loss {:.4f} f1 {:.4f} acc {:.4f}'.format(
                ep, self.args['epochs'], np.mean(losses), sc.f1, sc.accuracy))
            v_loss, v = self.evaluation(val_loader)
            print('  validation loss {:.4f} precision {:.4f} recall {:.4f} f1 {:.4f} acc {:.4f} [{:.1f}s]'.format(
                v_loss, v.precision, v.recall, v.f1, v.accuracy, time.time() - t0))


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('-b', '--batch_size', default=8, type=int)
    ap.add_argument('-ep', '--epochs', default=10, type=int)
    ap.add_argument('-lr', '--learning_rate', default=0.002, type=float)
    ap.add_argument('-r', '--model_scale', default=8, type=int)
    ap.add_argument('--seed', default=3, type=int)
    args = vars(ap.parse_args())

    torch.manual_seed(args['seed'])
    trainset, valset = VesselDataset(320, seed=args['seed']), VesselDataset(96, seed=args['seed'] + 100)
    trainer = VesselTrainer(args)
    trainer.train(DataLoader(trainset, batch_size=args['batch_size'], shuffle=True),
                  DataLoader(valset, batch_size=16))
