"""Vanishing point guided lane segmentation (toy VPGNet) on rendered road scenes."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

H, W, GRID = 48, 64, 4


def render_road(seed):
    rng = np.random.default_rng(seed)
    vp_x, vp_y = rng.uniform(8, W - 8), rng.uniform(4, 20)
    yy, xx = np.mgrid[0:H, 0:W].astype(np.float32)
    img = 0.35 + 0.15 * (yy / H) + 0.08 * rng.standard_normal((H, W))
    lanes = np.zeros((H, W), dtype=np.float32)
    for foot in np.sort(rng.uniform(-30, W + 30, size=rng.integers(2, 5))):
        t = np.clip((yy - vp_y) / (H - vp_y), 0, 1)
        centre = vp_x + (foot - vp_x) * t
        width = 0.5 + 1.8 * t
        hit = (np.abs(xx - centre) < width) & (yy > vp_y + 2)
        lanes[hit] = 1.0
        img[hit] += rng.uniform(0.2, 0.45)
    img *= rng.uniform(0.6, 1.2)
    cell = int(vp_y // (24 / GRID)) * GRID + int(vp_x // (W / GRID))
    return img.astype(np.float32), lanes, cell


class LaneDataset(Dataset):
    def __init__(self, names, split, train_frac=0.85, valid_frac=0.1):
        num_train_samples = int(train_frac * len(names))
        num_valid_samples = int(valid_frac * len(names))
        train_and_valid = names[:num_train_samples + num_valid_samples]
        self.train_img_names = train_and_valid[:num_train_samples]
        self.validation_img_names = train_and_valid[num_train_samples:]
        self.test_img_names = names[num_train_samples + num_valid_samples:]
        self.names = {"train": self.train_img_names, "validation": self.validation_img_names,
                      "test": self.test_img_names}[split]
        self.split = split

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        img, lanes, cell = render_road(int(self.names[i].split("_")[1]))
        if self.split == "train" and random.random() < 0.5:
            img, lanes = img[:, ::-1].copy(), lanes[:, ::-1].copy()
            cell = (cell // GRID) * GRID + (GRID - 1 - cell % GRID)
        img = (img - 0.45) / 0.2
        return torch.from_numpy(img)[None], torch.from_numpy(lanes), cell


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class VPNet(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.stem = nn.Sequential(conv(1, ch), conv(ch, ch * 2, 2), conv(ch * 2, ch * 2), conv(ch * 2, ch * 4, 2))
        self.mask = nn.Sequential(conv(ch * 4, ch * 2), nn.Upsample(scale_factor=2), conv(ch * 2, ch),
                                  nn.Upsample(scale_factor=2), nn.Conv2d(ch, 1, 1))
        self.vp = nn.Sequential(conv(ch * 4, ch * 4, 2), nn.Flatten(), nn.Linear(ch * 4 * 6 * 8, 128), nn.ReLU(),
                                nn.Dropout(0.3), nn.Linear(128, GRID * GRID))

    def forward(self, x):
        f = self.stem(x)
        return self.mask(f)[:, 0], self.vp(f)


def run_epoch(model, loader, opt=None, log=20):
    train = opt is not None
    model.train(train)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
    ce = nn.CrossEntropyLoss()
    tot, inter, union, right, n = 0.0, 0.0, 0.0, 0, 0
    with torch.set_grad_enabled(train):
        for it, (img, lanes, cell) in enumerate(loader):
            mask, vp = model(img)
            loss = bce(mask, lanes) + 0.5 * ce(vp, cell)
            if train:
                opt.zero_grad()
                loss.backward()
                opt.step()
                if it % log == 0:
                    print(f"  it {it}/{len(loader)} loss {loss.item():.4f}", flush=True)
            tot += loss.item() * len(img)
            pred = mask > 0
            inter += (pred & (lanes > 0)).sum().item()
            union += (pred | (lanes > 0)).sum().item()
            right += (vp.argmax(1) == cell).sum().item()
            n += len(img)
    return tot / n, inter / max(union, 1), right / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--images", type=int, default=8000)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--save_dir", default="vpnet")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.save_dir, exist_ok=True)

    names = np.array(["frame_%06d" % i for i in range(args.images)])
    np.random.RandomState(1).shuffle(names)
    train_set = LaneDataset(names, "train")
    val_set = LaneDataset(names, "validation")
    test_set = LaneDataset(names, "test")
    print(f"train {len(train_set)} validation {len(val_set)} test {len(test_set)}")
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, args.batch_size)
    test_loader = DataLoader(test_set, args.batch_size)

    model = VPNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)
    best = 0.0
    for epoch in range(args.epochs):
        tr = run_epoch(model, train_loader, opt)
        va = run_epoch(model, val_loader)
        sched.step()
        print("epoch %d train loss %.4f iou %.3f vp %.3f | val loss %.4f iou %.3f vp %.3f" % ((epoch,) + tr + va),
              flush=True)
        if va[1] > best:
            best = va[1]
            torch.save(model.state_dict(), os.path.join(args.save_dir, "best.pt"))
    model.load_state_dict(torch.load(os.path.join(args.save_dir, "best.pt")))
    print("test", run_epoch(model, test_loader))


if __name__ == "__main__":
    main()
