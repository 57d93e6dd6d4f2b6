"""2D U-Net training in the manner of a self-configuring segmentation framework.

Run again with the same output folder, it continues from model_latest.model.
"""
import argparse
import os
import random
from time import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_case(rng, size=96):
    """A slice with an organ (class 1) and lesions in and outside of it (class 2 inside only)."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    cy, cx = rng.uniform(0.35, 0.65, 2) * size
    a, b, rot = rng.uniform(18, 30), rng.uniform(12, 22), rng.uniform(0, np.pi)
    u = np.cos(rot) * (xx - cx) + np.sin(rot) * (yy - cy)
    v = -np.sin(rot) * (xx - cx) + np.cos(rot) * (yy - cy)
    organ = (u / a) ** 2 + (v / b) ** 2 < 1
    img = 0.3 + 0.25 * organ
    seg = organ.astype(np.int64)
    for k in range(rng.randint(2, 6)):
        if k % 2 == 0:
            t, r = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.6)
            ly, lx = cy + r * b * np.sin(t), cx + r * b * np.cos(t)
        else:
            ly, lx = rng.uniform(6, size - 6, 2)
        lesion = (yy - ly) ** 2 + (xx - lx) ** 2 < rng.uniform(2.5, 6) ** 2
        img = np.where(lesion, img - 0.15, img)
        seg[lesion & organ] = 2
    bias = 1 + 0.25 * np.sin(xx / size * rng.uniform(1, 4) + rng.uniform(0, 6))
    img = img * bias + rng.normal(0, 0.07, img.shape)
    return ((img - img.mean()) / img.std()).astype(np.float32), seg


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(1e-2),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(1e-2))


class GenericUNet(nn.Module):
    def __init__(self, base=12, classes=3):
        super().__init__()
        self.enc = nn.ModuleList([ConvBlock(1, base), ConvBlock(base, 2 * base, 2), ConvBlock(2 * base, 4 * base, 2),
                                  ConvBlock(4 * base, 6 * base, 2)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(6 * base, 4 * base, 2, 2, bias=False),
                                 nn.ConvTranspose2d(4 * base, 2 * base, 2, 2, bias=False),
                                 nn.ConvTranspose2d(2 * base, base, 2, 2, bias=False)])
        self.dec = nn.ModuleList([ConvBlock(8 * base, 4 * base), ConvBlock(4 * base, 2 * base),
                                  ConvBlock(2 * base, base)])
        self.seg = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        skips = []
        for block in self.enc:
            x = block(x)
            skips.append(x)
        for up, dec, skip in zip(self.up, self.dec, skips[-2::-1]):
            x = dec(torch.cat([up(x), skip], dim=1))
        return self.seg(x)


def dc_and_ce_loss(logits, target):
    prob = logits.softmax(1)
    onehot = F.one_hot(target, logits.size(1)).permute(0, 3, 1, 2).float()
    inter = (prob * onehot).sum((0, 2, 3))[1:]
    total = (prob + onehot).sum((0, 2, 3))[1:]
    return F.cross_entropy(logits, target) - ((2 * inter + 1e-5) / (total + 1e-5)).mean()


class NetworkTrainer:
    def __init__(self, args):
        self.args = args
        self.output_folder = args.output_folder
        os.makedirs(self.output_folder, exist_ok=True)
        rng = np.random.RandomState(args.seed)
        self.dataset_tr = [make_case(rng) for _ in range(args.num_train)]
        self.dataset_val = [make_case(rng) for _ in range(args.num_val)]

        self.network = GenericUNet()
        self.optimizer = torch.optim.SGD(self.network.parameters(), args.initial_lr, momentum=0.95, nesterov=True,
                                         weight_decay=3e-5)
        self.epoch = 0
        self.all_tr_losses, self.all_val_losses, self.all_val_eval_metrics = [], [], []
        self.val_eval_criterion_MA = None
        self.val_eval_criterion_alpha = 0.9
        self.best_val_eval_criterion_MA = None
        self.best_epoch = None

    def next_batch(self):
        """Random patches with mirroring, brightness and noise."""
        p = self.args.patch_size
        data, target = [], []
        for _ in range(self.args.batch_size):
            img, seg = self.dataset_tr[np.random.randint(len(self.dataset_tr))]
            y, x = np.random.randint(0, img.shape[0] - p + 1, 2)
            img, seg = img[y:y + p, x:x + p], seg[y:y + p, x:x + p]
            for axis in (0, 1):
                if np.random.rand() < 0.5:
                    img, seg = np.flip(img, axis), np.flip(seg, axis)
            img = img * np.random.uniform(0.8, 1.2) + np.random.normal(0, 0.05, img.shape)
            data.append(img.astype(np.float32))
            target.append(seg)
        return torch.from_numpy(np.stack(data)).unsqueeze(1), torch.from_numpy(np.stack(target))

    def maybe_update_lr(self):
        lr = self.args.initial_lr * (1 - self.epoch / self.args.max_num_epochs) ** 0.9
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        return lr

    def run_iteration(self):
        data, target = self.next_batch()
        self.optimizer.zero_grad()
        loss = dc_and_ce_loss(self.network(data), target)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 12)
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def run_validation(self):
        self.network.eval()
        inter, total, losses = torch.zeros(3), torch.zeros(3), []
        for i in range(0, len(self.dataset_val), 10):
            cases = self.dataset_val[i:i + 10]
            data = torch.from_numpy(np.stack([c[0] for c in cases])).unsqueeze(1)
            target = torch.from_numpy(np.stack([c[1] for c in cases]))
            logits = self.network(data)
            losses.append(dc_and_ce_loss(logits, target).item())
            pred = logits.argmax(1)
            for k in range(3):
                inter[k] += ((pred == k) & (target == k)).sum()
                total[k] += (pred == k).sum() + (target == k).sum()
        self.network.train()
        dice = (2 * inter / total.clamp(min=1))[1:]
        return float(np.mean(losses)), dice.mean().item(), dice.tolist()

    def save_checkpoint(self, fname):
        save_this = {
            "epoch": self.epoch + 1,
            "state_dict": self.network.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "plot_stuff": (self.all_tr_losses, self.all_val_losses, self.all_val_eval_metrics),
            "rng": (random.getstate(), np.random.get_state(), torch.get_rng_state()),
        }
        torch.save(save_this, os.path.join(self.output_folder, fname + ".tmp"))
        os.replace(os.path.join(self.output_folder, fname + ".tmp"), os.path.join(self.output_folder, fname))

    def load_checkpoint(self, fname):
        checkpoint = torch.load(os.path.join(self.output_folder, fname), weights_only=False)
        self.network.load_state_dict(checkpoint["state_dict"])
        self.optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        self.epoch = checkpoint["epoch"]
        self.all_tr_losses, self.all_val_losses, self.all_val_eval_metrics = checkpoint["plot_stuff"]
        random.setstate(checkpoint["rng"][0])
        np.random.set_state(checkpoint["rng"][1])
        torch.set_rng_state(checkpoint["rng"][2])
        print(f"continuing at epoch {self.epoch}", flush=True)

    def update_best(self, metric):
        if self.val_eval_criterion_MA is None:
            self.val_eval_criterion_MA = metric
        else:
            self.val_eval_criterion_MA = (self.val_eval_criterion_alpha * self.val_eval_criterion_MA
                                          + (1 - self.val_eval_criterion_alpha) * metric)
        if self.best_val_eval_criterion_MA is None or self.val_eval_criterion_MA > self.best_val_eval_criterion_MA:
            self.best_val_eval_criterion_MA = self.val_eval_criterion_MA
            self.best_epoch = self.epoch
            print("saving best epoch checkpoint...", flush=True)
            self.save_checkpoint("model_best.model")

    def run_training(self):
        self.network.train()
        while self.epoch < self.args.max_num_epochs:
            start, lr = time(), self.maybe_update_lr()
            losses = []
            for b in range(self.args.num_batches_per_epoch):
                losses.append(self.run_iteration())
                if b % 10 == 0:
                    print(f"epoch {self.epoch} batch {b} loss {losses[-1]:.4f}", flush=True)
            self.all_tr_losses.append(float(np.mean(losses)))
            val_loss, metric, dice = self.run_validation()
            self.all_val_losses.append(val_loss)
            self.all_val_eval_metrics.append(metric)
            print(f"epoch: {self.epoch} train loss: {self.all_tr_losses[-1]:.4f} validation loss: {val_loss:.4f} "
                  f"global foreground Dice: {[round(d, 4) for d in dice]} lr: {lr:.6f} ({time() - start:.0f}s)",
                  flush=True)
            self.update_best(metric)
            self.save_checkpoint("model_latest.model")
            self.epoch += 1
        print(f"best epoch {self.best_epoch}, moving average {self.best_val_eval_criterion_MA:.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_folder", default="runs/nnunet")
    parser.add_argument("--num_train", type=int, default=400)
    parser.add_argument("--num_val", type=int, default=60)
    parser.add_argument("--patch_size", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--num_batches_per_epoch", type=int, default=50)
    parser.add_argument("--max_num_epochs", type=int, default=200)
    parser.add_argument("--initial_lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=12345)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    trainer = NetworkTrainer(args)
    if os.path.exists(os.path.join(args.output_folder, "model_latest.model")):
        trainer.load_checkpoint("model_latest.model")
    trainer.run_training()


if __name__ == "__main__":
    main()
