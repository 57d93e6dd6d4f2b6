"""Image completion: fills a rectangular hole (completion network, L2 phase)."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SIZE = 40


def make_image(rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    bright = rng.uniform(0.15, 0.85)
    base = bright + 0.12 * rng.normal(size=3)
    dy, dx = rng.normal(0, 0.25, 2)
    img = base[:, None, None] + (dy * (yy - 0.5) + dx * (xx - 0.5))[None]
    angle, freq = rng.uniform(0, math.pi), rng.uniform(2.0, 4.5)
    wave = np.sin(2 * math.pi * freq * (np.cos(angle) * xx + np.sin(angle) * yy) + rng.uniform(0, 6.28))
    img = img + rng.uniform(0.03, 0.12) * wave[None] * rng.choice([-1.0, 1.0], 3)[:, None, None]
    return np.clip(img + rng.normal(0, 0.01, img.shape), 0, 1).astype(np.float32)


class ImageDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.images = torch.from_numpy(np.stack([make_image(rng) for _ in range(n)]))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i]


def gen_mask(n, hole_min=10, hole_max=18, generator=None):
    mask = torch.zeros(n, 1, SIZE, SIZE)
    for i in range(n):
        h, w = torch.randint(hole_min, hole_max + 1, (2,), generator=generator).tolist()
        top = torch.randint(0, SIZE - h, (1,), generator=generator).item()
        left = torch.randint(0, SIZE - w, (1,), generator=generator).item()
        mask[i, :, top:top + h, left:left + w] = 1.0
    return mask


class CompletionNetwork(nn.Module):
    def __init__(self, ch=16):
        super().__init__()

        def conv(cin, cout, stride=1, dilation=1):
            return [nn.Conv2d(cin, cout, 3, stride, dilation, dilation), nn.BatchNorm2d(cout), nn.ReLU()]

        self.net = nn.Sequential(
            *conv(4, ch),
            *conv(ch, 2 * ch, stride=2),
            *conv(2 * ch, 2 * ch),
            *conv(2 * ch, 2 * ch, dilation=2),
            *conv(2 * ch, 2 * ch, dilation=4),
            *conv(2 * ch, 2 * ch, dilation=2),
            nn.ConvTranspose2d(2 * ch, ch, 4, 2, 1), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Conv2d(ch, 3, 3, 1, 1), nn.Sigmoid(),
        )

    def forward(self, x):
        return self.net(x)


def completion_loss(x, out, mask):
    return ((x - out) ** 2 * mask).sum() / (mask.sum() * x.size(1))


def complete(model, x, mask, mpv):
    x_mask = x - x * mask + mpv * mask
    return model(torch.cat((x_mask, mask), dim=1))


def test(model, images, masks, mpv):
    losses, psnr = [], []
    with torch.no_grad():
        for x, mask in zip(images.split(1), masks.split(1)):
            out = complete(model, x, mask, mpv)
            mse = completion_loss(x, out, mask).item()
            losses.append(mse)
            psnr.append(-10 * math.log10(max(mse, 1e-10)))
    return float(np.mean(losses)), float(np.mean(psnr))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--snaperiod", type=int, default=100)
    p.add_argument("--bsize", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_dset, test_dset = ImageDataset(2400, 1), ImageDataset(48, 2)
    train_loader = DataLoader(train_dset, batch_size=args.bsize, shuffle=True, drop_last=True)
    mpv = train_dset.images.mean(dim=(0, 2, 3)).view(1, 3, 1, 1)
    test_images = test_dset.images
    test_masks = gen_mask(len(test_images), generator=torch.Generator().manual_seed(9))

    model_cn = CompletionNetwork()
    opt_cn = torch.optim.Adam(model_cn.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt_cn, args.lr, total_steps=args.steps)
    step, running, t0 = 0, 0.0, time.time()
    model_cn.train()
    while step < args.steps:
        for x in train_loader:
            mask = gen_mask(len(x))
            out = complete(model_cn, x, mask, mpv)
            loss = completion_loss(x, out, mask)
            opt_cn.zero_grad()
            loss.backward()
            opt_cn.step()
            sched.step()
            step += 1
            running += loss.item()

            # test
            if step % args.snaperiod == 0:
                mse, psnr = test(model_cn, test_images, test_masks, mpv)
                print("step %4d | train mse %.5f | test mse %.5f psnr %.2f dB | %.1fs"
                      % (step, running / args.snaperiod, mse, psnr, time.time() - t0), flush=True)
                running = 0.0
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
