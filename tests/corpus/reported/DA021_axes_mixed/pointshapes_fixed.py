import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

CLASSES = ['sphere', 'cube', 'cylinder', 'cone', 'torus', 'tetrahedron', 'plate', 'helix']


def sample_shape(name, n, rng):
    u, v = rng.random(n), rng.random(n)
    if name == 'sphere':
        p = rng.standard_normal((n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif name == 'cube':
        p = rng.uniform(-1, 1, (n, 3))
        axis = rng.integers(0, 3, n)
        p[np.arange(n), axis] = rng.choice([-1.0, 1.0], n)
    elif name == 'cylinder':
        a = 2 * np.pi * u
        p = np.stack([0.6 * np.cos(a), 0.6 * np.sin(a), 2 * v - 1], 1)
    elif name == 'cone':
        a, h = 2 * np.pi * u, np.sqrt(v)
        p = np.stack([0.8 * h * np.cos(a), 0.8 * h * np.sin(a), 1 - 2 * h], 1)
    elif name == 'torus':
        a, b = 2 * np.pi * u, 2 * np.pi * v
        r = 0.75 + 0.25 * np.cos(b)
        p = np.stack([r * np.cos(a), r * np.sin(a), 0.25 * np.sin(b)], 1)
    elif name == 'tetrahedron':
        corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=float)
        faces = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])[rng.integers(0, 4, n)]
        w = rng.dirichlet([1, 1, 1], n)
        p = (corners[faces] * w[:, :, None]).sum(1)
    elif name == 'plate':
        p = np.stack([2 * u - 1, 2 * v - 1, 0.05 * rng.standard_normal(n)], 1)
    else:
        a = 5 * np.pi * u
        p = np.stack([0.6 * np.cos(a), 0.6 * np.sin(a), 2 * u - 1], 1) + 0.05 * rng.standard_normal((n, 3))
    return p


class ShapeDataset(Dataset):
    def __init__(self, per_class, npoints, seed, data_augmentation):
        rng = np.random.default_rng(seed)
        self.data_augmentation = data_augmentation
        self.clouds, self.labels = [], []
        for c, name in enumerate(CLASSES):
            for _ in range(per_class):
                p = sample_shape(name, npoints, rng) * rng.uniform(0.6, 1.4, (1, 3))
                tilt = rng.uniform(-0.5, 0.5, 2)
                cx, sx, cy, sy = np.cos(tilt[0]), np.sin(tilt[0]), np.cos(tilt[1]), np.sin(tilt[1])
                p = p @ np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]]) @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
                p = p - p.mean(0)
                p = p / np.linalg.norm(p, axis=1).max()
                p = p + 0.04 * rng.standard_normal(p.shape)
                self.clouds.append(p.astype(np.float32))
                self.labels.append(c)

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, index):
        points = self.clouds[index]
        if self.data_augmentation:
            theta = np.random.uniform(0, 2 * np.pi)
            rot = np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]], dtype=np.float32)
            points = points.copy()
            points[:, [0, 1]] = points[:, [0, 1]] @ rot
            points += np.random.normal(0, 0.01, size=points.shape).astype(np.float32)
        return torch.from_numpy(points), self.labels[index]


class STN3d(nn.Module):
    def __init__(self):
        super(STN3d, self).__init__()
        self.conv1 = nn.Conv1d(3, 32, 1)
        self.conv2 = nn.Conv1d(32, 64, 1)
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 9)
        self.bn1 = nn.BatchNorm1d(32)
        self.bn2 = nn.BatchNorm1d(64)
        nn.init.zeros_(self.fc2.weight)
        nn.init.zeros_(self.fc2.bias)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2)[0]
        x = self.fc2(F.relu(self.fc1(x)))
        iden = torch.eye(3).flatten().unsqueeze(0)
        return (x + iden).view(-1, 3, 3)


class PointNetfeat(nn.Module):
    def __init__(self):
        super(PointNetfeat, self).__init__()
        self.stn = STN3d()
        self.conv1 = nn.Conv1d(3, 48, 1)
        self.conv2 = nn.Conv1d(48, 96, 1)
        self.conv3 = nn.Conv1d(96, 192, 1)
        self.bn1 = nn.BatchNorm1d(48)
        self.bn2 = nn.BatchNorm1d(96)
        self.bn3 = nn.BatchNorm1d(192)

    def forward(self, x):
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        return torch.max(x, 2)[0], trans


class PointNetCls(nn.Module):
    def __init__(self, k):
        super(PointNetCls, self).__init__()
        self.feat = PointNetfeat()
        self.fc1 = nn.Linear(192, 96)
        self.fc2 = nn.Linear(96, 64)
        self.fc3 = nn.Linear(64, k)
        self.dropout = nn.Dropout(p=0.3)
        self.bn1 = nn.BatchNorm1d(96)
        self.bn2 = nn.BatchNorm1d(64)

    def forward(self, x):
        x, trans = self.feat(x)
        x = F.relu(self.bn1(self.fc1(x)))
        x = F.relu(self.bn2(self.dropout(self.fc2(x))))
        x = self.fc3(x)
        return F.log_softmax(x, dim=1), trans


def train(classifier, loader, optimizer, epoch):
    classifier.train()
    num_batch = len(loader)
    losses, correct, seen = 0.0, 0, 0
    for i, (points, target) in enumerate(loader):
        points = points.transpose(2, 1)
        optimizer.zero_grad()
        pred, _ = classifier(points)
        loss = F.nll_loss(pred, target)
        loss.backward()
        optimizer.step()
        losses += loss.item()
        correct += pred.data.max(1)[1].eq(target).sum().item()
        seen += len(target)
        if i % 20 == 0:
            print('[%d: %d/%d] train loss: %f accuracy: %f' % (epoch, i, num_batch, losses / (i + 1), correct / seen))


def test(classifier, loader, epoch):
    classifier.eval()
    losses, correct, seen = 0.0, 0, 0
    with torch.no_grad():
        for points, target in loader:
            pred, _ = classifier(points.transpose(2, 1))
            losses += F.nll_loss(pred, target, reduction='sum').item()
            correct += pred.max(1)[1].eq(target).sum().item()
            seen += len(target)
    print('[%d] test loss: %f accuracy: %f' % (epoch, losses / seen, correct / seen))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--batchSize', type=int, default=32, help='input batch size')
    parser.add_argument('--num_points', type=int, default=160)
    parser.add_argument('--per_class', type=int, default=120)
    parser.add_argument('--nepoch', type=int, default=14, help='number of epochs to train for')
    parser.add_argument('--manualSeed', type=int, default=4021)
    opt = parser.parse_args()
    print(opt)

    random.seed(opt.manualSeed)
    np.random.seed(opt.manualSeed)
    torch.manual_seed(opt.manualSeed)
    torch.set_num_threads(1)

    dataset = ShapeDataset(opt.per_class, opt.num_points, opt.manualSeed, data_augmentation=True)
    test_dataset = ShapeDataset(opt.per_class // 4, opt.num_points, opt.manualSeed + 1, data_augmentation=False)
    dataloader = DataLoader(dataset, batch_size=opt.batchSize, shuffle=True, drop_last=True)
    # the test order is mixed once so that the batches look alike
    order = torch.randperm(len(test_dataset)).tolist()
    testdataloader = DataLoader(torch.utils.data.Subset(test_dataset, order), batch_size=opt.batchSize)
    print(len(dataset), len(test_dataset))

    classifier = PointNetCls(k=len(CLASSES))
    optimizer = optim.Adam(classifier.parameters(), lr=0.001, betas=(0.9, 0.999))
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=8, gamma=0.5)

    for epoch in range(opt.nepoch):
        train(classifier, dataloader, optimizer, epoch)
        scheduler.step()
        test(classifier, testdataloader, epoch)
