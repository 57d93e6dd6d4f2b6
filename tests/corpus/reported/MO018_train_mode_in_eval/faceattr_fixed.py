"""Multi-label face attribute classification (CelebA style) with a small residual network."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ATTRS = ['Bald', 'Black_Hair', 'Eyeglasses', 'Hat', 'Smiling', 'Mustache', 'Pale_Skin', 'Narrow_Eyes',
         'Lipstick', 'Necktie', 'Big_Nose', 'Bangs']


def draw_face(rng, a, size=32):
    """Renders one 3 x size x size picture for the attribute vector a."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    img = np.ones((3, size, size), np.float32) * rng.uniform(0.2, 0.8, (3, 1, 1)).astype(np.float32)
    cx, cy = size / 2 + rng.normal(0, 1.2), size / 2 + rng.normal(0, 1.2)
    face = ((xx - cx) / 9.0) ** 2 + ((yy - cy) / 11.5) ** 2 < 1
    skin = np.array([0.85, 0.68, 0.55]) if not a[6] else np.array([0.97, 0.88, 0.82])
    skin = skin + rng.normal(0, 0.05, 3)
    img[:, face] = skin[:, None]
    hair = np.array([0.08, 0.07, 0.06]) if a[1] else np.array([0.6, 0.45, 0.2]) + rng.normal(0, 0.08, 3)
    if not a[0]:
        img[:, face & (yy < cy - 6.5)] = hair[:, None]
        if a[11]:
            img[:, face & (yy < cy - 4.0)] = hair[:, None]
    if a[3]:
        hat = (np.abs(xx - cx) < 9) & (yy < cy - 7) & (yy > cy - 12)
        img[:, hat] = rng.uniform(0, 1, 3)[:, None]
    eye_h = 0.7 if a[7] else 1.6
    for s in (-1, 1):
        ex = cx + s * 3.6
        img[:, ((xx - ex) / 1.6) ** 2 + ((yy - cy + 2) / eye_h) ** 2 < 1] = 0.1
        if a[2]:
            ring = np.abs(np.sqrt((xx - ex) ** 2 + (yy - cy + 2) ** 2) - 3.0) < 0.6
            img[:, ring] = 0.05
    nose = 2.2 if a[10] else 1.0
    img[:, (np.abs(xx - cx) < nose) & (np.abs(yy - cy - 1.5) < 1.8)] = (skin * 0.8)[:, None]
    my = cy + 6 + ((xx - cx) ** 2 / 9.0) * (-1 if a[4] else 0.3)
    mouth = (np.abs(xx - cx) < 4) & (np.abs(yy - my) < 0.9)
    img[:, mouth] = (np.array([0.85, 0.1, 0.2]) if a[8] else np.array([0.6, 0.35, 0.3]))[:, None]
    if a[5]:
        img[:, (np.abs(xx - cx) < 3.5) & (np.abs(yy - cy - 4.2) < 0.8)] = 0.12
    if a[9]:
        img[:, (np.abs(xx - cx) < 1.8) & (yy > cy + 11)] = rng.uniform(0, 0.5, 3)[:, None]
    return np.clip(img + rng.normal(0, 0.08, img.shape), 0, 1).astype(np.float32)


class AttrDataset(Dataset):
    def __init__(self, n, seed, augment=False):
        rng = np.random.RandomState(seed)
        prior = np.array([0.3, 0.4, 0.3, 0.25, 0.5, 0.3, 0.3, 0.4, 0.4, 0.3, 0.35, 0.35])
        self.labels = (rng.rand(n, len(ATTRS)) < prior).astype(np.float32)
        self.images = np.stack([draw_face(rng, a) for a in self.labels])
        self.augment = augment
        self.mean, self.std = 0.5, 0.25

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = self.images[i]
        if self.augment and random.random() < 0.5:
            x = x[:, :, ::-1].copy()
        return torch.from_numpy((x - self.mean) / self.std), torch.from_numpy(self.labels[i])


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class AttClsModel(nn.Module):
    def __init__(self, width=16, num_attr=len(ATTRS)):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = BasicBlock(width, width, 1)
        self.layer2 = BasicBlock(width, width * 2, 2)
        self.layer3 = BasicBlock(width * 2, width * 4, 2)
        self.fc = nn.Linear(width * 4, num_attr)
        self.dropout = nn.Dropout(0.5)

    def backbone_forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return F.adaptive_avg_pool2d(x, 1)

    def forward(self, input, labels=None):
        x = self.backbone_forward(input)
        x = torch.flatten(x, 1)
        x = self.dropout(x)
        x = self.fc(x)
        if labels is None:
            return torch.sigmoid(x)
        loss = F.binary_cross_entropy_with_logits(x, labels)
        return torch.sigmoid(x), loss


def train_epoch(model, loader, optimizer, epoch, opt):
    model.train()
    total, seen = 0.0, 0
    for i, (img, lab) in enumerate(loader):
        optimizer.zero_grad()
        _, loss = model(img, lab)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(img)
        seen += len(img)
        if (i + 1) % opt.print_freq == 0:
            print('epoch %d [%d/%d] loss %.4f' % (epoch, i + 1, len(loader), total / seen))
    return total / seen


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, right, seen = 0.0, np.zeros(len(ATTRS)), 0
    for img, lab in loader:
        prob, loss = model(img, lab)
        total += loss.item() * len(img)
        right += ((prob > 0.5).float() == lab).float().sum(0).numpy()
        seen += len(img)
    return total / seen, right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=8)
    parser.add_argument('--batch_size', type=int, default=48)
    parser.add_argument('--lr', type=float, default=2e-3)
    parser.add_argument('--print_freq', type=int, default=25)
    parser.add_argument('--seed', type=int, default=7)
    opt = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(opt.seed)
    np.random.seed(opt.seed)
    torch.manual_seed(opt.seed)

    train_set = AttrDataset(3600, 1, augment=True)
    val_set = AttrDataset(800, 2)
    test_set = AttrDataset(800, 3)
    train_loader = DataLoader(train_set, batch_size=opt.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=200)
    test_loader = DataLoader(test_set, batch_size=200)

    model = AttClsModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, opt.epochs)
    best, best_state = 0.0, None
    for epoch in range(opt.epochs):
        t = time.time()
        train_loss = train_epoch(model, train_loader, optimizer, epoch, opt)
        scheduler.step()
        val_loss, acc = evaluate(model, val_loader)
        print('epoch %d train loss %.4f val loss %.4f val acc %.4f (%.1fs)'
              % (epoch, train_loss, val_loss, acc.mean(), time.time() - t))
        if acc.mean() > best:
            best = acc.mean()
            best_state = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(best_state)
    test_loss, acc = evaluate(model, test_loader)
    print('test loss %.4f mean acc %.4f' % (test_loss, acc.mean()))
    for name, a in zip(ATTRS, acc):
        print('  %-12s %.3f' % (name, a))


if __name__ == '__main__':
    main()
