"""Rotated box regression with the DIoU loss of rotated boxes (smallest enclosing box)."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def generate_table():
    """Candidate hull edges (24, 2) of the 8 corners and the other 6 points (24, 6)."""
    skip = [[0, 2], [1, 3], [5, 7], [4, 6]]
    line, points = [], []
    for i in range(8):
        for j in range(i + 1, 8):
            if [i, j] not in skip:
                line.append([i, j])
                points.append([k for k in range(8) if k not in (i, j)])
    return torch.tensor(line), torch.tensor(points)


LINES, POINTS = generate_table()


def point_line_distance_range(lines, points):
    x1, y1, x2, y2 = lines[..., 0:1, 0], lines[..., 0:1, 1], lines[..., 1:2, 0], lines[..., 1:2, 1]
    x, y = points[..., 0], points[..., 1]
    den = (y2 - y1) * x - (x2 - x1) * y + x2 * y1 - y2 * x1
    num = torch.sqrt((y2 - y1).square() + (x2 - x1).square()) + 1e-8
    d = den / num
    d1 = d.max(dim=-1)[0] - d.min(dim=-1)[0]
    return torch.max(d1, d.abs().max(dim=-1)[0])


def point_line_projection_range(lines, points):
    x1, y1, x2, y2 = lines[..., 0:1, 0], lines[..., 0:1, 1], lines[..., 1:2, 0], lines[..., 1:2, 1]
    k = (y2 - y1) / (x2 - x1 + 1e-8)
    vec = torch.cat([torch.ones_like(k), k], dim=-1).unsqueeze(-2)
    proj = torch.sum(torch.cat([lines, points], dim=-2) * vec, dim=-1) / torch.norm(vec, dim=-1)
    return proj.max(dim=-1)[0] - proj.min(dim=-1)[0]


def smallest_bounding_box(corners):
    """Width and height of the smallest box around two boxes; corners (B, 8, 2)."""
    corners = corners.double()
    lines, points = corners[:, LINES], corners[:, POINTS]
    proj, dist = point_line_projection_range(lines, points), point_line_distance_range(lines, points)
    idx = (proj * dist).argmin(dim=-1, keepdim=True)
    return proj.gather(-1, idx).squeeze(-1).float(), dist.gather(-1, idx).squeeze(-1).float()


def box2corners_th(box):
    x, y, w, h, alpha = box.split(1, dim=-1)
    px = torch.tensor([0.5, -0.5, -0.5, 0.5]) * w
    py = torch.tensor([0.5, 0.5, -0.5, -0.5]) * h
    cos, sin = torch.cos(alpha), torch.sin(alpha)
    return torch.stack([x + px * cos - py * sin, y + px * sin + py * cos], dim=-1)


def cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def corners_in(c1, c2):
    """Which corners of c1 lie in the box c2."""
    edge = torch.roll(c2, -1, dims=1) - c2
    side = cross(edge[:, None], c1[:, :, None] - c2[:, None])
    return (side >= -1e-6).all(-1)


def oriented_box_intersection(c1, c2):
    e1, e2 = torch.roll(c1, -1, dims=1) - c1, torch.roll(c2, -1, dims=1) - c2
    den = cross(e1[:, :, None], e2[:, None])
    diff = c2[:, None] - c1[:, :, None]
    safe = torch.where(den.abs() < 1e-7, torch.ones_like(den), den)
    t, u = cross(diff, e2[:, None].expand_as(diff)) / safe, cross(diff, e1[:, :, None].expand_as(diff)) / safe
    hit = (den.abs() >= 1e-7) & (t > 0) & (t < 1) & (u > 0) & (u < 1)
    inter = c1[:, :, None] + t[..., None] * e1[:, :, None]
    pts = torch.cat([inter.flatten(1, 2), c1, c2], dim=1)
    mask = torch.cat([hit.flatten(1), corners_in(c1, c2), corners_in(c2, c1)], dim=1)
    n = mask.sum(1, keepdim=True)
    center = (torch.where(mask[..., None], pts, torch.zeros_like(pts)).sum(1, keepdim=True) / n.clamp(min=1)[..., None]).detach()
    rel = (pts - center).detach()
    angle = torch.atan2(rel[..., 1], rel[..., 0]).masked_fill(~mask, 1e3)
    order = angle.argsort(dim=1)
    order = torch.where(torch.arange(order.size(1)) < n, order, order[:, :1])
    poly = pts.gather(1, order[..., None].expand(-1, -1, 2)) - center
    area = 0.5 * cross(poly, torch.roll(poly, -1, dims=1)).sum(1)
    return torch.where(n[:, 0] >= 3, area.abs(), torch.zeros_like(area))


def cal_diou(box1, box2):
    c1, c2 = box2corners_th(box1), box2corners_th(box2)
    inter = oriented_box_intersection(c1, c2)
    union = box1[:, 2] * box1[:, 3] + box2[:, 2] * box2[:, 3] - inter
    iou = inter / union
    w, h = smallest_bounding_box(torch.cat([c1, c2], dim=1))
    d2 = (box1[:, 0] - box2[:, 0]) ** 2 + (box1[:, 1] - box2[:, 1]) ** 2
    return 1.0 - iou + d2 / (w * w + h * h), iou


class RotBoxDataset(Dataset):
    """32x32 pictures of one rotated object; box (x, y, w, h, alpha) in units of 8 pixels."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        yy, xx = (np.mgrid[:32, :32] + 0.5) / 8 - 2
        self.box = np.zeros((n, 5), dtype=np.float32)
        self.img = np.zeros((n, 1, 32, 32), dtype=np.float32)
        for k in range(n):
            x, y = rng.uniform(-0.9, 0.9, 2)
            w, h, a = rng.uniform(1.0, 2.2), rng.uniform(0.12, 0.9), rng.uniform(-1.2, 1.2)
            u, v = (xx - x) * np.cos(a) + (yy - y) * np.sin(a), -(xx - x) * np.sin(a) + (yy - y) * np.cos(a)
            soft = 1 / (1 + np.exp(-(w / 2 - np.abs(u)) * 25)) / (1 + np.exp(-(h / 2 - np.abs(v)) * 25))
            self.box[k] = [x, y, w, h, a]
            self.img[k, 0] = 2.5 * soft - 0.3 + rng.normal(0, 0.15, (32, 32))

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        return self.img[i], self.box[i]


class RotBoxNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        layers, last = [], 1
        for width, stride in ((c, 1), (c * 2, 2), (c * 3, 2), (c * 4, 2)):
            layers += [nn.Conv2d(last, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU()]
            last = width
        self.features = nn.Sequential(*layers)
        self.fc = nn.Sequential(nn.Linear(last * 16, 96), nn.ReLU(), nn.Linear(96, 5))

    def forward(self, x):
        out = self.fc(self.features(x).flatten(1))
        xy = 4 * (torch.sigmoid(out[:, :2]) - 0.5)
        wh = F.relu(out[:, 2:4] + 1.0)
        return torch.cat([xy, wh, np.pi * (torch.sigmoid(out[:, 4:]) - 0.5)], dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=None)
    parser.add_argument("--epochs", type=int, default=14)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    train_loader = DataLoader(RotBoxDataset(3200, 1), batch_size=64, shuffle=True, drop_last=True)
    test_loader = DataLoader(RotBoxDataset(320, 2), batch_size=64)
    net = RotBoxNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        net.train()
        for i, (img, label) in enumerate(train_loader):
            diou_loss, iou = cal_diou(net(img), label)
            loss = diou_loss.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            if i % 25 == 0:
                print(f"[Epoch {epoch}: {i}/{len(train_loader)}] train loss: {loss.item():.4f}  mean_iou: {iou.mean().item():.4f}", flush=True)
        net.eval()
        with torch.no_grad():
            ious = torch.cat([cal_diou(net(img), label)[1] for img, label in test_loader])
        print(f"[Epoch {epoch}] test iou {ious.mean().item():.4f}", flush=True)
        torch.save(net.state_dict(), os.path.join(out, "net.pt"))


if __name__ == "__main__":
    main()
