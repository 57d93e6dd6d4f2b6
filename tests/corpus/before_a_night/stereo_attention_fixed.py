"""Stereo matching with parallax attention along the epipolar line."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--batch_size', type=int, default=6)
    parser.add_argument('--height', type=int, default=32)
    parser.add_argument('--width', type=int, default=72)
    parser.add_argument('--n_train', type=int, default=1500)
    parser.add_argument('--channels', type=int, default=24)
    parser.add_argument('--lr', type=float, default=1e-3, help='initial learning rate')
    parser.add_argument('--gamma', type=float, default=0.1, help='learning rate decaying factor')
    parser.add_argument('--n_epochs', type=int, default=80, help='number of epochs to train')
    parser.add_argument('--n_steps', type=int, default=30, help='number of epochs to update learning rate')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--save_path', default='log/pam')
    return parser.parse_args()


class StereoScenes(Dataset):
    """Planes of random texture at different depths; the right view is shifted by the disparity."""

    def __init__(self, count, height, width, seed):
        rng = np.random.default_rng(seed)
        self.left = np.empty((count, 3, height, width), dtype=np.float32)
        self.right = np.empty_like(self.left)
        self.disp = np.empty((count, height, width), dtype=np.float32)
        margin = 16
        for i in range(count):
            wide = width + margin
            texture = self.texture(rng, height, wide)
            disp = np.full((height, wide), rng.integers(0, 4), dtype=np.int64)
            left, right = texture.copy(), np.roll(texture, -disp[0, 0], axis=2)
            for d in sorted(rng.integers(4, 13, rng.integers(1, 4))):
                y0, x0 = rng.integers(0, height - 10), rng.integers(margin, width - 12)
                h, w = rng.integers(8, 20), rng.integers(10, 26)
                patch = self.texture(rng, height, wide)[:, y0:y0 + h, x0:x0 + w]
                left[:, y0:y0 + h, x0:x0 + w] = patch
                right[:, y0:y0 + h, x0 - d:x0 - d + w] = patch
                disp[y0:y0 + h, x0:x0 + w] = d
            noise = rng.normal(0, 0.02, (2, 3, height, width))
            self.left[i] = left[:, :, :width] + noise[0]
            self.right[i] = right[:, :, :width] * rng.uniform(0.9, 1.1) + noise[1]
            self.disp[i] = disp[:, :width]

    @staticmethod
    def texture(rng, h, w):
        fine = rng.random((3, h, w))
        coarse = rng.random((3, h // 4 + 1, w // 4 + 1)).repeat(4, 1).repeat(4, 2)[:, :h, :w]
        return (0.5 * fine + 0.5 * coarse).astype(np.float32)

    def __len__(self):
        return len(self.left)

    def __getitem__(self, i):
        return self.left[i], self.right[i], self.disp[i]


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(c, c, 3, 1, 1))

    def forward(self, x):
        return x + self.body(x)


class PAMStereo(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.extract = nn.Sequential(nn.Conv2d(3, c, 3, 1, 1), nn.LeakyReLU(0.1), ResBlock(c), ResBlock(c))
        self.query, self.key = nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)
        self.refine = nn.Sequential(nn.Conv2d(c + 1, c, 3, 1, 1), nn.LeakyReLU(0.1), ResBlock(c), nn.Conv2d(c, 1, 3, 1, 1))
        self.c = c

    def forward(self, left, right):
        fl, fr = self.extract(left - 0.5), self.extract(right - 0.5)
        q = self.query(fl).permute(0, 2, 3, 1)                     # B H W C
        k = self.key(fr).permute(0, 2, 1, 3)                       # B H C W
        cost = torch.matmul(q, k) / self.c ** 0.5                  # B H W W
        w = left.size(3)
        index = torch.arange(w, dtype=torch.float32)
        shift = index[:, None] - index[None, :]                    # disparity of the pair (left x, right x)
        cost = cost.masked_fill((shift < 0) | (shift > 16), -1e4)
        attention = cost.softmax(-1)
        coarse = (attention * shift).sum(-1)
        fine = coarse + self.refine(torch.cat([fl, coarse.unsqueeze(1) / 16], 1)).squeeze(1)
        return coarse, fine


def loss_fn(coarse, fine, disp):
    return F.smooth_l1_loss(coarse, disp) + F.smooth_l1_loss(fine, disp)


@torch.no_grad()
def valid(net, loader):
    net.eval()
    epe, bad, n = 0.0, 0.0, 0
    for left, right, disp in loader:
        error = (net(left, right)[1] - disp).abs()
        epe += error.mean().item() * len(left)
        bad += (error > 1).float().mean().item() * len(left)
        n += len(left)
    net.train()
    return epe / n, bad / n


def train(cfg):
    train_loader = DataLoader(StereoScenes(cfg.n_train, cfg.height, cfg.width, cfg.seed), cfg.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(StereoScenes(96, cfg.height, cfg.width, cfg.seed + 1), cfg.batch_size)
    net = PAMStereo(cfg.channels)
    optimizer = torch.optim.Adam(net.parameters(), lr=cfg.lr)

    for epoch in range(cfg.n_epochs):
        lr = cfg.lr * (cfg.gamma ** (epoch // cfg.n_steps))
        for param_group in optimizer.param_groups:
            param_group['lr'] = lr

        loss_list = []
        for i, (left, right, disp) in enumerate(train_loader):
            coarse, fine = net(left, right)
            loss = loss_fn(coarse, fine, disp)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_list.append(loss.item())
            if (i + 1) % 25 == 0:
                print(f'Epoch {epoch + 1:3d} {i + 1:4d}/{len(train_loader)} loss {np.mean(loss_list[-25:]):.4f}', flush=True)

        epe, bad = valid(net, valid_loader)
        print(f'Epoch {epoch + 1:3d} loss {np.mean(loss_list):.4f} EPE {epe:.4f} >1px {bad:.4f}', flush=True)
        torch.save({'epoch': epoch + 1, 'state_dict': net.state_dict(), 'optimizer': optimizer.state_dict()},
                   os.path.join(cfg.save_path, 'checkpoint.pth.tar'))


def main():
    cfg = parse_args()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    os.makedirs(cfg.save_path, exist_ok=True)
    train(cfg)


if __name__ == '__main__':
    main()
