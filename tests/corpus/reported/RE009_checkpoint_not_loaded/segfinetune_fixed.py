"""Texture segmentation with a pretrained, frozen backbone and a light decode head.

1. the backbone is pretrained as a texture classifier (many cheap images) and saved;
2. the segmentor is built from a config and a runner trains its head on few labelled scenes.
"""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

N_TEX = 6
PATCH = 24
SCENE = 48


def texture(kind, size, rng):
    yy, xx = np.mgrid[0:size, 0:size].astype(float)
    ph = rng.uniform(0, 6.28, 2)
    f = rng.uniform(0.85, 1.15)
    if kind == 0:
        t = np.sin(1.3 * f * xx + ph[0])
    elif kind == 1:
        t = np.sin(1.3 * f * yy + ph[0])
    elif kind == 2:
        t = np.sin(0.92 * f * (xx + yy) + ph[0])
    elif kind == 3:
        t = np.sin(0.92 * f * (xx - yy) + ph[0])
    elif kind == 4:
        t = 1.6 * np.sin(1.1 * f * xx + ph[0]) * np.sin(1.1 * f * yy + ph[1])
    else:
        t = np.sin(0.55 * f * xx + ph[0]) + np.sin(0.55 * f * yy + ph[1])
    return rng.uniform(0.6, 1.0) * t + rng.normal(0, 0.7, (size, size))


def patches(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_TEX, n)
    x = np.stack([texture(int(k), PATCH, rng) for k in y])[:, None].astype(np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


def scenes(n, seed):
    """Scenes cut by two lines into regions of different texture."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SCENE, 0:SCENE] - SCENE / 2
    imgs, labels = [], []
    for _ in range(n):
        side = np.zeros((SCENE, SCENE), int)
        for k in range(2):
            a = rng.uniform(0, np.pi)
            side += (k + 1) * (np.cos(a) * xx + np.sin(a) * yy > rng.uniform(-9, 9))
        kinds = rng.permutation(N_TEX)[:4]
        label = kinds[side]
        img = np.zeros((SCENE, SCENE))
        for k in np.unique(label):
            img = np.where(label == k, texture(int(k), SCENE, rng), img)
        imgs.append(img[None].astype(np.float32))
        labels.append(label)
    return TensorDataset(torch.from_numpy(np.stack(imgs)), torch.from_numpy(np.stack(labels)).long())


class BaseModule(nn.Module):
    """Module with an initialisation config, as known from the mm-libraries."""

    def __init__(self, init_cfg=None):
        super().__init__()
        self._is_init = False
        self.init_cfg = init_cfg

    def init_weights(self):
        if self._is_init:
            return
        for m in self.children():
            if isinstance(m, BaseModule):
                m.init_weights()
            else:
                m.apply(self._default_init)
        self._is_init = True

    @staticmethod
    def _default_init(m):
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.GroupNorm):
            nn.init.ones_(m.weight)
            nn.init.zeros_(m.bias)


class TextureBackbone(BaseModule):
    def __init__(self, width=16, frozen=False, init_cfg=None):
        super().__init__(init_cfg)

        def block(cin, cout, stride):
            return nn.Sequential(nn.Conv2d(cin, cout, 5, stride, 2), nn.GroupNorm(4, cout), nn.ReLU())

        self.layers = nn.Sequential(
            block(1, width, 1), block(width, 2 * width, 2), block(2 * width, 2 * width, 1), block(2 * width, N_TEX * 2, 1),
        )
        if self.init_cfg is not None:
            self.init_weights()
            self.layers.load_state_dict(torch.load(self.init_cfg["checkpoint"]))
        if frozen:
            for p in self.parameters():
                p.requires_grad_(False)

    def forward(self, x):
        return self.layers(x)


class DecodeHead(BaseModule):
    def __init__(self, channels, n_classes):
        super().__init__()
        self.cls = nn.Conv2d(channels, n_classes, 1)

    def forward(self, feat, size):
        feat = F.avg_pool2d(feat, 5, 1, 2, count_include_pad=False)
        return F.interpolate(self.cls(feat), size=size, mode="bilinear", align_corners=False)


class Segmentor(BaseModule):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = TextureBackbone(**cfg["backbone"])
        self.head = DecodeHead(**cfg["head"])

    def forward(self, x):
        return self.head(self.backbone(x), x.shape[-2:])


class Runner:
    def __init__(self, model, train_loader, val_loader, lr, epochs, val_interval):
        self.model = model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.epochs, self.val_interval = epochs, val_interval
        params = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=1e-4)
        self.scheduler = torch.optim.lr_scheduler.PolynomialLR(self.optimizer, epochs * len(train_loader), power=0.9)

    def train(self):
        self.model.init_weights()
        for epoch in range(1, self.epochs + 1):
            self.model.train()
            t0, total = time.time(), 0.0
            for x, y in self.train_loader:
                loss = F.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                total += loss.item()
            msg = "epoch %2d loss %.4f (%.1fs)" % (epoch, total / len(self.train_loader), time.time() - t0)
            if epoch % self.val_interval == 0:
                msg += "  val loss %.4f mIoU %.4f aAcc %.4f" % self.val()
            print(msg, flush=True)

    @torch.no_grad()
    def val(self):
        self.model.eval()
        conf, loss, n = torch.zeros(N_TEX, N_TEX), 0.0, 0
        for x, y in self.val_loader:
            out = self.model(x)
            loss += F.cross_entropy(out, y).item() * len(x)
            n += len(x)
            idx = y.flatten() * N_TEX + out.argmax(1).flatten()
            conf += torch.bincount(idx, minlength=N_TEX ** 2).view(N_TEX, N_TEX)
        inter = conf.diag()
        iou = inter / (conf.sum(0) + conf.sum(1) - inter).clamp(min=1)
        return loss / n, iou.mean().item(), (inter.sum() / conf.sum()).item()


def pretrain_backbone(path, epochs, lr):
    loader = DataLoader(patches(3072, 1), 64, shuffle=True)
    net = TextureBackbone()
    net.init_weights()
    head = nn.Linear(N_TEX * 2, N_TEX)
    optimizer = torch.optim.AdamW(list(net.parameters()) + list(head.parameters()), lr=lr, weight_decay=1e-4)
    for epoch in range(1, epochs + 1):
        hit, n, total = 0, 0, 0.0
        for x, y in loader:
            out = head(net(x).mean((2, 3)))
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            hit += (out.argmax(1) == y).sum().item()
            n += len(y)
        print("pretraining epoch %d loss %.4f acc %.3f" % (epoch, total / n, hit / n), flush=True)
    torch.save(net.layers.state_dict(), path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--val-interval", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--pretrain-epochs", type=int, default=5)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    with tempfile.TemporaryDirectory() as tmp:
        ckpt = os.path.join(tmp, "texture_backbone.pth")
        pretrain_backbone(ckpt, args.pretrain_epochs, lr=3e-3)
        cfg = dict(
            backbone=dict(frozen=True, init_cfg=dict(type="Pretrained", checkpoint=ckpt)),
            head=dict(channels=N_TEX * 2, n_classes=N_TEX),
        )
        model = Segmentor(cfg)
        runner = Runner(
            model,
            DataLoader(scenes(160, 2), 8, shuffle=True),
            DataLoader(scenes(96, 3), 16),
            lr=args.lr, epochs=args.epochs, val_interval=args.val_interval,
        )
        runner.train()


if __name__ == "__main__":
    main()
