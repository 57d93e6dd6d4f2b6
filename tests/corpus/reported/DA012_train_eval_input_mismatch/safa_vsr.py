"""Space-time super-resolution: three frames out of two low-resolution ones."""
import argparse
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class AdobeDataset(Dataset):
    """Moving textures as uint8: 3 frames of 48x48 and their 24x24 versions."""

    def __init__(self, split, n):
        rng = np.random.default_rng({"train": 1, "test": 2}[split])
        self.split = split
        self.imgs = np.zeros((n, 9, 48, 48), dtype=np.uint8)
        yy, xx = np.mgrid[:48, :48]
        for k in range(n):
            v = rng.uniform(-3, 3, 2)
            waves = [(rng.uniform(0.1, 0.9, 2) * rng.choice([-1, 1], 2), rng.uniform(0, 6.28), rng.normal(0, 1, 3)) for _ in range(5)]
            edge, pos, contrast = rng.uniform(0, 6.28), rng.uniform(-10, 10), rng.normal(0, 45, 3)
            offset, gain = rng.uniform(80, 170, 3), rng.uniform(8, 18)
            for f in range(3):
                x, y = xx - v[0] * f, yy - v[1] * f
                img = offset[:, None, None] + gain * sum(c[:, None, None] * np.sin(w[0] * x + w[1] * y + p) for w, p, c in waves)
                side = np.cos(edge) * (x - 24) + np.sin(edge) * (y - 24) > pos
                img = img + contrast[:, None, None] * side
                self.imgs[k, 3 * f:3 * f + 3] = np.clip(img, 0, 255)

    def __len__(self):
        return len(self.imgs)

    def __getitem__(self, index):
        img = self.imgs[index]
        if self.split == "train" and torch.rand(()).item() < 0.5:
            img = img[:, :, ::-1]
        img = np.ascontiguousarray(img)
        lowres = img.reshape(9, 24, 2, 24, 2).mean((2, 4)).astype(np.uint8)
        return torch.from_numpy(img), torch.from_numpy(lowres), torch.tensor([0.0, 0.5, 1.0])


class SAFA(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(6, c, 3, 1, 1), nn.PReLU(c), nn.Conv2d(c, c, 3, 1, 1), nn.PReLU(c))
        self.time = nn.Linear(1, c)
        self.block = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.PReLU(c), nn.Conv2d(c, c, 3, 1, 1), nn.PReLU(c),
                                   nn.Conv2d(c, c, 3, 1, 1), nn.PReLU(c))
        self.up = nn.Sequential(nn.Conv2d(c, 12, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, lowres, t):
        feat = self.encode(lowres)
        feat = feat + self.block(feat * (1 + self.time(t[:, None])[:, :, None, None]))
        w = t[:, None, None, None]
        base = lowres[:, :3] * (1 - w) + lowres[:, 3:6] * w
        return F.interpolate(base, scale_factor=2, mode="bilinear", align_corners=False) + self.up(feat)


class Model:
    def __init__(self):
        self.flownet = SAFA()
        self.optimG = torch.optim.AdamW(self.flownet.parameters(), lr=1e-6, weight_decay=1e-3)

    def update(self, imgs, lowres, learning_rate=0, timestep=None, training=True):
        for param_group in self.optimG.param_groups:
            param_group["lr"] = learning_rate
        self.flownet.train(training)
        pred = [self.flownet(lowres, timestep[:, k]) for k in range(3)]
        loss_l1 = sum((p - gt).abs().mean() for p, gt in zip(pred, imgs.chunk(3, dim=1))) / 3
        if training:
            self.optimG.zero_grad()
            loss_l1.backward()
            self.optimG.step()
        return pred, {"loss_l1": loss_l1.detach()}

    def save_model(self, path):
        torch.save(self.flownet.state_dict(), os.path.join(path, "flownet.pkl"))


def get_learning_rate(step, total, peak):
    if step < 50:
        return peak * (step + 1) / 50.0
    mul = np.cos((step - 50) / (total - 50.0) * math.pi) * 0.5 + 0.5
    return (peak - peak * 0.01) * mul + peak * 0.01


def train(model, args, out):
    step = 0
    train_data = DataLoader(AdobeDataset("train", 480), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_data = DataLoader(AdobeDataset("test", 48), batch_size=16)
    total = args.epoch * len(train_data)
    print("training...")
    for epoch in range(args.epoch):
        time_stamp, psnr_list = time.time(), []
        for i, data in enumerate(train_data):
            data_gpu, lowres, timestep = data
            data_gpu = data_gpu / 255.
            lowres = lowres.float()
            imgs = data_gpu
            lowres = torch.cat((lowres[:, :3], lowres[:, 6:9]), 1)
            gt = data_gpu[:, 3:6]
            learning_rate = get_learning_rate(step, total, args.lr)
            pred, info = model.update(imgs, lowres, learning_rate, timestep, training=True)
            for j in range(gt.shape[0]):
                psnr_list.append(-10 * math.log10(1e-6 + torch.mean((gt[j] - pred[1][j].detach()) ** 2).item()))
            if i % 20 == 0:
                print("epoch:{} {}/{} loss_l1:{:.4e}".format(epoch, i, len(train_data), info["loss_l1"]), flush=True)
            step += 1
        psnr, base = evaluate(model, val_data)
        print("epoch {} train psnr {:.2f} validation psnr {:.2f} (bilinear {:.2f}) {:.1f}s".format(
            epoch, np.mean(psnr_list), psnr, base, time.time() - time_stamp), flush=True)
        model.save_model(out)


def evaluate(model, val_data):
    psnr_list, base_list = [], []
    for imgs, lowres, timestep in val_data:
        imgs = imgs / 255.
        lowres = lowres / 255.
        l1, l2, l3 = lowres.chunk(3, dim=1)
        with torch.no_grad():
            res, info = model.update(imgs, torch.cat((l1, l3), 1), timestep=timestep, training=False)
            for gt, pred, low in zip(imgs.chunk(3, dim=1), res, (l1, (l1 + l3) / 2, l3)):
                base = F.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)
                psnr_list += (-10 * torch.log10(((gt - pred) ** 2).mean((1, 2, 3)) + 1e-9)).tolist()
                base_list += (-10 * torch.log10(((gt - base) ** 2).mean((1, 2, 3)) + 1e-9)).tolist()
    return np.mean(psnr_list), np.mean(base_list)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=None)
    parser.add_argument("--epoch", default=9, type=int)
    parser.add_argument("--batch_size", default=6, type=int, help="minibatch size")
    parser.add_argument("--lr", default=1e-3, type=float)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(1234)
    train(Model(), args, out)
