import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def hazy_pairs(n, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    clear = F.interpolate(torch.rand(n, 3, 4, 4, generator=g) * 2 - 1, size=size, mode="bilinear", align_corners=False)
    depth = torch.linspace(0, 1, size)[None, None, :, None] * torch.rand(n, 1, 1, 1, generator=g)
    t = torch.exp(-1.2 * depth)
    hazy = clear * t + 0.8 * (1 - t)
    return TensorDataset(torch.cat([hazy, (2 * t - 1).expand(n, 1, size, size)], 1), clear)


class UNetPyramid(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.down = nn.Conv2d(4, c, 3, padding=1)
        self.mid = nn.Conv2d(c, 2 * c, 3, padding=1)
        self.up = nn.Conv2d(3 * c, c, 3, padding=1)
        self.pyr = nn.ModuleList([nn.Conv2d(c, c // 2, k, padding=k // 2) for k in (3, 5)])
        self.out = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x):
        a = F.leaky_relu(self.down(x), 0.1)
        b = F.interpolate(F.leaky_relu(self.mid(F.avg_pool2d(a, 2)), 0.1), scale_factor=2)
        u = F.leaky_relu(self.up(torch.cat([a, b], 1)), 0.1)
        return self.out(torch.cat([F.leaky_relu(p(u), 0.1) for p in self.pyr], 1))


class PatchDiscriminator(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2),
                                 nn.Conv2d(c, 2 * c, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(2 * c, 1, 3, padding=1))

    def forward(self, x):
        return self.net(x)


class BPPNet:
    def __init__(self, lr=2e-3):
        self.gen, self.dis = UNetPyramid(), PatchDiscriminator()
        self.gen_optimizer = torch.optim.Adam(self.gen.parameters(), lr=lr, betas=(0.5, 0.999))
        self.dis_optimizer = torch.optim.Adam(self.dis.parameters(), lr=lr / 4, betas=(0.5, 0.999))
        self.adversarial_loss = nn.MSELoss()

    def dis_loss(self, clear, fake):
        real, fake = self.dis(clear), self.dis(fake.detach())
        return 0.5 * (self.adversarial_loss(real, torch.ones_like(real)) + self.adversarial_loss(fake, torch.zeros_like(fake)))

    def gen_loss(self, clear, fake):
        pred = self.dis(fake)
        return F.l1_loss(fake, clear) + 0.01 * self.adversarial_loss(pred, torch.ones_like(pred))

    def process(self, hazy, clear):
        fake = self.gen(hazy)
        dis_loss = self.dis_loss(clear, fake)
        self.dis_optimizer.zero_grad()
        dis_loss.backward()
        self.dis_optimizer.step()

        gen_loss = self.gen_loss(clear, fake)
        self.gen_optimizer.zero_grad()
        gen_loss.backward()
        self.gen_optimizer.step()
        return gen_loss.item(), dis_loss.item()


def train(epochs):
    torch.manual_seed(13)
    loader = DataLoader(hazy_pairs(320, 0), batch_size=16, shuffle=True)
    val_x, val_y = hazy_pairs(64, 1).tensors
    model = BPPNet()
    for epoch in range(epochs):
        g_sum = d_sum = 0.0
        for hazy, clear in loader:
            g, d = model.process(hazy, clear)
            g_sum, d_sum = g_sum + g, d_sum + d
        with torch.no_grad():
            val = F.l1_loss(model.gen(val_x), val_y).item()
        print(f"epoch {epoch + 1}: gen loss {g_sum / len(loader):.4f}  dis loss {d_sum / len(loader):.4f}  val l1 {val:.4f}")


if __name__ == "__main__":
    train(epochs=6)
