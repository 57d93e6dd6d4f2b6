import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def xywhr2gaussian(boxes):
    xy, wh, r = boxes[:, :2], boxes[:, 2:4], boxes[:, 4]
    cos, sin = torch.cos(r), torch.sin(r)
    rot = torch.stack([cos, -sin, sin, cos], dim=-1).view(-1, 2, 2)
    s = 0.5 * torch.diag_embed(wh)
    return xy, rot @ s.square() @ rot.transpose(1, 2)


def gwd_loss(pred, target, tau=1.0, alpha=1.0):
    xy_p, sigma_p = xywhr2gaussian(pred)
    xy_t, sigma_t = xywhr2gaussian(target)
    xy_distance = (xy_p - xy_t).square().sum(dim=-1)
    whr_distance = sigma_p.diagonal(dim1=-2, dim2=-1).sum(-1) + sigma_t.diagonal(dim1=-2, dim2=-1).sum(-1)
    t_tr = (sigma_p @ sigma_t).diagonal(dim1=-2, dim2=-1).sum(-1)
    t_det_sqrt = (sigma_p.det() * sigma_t.det()).clamp(0).sqrt()
    whr_distance = whr_distance - 2 * (t_tr + 2 * t_det_sqrt).clamp(0).sqrt()
    distance = (xy_distance + alpha * alpha * whr_distance).clamp(0).sqrt()
    return (1 - 1 / (tau + torch.log1p(distance))).mean()


class BoxHead(nn.Module):
    def __init__(self, d_in=32, hidden=96):
        super().__init__()
        self.fcs = nn.Sequential(nn.Linear(d_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.fc_reg = nn.Linear(hidden, 5)
        nn.init.zeros_(self.fc_reg.weight)
        nn.init.zeros_(self.fc_reg.bias)

    def forward(self, feats, anchors):
        d = self.fc_reg(self.fcs(feats))
        xy = anchors[:, :2] + d[:, :2] * anchors[:, 2:4]
        wh = anchors[:, 2:4] * d[:, 2:4].clamp(-2, 2).exp()
        r = anchors[:, 4:] + d[:, 4:]
        return torch.cat([xy, wh, r], dim=1)


def proposals(n, seed):
    """RoI features with their assigned anchor and ground truth; some anchors sit on their object already."""
    mix = torch.randn(5, 32, generator=torch.Generator().manual_seed(71))
    g = torch.Generator().manual_seed(seed)
    anchors = torch.cat([torch.rand(n, 2, generator=g) * 4, 1 + torch.rand(n, 2, generator=g),
                         (torch.rand(n, 1, generator=g) - 0.5) * math.pi / 2], dim=1)
    delta = torch.randn(n, 5, generator=g) * torch.tensor([0.3, 0.3, 0.25, 0.25, 0.3])
    delta[torch.rand(n, generator=g) < 0.15] = 0.0
    feats = 2.0 * delta @ mix + 0.1 * torch.randn(n, 32, generator=g)
    gt = torch.cat([anchors[:, :2] + delta[:, :2] * anchors[:, 2:4], anchors[:, 2:4] * delta[:, 2:4].exp(),
                    anchors[:, 4:] + delta[:, 4:]], dim=1)
    return TensorDataset(feats, anchors, gt)


def main():
    torch.manual_seed(33)
    train_loader = DataLoader(proposals(4096, 0), batch_size=64, shuffle=True)
    val_loader = DataLoader(proposals(1024, 1), batch_size=256)
    head = BoxHead()
    optimizer = torch.optim.AdamW(head.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(4):
        head.train()
        for i, (feats, anchors, gt) in enumerate(train_loader):
            loss = gwd_loss(head(feats, anchors), gt)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 32 == 0:
                print(f"epoch {epoch} iter {i} loss_bbox {loss.item():.4f}")
        head.eval()
        with torch.no_grad():
            val = [gwd_loss(head(f, a), t).item() for f, a, t in val_loader]
        print(f"epoch {epoch} val loss_bbox {sum(val) / len(val):.4f}")


if __name__ == "__main__":
    main()
