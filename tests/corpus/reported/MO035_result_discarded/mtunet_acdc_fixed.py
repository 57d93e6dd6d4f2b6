"""Short-axis heart segmentation (right ventricle, myocardium, left ventricle) with a small U-shaped net."""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_CLASSES = 4


def make_slice(rng, size):
    yy, xx = np.mgrid[:size, :size] / size
    cy, cx = rng.uniform(0.3, 0.7, 2)
    r_in = rng.uniform(0.06, 0.11)
    r_out = r_in + rng.uniform(0.04, 0.06)
    ang = rng.uniform(0, 2 * np.pi)
    dist = np.hypot(yy - cy, xx - cx)
    ry, rx = cy + 1.25 * r_out * np.sin(ang), cx + 1.25 * r_out * np.cos(ang)
    label = np.zeros((size, size), np.int64)
    label[np.hypot(yy - ry, xx - rx) < 0.9 * r_out] = 1
    label[dist < r_out] = 2
    label[dist < r_in] = 3
    tone = np.array([0.25, 0.75, 0.45, 0.9]) + 0.05 * rng.randn(4)
    image = tone[label]
    for _ in range(3):
        py, px, pr = rng.uniform(0, 1, 2).tolist() + [rng.uniform(0.05, 0.1)]
        image = np.where((np.hypot(yy - py, xx - px) < pr) & (label == 0), rng.uniform(0.3, 0.7), image)
    image = image + 0.12 * rng.randn(size, size)
    return image.astype(np.float32), label


class ACDCdataset(Dataset):
    def __init__(self, split, n, size=48):
        rng = np.random.RandomState({"train": 1, "valid": 2, "test": 3}[split])
        self.split = split
        self.samples = [make_slice(rng, size) for _ in range(n)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, idx):
        image, label = self.samples[idx]
        if self.split == "train":
            k = np.random.randint(4)
            image, label = np.rot90(image, k).copy(), np.rot90(label, k).copy()
        return {"image": torch.from_numpy(image)[None], "label": torch.from_numpy(label)}


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class MTUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.e1, self.e2 = conv_block(1, c), conv_block(c, 2 * c)
        self.mid = conv_block(2 * c, 4 * c)
        self.attn = nn.MultiheadAttention(4 * c, 4, batch_first=True)
        self.d2, self.d1 = conv_block(6 * c, 2 * c), conv_block(3 * c, c)
        self.seg = nn.Conv2d(c, N_CLASSES, 1)

    def forward(self, x):
        h1 = self.e1(x)
        h2 = self.e2(F.max_pool2d(h1, 2))
        h3 = self.mid(F.max_pool2d(h2, 2))
        tokens = h3.flatten(2).transpose(1, 2)
        tokens = tokens + self.attn(tokens, tokens, tokens, need_weights=False)[0]
        h3 = tokens.transpose(1, 2).reshape(h3.shape)
        u2 = self.d2(torch.cat([F.interpolate(h3, scale_factor=2), h2], 1))
        u1 = self.d1(torch.cat([F.interpolate(u2, scale_factor=2), h1], 1))
        return self.seg(u1)


class DiceLoss(nn.Module):
    def forward(self, logits, target):
        prob = torch.softmax(logits, dim=1)
        onehot = F.one_hot(target, N_CLASSES).permute(0, 3, 1, 2).float()
        inter = (prob * onehot).sum((0, 2, 3))
        total = (prob ** 2).sum((0, 2, 3)) + onehot.sum((0, 2, 3))
        return 1 - ((2 * inter + 1e-5) / (total + 1e-5)).mean()


def dc(result, reference):
    """Dice coefficient of the foreground of two label maps."""
    result, reference = np.atleast_1d(result.astype(bool)), np.atleast_1d(reference.astype(bool))
    intersection = np.count_nonzero(result & reference)
    size = np.count_nonzero(result) + np.count_nonzero(reference)
    return 2.0 * intersection / size if size else 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max_epochs", type=int, default=7)
    parser.add_argument("--save_path", default="ckpt/mtunet")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    os.makedirs(args.save_path, exist_ok=True)
    train_dataset = ACDCdataset("train", 320)
    Train_loader = DataLoader(train_dataset, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(ACDCdataset("valid", 40), batch_size=1, shuffle=False)
    test_loader = DataLoader(ACDCdataset("test", 40), batch_size=1, shuffle=False)

    model = MTUNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    ce_loss, dice_loss = nn.CrossEntropyLoss(), DiceLoss()
    max_iterations = args.max_epochs * len(Train_loader)
    best_dcs, best_epoch, iter_num, start = 0.0, -1, 0, time.time()
    for epoch in range(args.max_epochs):
        model.train()
        train_loss = 0.0
        for sample in Train_loader:
            image_batch, label_batch = sample["image"], sample["label"]
            outputs = model(image_batch)
            loss = 0.5 * dice_loss(outputs, label_batch) + 0.5 * ce_loss(outputs, label_batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            lr_ = args.lr * (1.0 - iter_num / max_iterations) ** 0.9
            for param_group in optimizer.param_groups:
                param_group["lr"] = lr_
            iter_num += 1
            train_loss += loss.item()

        model.eval()
        dc_sum = 0
        with torch.no_grad():
            for val_sample in val_loader:
                val_image_batch, val_label_batch = val_sample["image"], val_sample["label"]
                val_outputs = model(val_image_batch)
                val_outputs = torch.argmax(torch.softmax(val_outputs, dim=1), dim=1).squeeze(0)
                dc_sum += dc(val_outputs.cpu().data.numpy(), val_label_batch[:].cpu().data.numpy())
        avg_dcs = dc_sum / len(val_loader)
        print(f"epoch {epoch} lr {lr_:.5f} loss {train_loss / len(Train_loader):.4f} avg_dcs {avg_dcs:.4f}", flush=True)
        if avg_dcs > best_dcs:
            best_dcs, best_epoch = avg_dcs, epoch
            torch.save(model.state_dict(), os.path.join(args.save_path, "best.pth"))

    model.load_state_dict(torch.load(os.path.join(args.save_path, "best.pth")))
    model.eval()
    with torch.no_grad():
        test_dcs = np.mean([dc(model(s["image"]).argmax(1).numpy(), s["label"].numpy()) for s in test_loader])
    print(f"best val {best_dcs:.4f} (epoch {best_epoch}) test dice of best.pth {test_dcs:.4f}  "
          f"({time.time() - start:.1f}s)")


if __name__ == "__main__":
    main()
