"""Neural attention distillation: a student is cleaned with the attention maps of a teacher."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def get_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint_root", type=str, default="./nad_weights")
    parser.add_argument("--teacher_epochs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight_decay", type=float, default=1e-4)
    parser.add_argument("--beta1", type=float, default=50)
    parser.add_argument("--beta2", type=float, default=100)
    parser.add_argument("--beta3", type=float, default=100)
    parser.add_argument("--p", type=float, default=2.0)
    parser.add_argument("--num_class", type=int, default=10)
    parser.add_argument("--print_freq", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_data(n, seed, num_class=10, side=24):
    proto = np.random.default_rng(99).uniform(-1, 1, size=(num_class, 3, 4, 4))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, num_class, n)
    x = 0.6 * rng.standard_normal((n, 3, side, side))
    for i in range(n):
        r, c = rng.integers(0, side - 12, 2)
        x[i, :, r:r + 12, c:c + 12] += np.kron(proto[y[i]], np.ones((1, 3, 3)))
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


class WideBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(cin), nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(cout), nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        o = F.relu(self.bn1(x))
        return self.conv2(F.relu(self.bn2(self.conv1(o)))) + self.short(o)


class WideResNet(nn.Module):
    def __init__(self, num_class, w=16):
        super().__init__()
        self.conv = nn.Conv2d(3, w, 3, 1, 1, bias=False)
        self.block1, self.block2 = WideBlock(w, w, 1), WideBlock(w, 2 * w, 2)
        self.block3 = WideBlock(2 * w, 4 * w, 2)
        self.bn, self.fc = nn.BatchNorm2d(4 * w), nn.Linear(4 * w, num_class)

    def forward(self, x):
        a1 = self.block1(self.conv(x))
        a2 = self.block2(a1)
        a3 = self.block3(a2)
        out = F.relu(self.bn(a3)).mean((2, 3))
        return a1, a2, a3, self.fc(out)


class AT(nn.Module):
    """Paying More Attention to Attention: activation-based attention transfer."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, fm_s, fm_t):
        return F.mse_loss(self.attention_map(fm_s), self.attention_map(fm_t))

    def attention_map(self, fm, eps=1e-6):
        am = torch.pow(torch.abs(fm), self.p).sum(1, keepdim=True)
        norm = torch.norm(am, dim=(2, 3), keepdim=True)
        return am / (norm + eps)


def train_teacher(opt, net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    net.train()
    for epoch in range(opt.teacher_epochs):
        for x, y in loader:
            loss = F.cross_entropy(net(x)[-1], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("teacher epoch %d loss %.4f" % (epoch, loss.item()), flush=True)


def train_step(opt, loader, nets, optimizer, criterions, epoch):
    snet, tnet = nets["snet"], nets["tnet"]
    criterionCls, criterionAT = criterions["criterionCls"], criterions["criterionAT"]
    snet.train()
    for idx, (img, target) in enumerate(loader):
        activation1_s, activation2_s, activation3_s, output_s = snet(img)
        with torch.no_grad():
            activation1_t, activation2_t, activation3_t, _ = tnet(img)

        cls_loss = criterionCls(output_s, target)
        at3_loss = criterionAT(activation3_s, activation3_t) * opt.beta3
        at2_loss = criterionAT(activation2_s, activation2_t) * opt.beta2
        at1_loss = criterionAT(activation1_s, activation1_t) * opt.beta1
        at_loss = at1_loss + at2_loss + at3_loss + cls_loss

        optimizer.zero_grad()
        at_loss.backward()
        optimizer.step()
        if idx % opt.print_freq == 0:
            acc = (output_s.argmax(1) == target).float().mean().item()
            print(f"Epoch[{epoch}]:[{idx:03}/{len(loader):03}] cls {cls_loss.item():.4f} at1 {at1_loss.item():.4f} "
                  f"at2 {at2_loss.item():.4f} at3 {at3_loss.item():.4f} prec {acc:.3f}", flush=True)


@torch.no_grad()
def test(net, loader):
    net.eval()
    hit = sum((net(x)[-1].argmax(1) == y).sum().item() for x, y in loader)
    return hit / len(loader.dataset)


def main():
    opt = get_arguments()
    random.seed(opt.seed)
    np.random.seed(opt.seed)
    torch.manual_seed(opt.seed)
    os.makedirs(opt.checkpoint_root, exist_ok=True)
    clean_loader = DataLoader(make_data(4000, 1, opt.num_class), opt.batch_size, shuffle=True)
    small_loader = DataLoader(make_data(1500, 2, opt.num_class), opt.batch_size, shuffle=True)
    test_loader = DataLoader(make_data(1000, 3, opt.num_class), 200)

    teacher, student = WideResNet(opt.num_class), WideResNet(opt.num_class)
    train_teacher(opt, teacher, clean_loader)
    print("teacher test acc %.3f" % test(teacher, test_loader))
    teacher.eval()
    for param in teacher.parameters():
        param.requires_grad = False

    optimizer = torch.optim.SGD(student.parameters(), lr=opt.lr, momentum=opt.momentum,
                                weight_decay=opt.weight_decay, nesterov=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [opt.epochs // 2, 3 * opt.epochs // 4], 0.1)
    nets = {"snet": student, "tnet": teacher}
    criterions = {"criterionCls": nn.CrossEntropyLoss(), "criterionAT": AT(opt.p)}
    best = 0.0
    for epoch in range(opt.epochs):
        train_step(opt, small_loader, nets, optimizer, criterions, epoch)
        acc = test(student, test_loader)
        scheduler.step()
        print(f"epoch {epoch} student test acc {acc:.3f}", flush=True)
        if acc > best:
            best = acc
            torch.save(student.state_dict(), os.path.join(opt.checkpoint_root, "student_best.pth"))


if __name__ == "__main__":
    main()
