import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


def conv_bn(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU6())


def make_images(n, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
    cx, cy = (4 + 8 * torch.rand(n, 1, 1, generator=g) for _ in range(2))
    r = 2.5 + 3 * torch.rand(n, 1, 1, generator=g)
    dist = ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()
    alpha = torch.sigmoid(r - dist).unsqueeze(1)
    kind = torch.randint(0, 3, (n,), generator=g)
    fg = torch.eye(3)[kind].view(n, 3, 1, 1) * 2 - 0.6
    image = alpha * fg + (1 - alpha) * -0.3 + 0.3 * torch.randn(n, 3, size, size, generator=g)
    return image, alpha, kind


class Encoder(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.layers = nn.Sequential(conv_bn(3, ch), conv_bn(ch, ch), conv_bn(ch, ch))

    def forward(self, x):
        return self.layers(x)


class MattingNet(nn.Module):
    def __init__(self, encoder, freeze_bn, ch=12):
        super().__init__()
        self.encoder = encoder
        self.decoder = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, 1, 1))
        if freeze_bn:
            self.freeze_bn()

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def freeze_bn(self):
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()


def pretrain(encoder, steps=70):
    image, _, kind = make_images(960, 10)
    head = nn.Linear(12, 3)
    net = nn.Sequential(encoder, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    net.train()
    for step in range(steps):
        idx = torch.randint(0, len(image), (32,))
        loss = F.cross_entropy(net(image[idx]), kind[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"pretraining loss {loss.item():.4f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--freeze_bn", type=int, default=1)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch_size", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.manual_seed(6)
    encoder = Encoder()
    pretrain(encoder)
    net = MattingNet(encoder, bool(args.freeze_bn))
    image, alpha, _ = make_images(240, 1)
    v_image, v_alpha, _ = make_images(96, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        net.train()
        if args.freeze_bn:
            net.freeze_bn()
        total = 0.0
        batches = torch.randperm(len(image)).split(args.batch_size)
        for idx in batches:
            loss = F.l1_loss(torch.sigmoid(net(image[idx])), alpha[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        net.eval()
        with torch.no_grad():
            val = F.l1_loss(torch.sigmoid(net(v_image)), v_alpha).item()
        print(f"epoch {epoch} l1 {total / len(batches):.4f} valid {val:.4f}")


if __name__ == "__main__":
    main()
