import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_pairs(n, seed):
    """Smooth colourful patches; the shadowed version darkens one side by a factor read from a marker strip."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 4, 4, generator=g) * 1.6 - 0.8
    clean = F.interpolate(coarse, size=16, mode="bilinear", align_corners=False)
    edge = torch.randint(4, 12, (n,), generator=g)
    depth = 0.3 + 0.4 * torch.rand(n, generator=g)
    mask = (torch.arange(16)[None, :] >= edge[:, None]).float()[:, None, None, :].expand(n, 1, 16, 16)
    shadow = clean - mask * depth[:, None, None, None]
    return TensorDataset(torch.cat([shadow, mask * depth[:, None, None, None] * 2], 1), clean)


class GeneratorS2F(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, c, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(c, c, 3, padding=1),
                                  nn.LeakyReLU(0.1), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x):
        return self.body(x)


class Discriminator(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(c, 2 * c, 4, 2, 1),
                                  nn.LeakyReLU(0.2), nn.Conv2d(2 * c, 1, 4))

    def forward(self, x):
        return self.body(x).flatten(1)


class LambdaLR:
    def __init__(self, n_epochs, offset, decay_start_epoch):
        self.n_epochs, self.offset, self.decay_start_epoch = n_epochs, offset, decay_start_epoch

    def step(self, epoch):
        return 1.0 - max(0, epoch + self.offset - self.decay_start_epoch) / (self.n_epochs - self.decay_start_epoch)


def train(opt):
    netG, netD = GeneratorS2F(), Discriminator()
    optimizer_G = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    optimizer_D = torch.optim.Adam(netD.parameters(), lr=opt.lr * 0.25, betas=(0.5, 0.999))
    lr_scheduler_G = torch.optim.lr_scheduler.LambdaLR(
        optimizer_G, lr_lambda=LambdaLR(opt.n_epochs, 0, opt.decay_epoch).step)
    lr_scheduler_D = torch.optim.lr_scheduler.LambdaLR(
        optimizer_D, lr_lambda=LambdaLR(opt.n_epochs, 0, opt.decay_epoch).step)

    if opt.resume:
        state = torch.load(opt.ckpt)
        netG.load_state_dict(state["netG"])
        netD.load_state_dict(state["netD"])
        optimizer_G.load_state_dict(state["optimizer_G"])
        optimizer_D.load_state_dict(state["optimizer_D"])
        lr_scheduler_G.load_state_dict(state["lr_scheduler_G"])
        lr_scheduler_D.load_state_dict(state["lr_scheduler_D"])

    loader = DataLoader(make_pairs(320, 0), batch_size=16, shuffle=True)
    val = make_pairs(64, 1).tensors
    for epoch in range(opt.epoch, opt.stop_epoch):
        sums = [0.0, 0.0]
        for shadow, clean in loader:
            fake = netG(shadow)
            loss_G = F.l1_loss(fake, clean) + 0.01 * F.mse_loss(netD(fake), torch.ones(len(clean), 1))
            optimizer_G.zero_grad()
            loss_G.backward()
            optimizer_G.step()

            loss_D = 0.5 * (F.mse_loss(netD(clean), torch.ones(len(clean), 1))
                            + F.mse_loss(netD(fake.detach()), torch.zeros(len(clean), 1)))
            optimizer_D.zero_grad()
            loss_D.backward()
            optimizer_D.step()
            sums[0] += loss_G.item()
            sums[1] += loss_D.item()
        with torch.no_grad():
            v = F.l1_loss(netG(val[0]), val[1]).item()
        print("epoch %d  loss_G %.4f  loss_D %.4f  val_l1 %.4f" % (epoch, sums[0] / len(loader), sums[1] / len(loader), v))
        lr_scheduler_G.step()
        lr_scheduler_D.step()
    torch.save({"netG": netG.state_dict(), "netD": netD.state_dict(),
                "optimizer_G": optimizer_G.state_dict(), "optimizer_D": optimizer_D.state_dict(),
                "lr_scheduler_G": lr_scheduler_G.state_dict(), "lr_scheduler_D": lr_scheduler_D.state_dict()}, opt.ckpt)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_epochs", type=int, default=10)
    parser.add_argument("--decay_epoch", type=int, default=5)
    parser.add_argument("--lr", type=float, default=4e-3)
    opt = parser.parse_args()
    torch.manual_seed(6)
    with tempfile.TemporaryDirectory() as tmp:
        opt.ckpt = os.path.join(tmp, "last.pth")
        opt.resume, opt.epoch, opt.stop_epoch = False, 0, 7
        train(opt)
        print("continue training")
        opt.resume, opt.epoch, opt.stop_epoch = True, 7, opt.n_epochs
        train(opt)
