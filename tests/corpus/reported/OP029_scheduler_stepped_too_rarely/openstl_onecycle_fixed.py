import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def create_parser():
    parser = argparse.ArgumentParser(description="video prediction on moving shapes")
    parser.add_argument("--pre_seq_length", default=6, type=int)
    parser.add_argument("--aft_seq_length", default=6, type=int)
    parser.add_argument("--image_size", default=24, type=int)
    parser.add_argument("--hid_S", default=16, type=int)
    parser.add_argument("--hid_T", default=48, type=int)
    parser.add_argument("--N_T", default=3, type=int)
    parser.add_argument("--batch_size", default=16, type=int)
    parser.add_argument("--epoch", default=5, type=int)
    parser.add_argument("--lr", default=2e-3, type=float)
    parser.add_argument("--train_len", default=1280, type=int)
    parser.add_argument("--val_len", default=160, type=int)
    parser.add_argument("--seed", default=1, type=int)
    return parser


class MovingShapes(Dataset):
    """Two soft discs that bounce off the borders."""

    def __init__(self, n, args, seed):
        rng = np.random.default_rng(seed)
        T, S = args.pre_seq_length + args.aft_seq_length, args.image_size
        yy, xx = np.mgrid[0:S, 0:S]
        data = np.zeros((n, T, 1, S, S), dtype=np.float32)
        for i in range(n):
            for _ in range(2):
                pos = rng.uniform(4, S - 4, 2)
                ang = rng.uniform(0, 2 * np.pi)
                vel = rng.uniform(1.0, 2.0) * np.array([np.sin(ang), np.cos(ang)])
                rad = rng.uniform(2.0, 3.5)
                for t in range(T):
                    d = np.sqrt((yy - pos[0]) ** 2 + (xx - pos[1]) ** 2)
                    data[i, t, 0] = np.maximum(data[i, t, 0], 1 / (1 + np.exp(2 * (d - rad))))
                    pos = pos + vel
                    for k in range(2):
                        if pos[k] < 3 or pos[k] > S - 4:
                            vel[k] = -vel[k]
                            pos[k] = np.clip(pos[k], 3, S - 4)
        self.data = torch.from_numpy(data)
        self.pre = args.pre_seq_length

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i, :self.pre], self.data[i, self.pre:]


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1), nn.GroupNorm(4, o), nn.SiLU())


class SimVP(nn.Module):
    def __init__(self, args):
        super().__init__()
        T, self.T_out = args.pre_seq_length, args.aft_seq_length
        s, h = args.hid_S, args.hid_T
        self.enc1, self.enc2 = conv(1, s), conv(s, s, stride=2)
        self.inp = nn.Conv2d(T * s, h, 1)
        self.mid = nn.ModuleList(nn.Sequential(conv(h, h), nn.Conv2d(h, h, 5, padding=2, groups=8)) for _ in range(args.N_T))
        self.outp = nn.Conv2d(h, self.T_out * s, 1)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), conv(s, s))
        self.readout = nn.Conv2d(s, 1, 1)

    def forward(self, x):
        B, T, C, H, W = x.shape
        z = self.enc2(self.enc1(x.reshape(B * T, C, H, W)))
        _, s, h, w = z.shape
        z = self.inp(z.reshape(B, T * s, h, w))
        for m in self.mid:
            z = z + m(z)
        z = self.outp(z).reshape(B * self.T_out, s, h, w)
        return self.readout(self.up(z)).reshape(B, self.T_out, C, H, W)


class BaseMethod:
    def __init__(self, args, steps_per_epoch):
        self.args = args
        self.model = SimVP(args)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=args.lr, steps_per_epoch=steps_per_epoch, epochs=args.epoch)
        self.current_epoch = 0

    def lr_scheduler_step(self):
        self.scheduler.step()

    def training_step(self, batch):
        batch_x, batch_y = batch
        pred_y = self.model(batch_x)
        loss = self.criterion(pred_y, batch_y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.lr_scheduler_step()
        return loss.item()

    @torch.no_grad()
    def vali(self, loader):
        self.model.eval()
        mse, mae, n = 0.0, 0.0, 0
        for x, y in loader:
            p = self.model(x)
            mse += ((p - y) ** 2).mean((1, 3, 4)).sum().item() * p.shape[-1] * p.shape[-2] / p.shape[2]
            mae += (p - y).abs().mean((1, 3, 4)).sum().item() * p.shape[-1] * p.shape[-2] / p.shape[2]
            n += len(x)
        self.model.train()
        return mse / n, mae / n


def main():
    args = create_parser().parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_loader = DataLoader(MovingShapes(args.train_len, args, args.seed), args.batch_size, shuffle=True, drop_last=True)
    vali_loader = DataLoader(MovingShapes(args.val_len, args, args.seed + 1000), 32)
    method = BaseMethod(args, len(train_loader))
    print("params:", sum(p.numel() for p in method.model.parameters()), "iterations:", args.epoch * len(train_loader))

    start = time.time()
    for epoch in range(args.epoch):
        method.current_epoch = epoch
        method.model.train()
        losses = [method.training_step(batch) for batch in train_loader]
        mse, mae = method.vali(vali_loader)
        lr = method.optimizer.param_groups[0]["lr"]
        print(f"Epoch: {epoch + 1}, Lr: {lr:.3e} | Train Loss: {np.mean(losses):.5f} | "
              f"vali mse: {mse:.3f}, mae: {mae:.3f} | {time.time() - start:.0f}s")


if __name__ == "__main__":
    main()
