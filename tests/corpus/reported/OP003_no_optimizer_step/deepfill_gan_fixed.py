import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.LeakyReLU(0.2))


class GatedGenerator(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.enc = nn.Sequential(conv(2, c), conv(c, 2 * c, 2), conv(2 * c, 2 * c))
        self.gate = nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.dec = nn.Sequential(nn.Upsample(scale_factor=2), conv(2 * c, c), nn.Conv2d(c, 1, 3, padding=1), nn.Tanh())

    def forward(self, img, mask):
        x = self.enc(torch.cat([img * (1 - mask), mask], 1))
        return self.dec(x * torch.sigmoid(self.gate(x)))


class PatchDiscriminator(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.net = nn.Sequential(conv(2, c), conv(c, 2 * c, 2), conv(2 * c, 2 * c, 2), nn.Conv2d(2 * c, 1, 3, padding=1))

    def forward(self, img, mask):
        return self.net(torch.cat([img, mask], 1))


def waves(n, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    ang, ph = 3.14 * torch.rand(n, 1, 1, generator=g), 6.28 * torch.rand(n, 1, 1, generator=g)
    r = torch.arange(size, dtype=torch.float32)
    x = torch.sin(0.7 * (torch.cos(ang) * r[None, None, :] + torch.sin(ang) * r[None, :, None]) + ph)
    mask = torch.zeros(n, 1, size, size)
    pos = torch.randint(3, size - 8, (n, 2), generator=g)
    for i, (a, b) in enumerate(pos.tolist()):
        mask[i, :, a:a + 5, b:b + 5] = 1
    return TensorDataset(0.9 * x.unsqueeze(1), mask)


def WGAN_trainer(epochs=8, batch_size=16, lr_g=1e-3, lr_d=4e-4, lambda_l1=10.0, lambda_gan=0.1):
    torch.manual_seed(0)
    generator, discriminator = GatedGenerator(), PatchDiscriminator()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=lr_g, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=lr_d, betas=(0.5, 0.999))
    L1Loss = nn.L1Loss()
    MSELoss = nn.MSELoss()
    dataloader = DataLoader(waves(320, 1), batch_size=batch_size, shuffle=True)
    val_img, val_mask = waves(64, 2).tensors

    for epoch in range(epochs):
        sums = [0.0, 0.0, 0.0]
        for img, mask in dataloader:
            # Train discriminator
            optimizer_d.zero_grad()
            out = generator(img, mask)
            whole = img * (1 - mask) + out * mask
            fake_scalar = discriminator(whole.detach(), mask)
            true_scalar = discriminator(img, mask)
            loss_D = 0.5 * (MSELoss(true_scalar, torch.ones_like(true_scalar))
                            + MSELoss(fake_scalar, torch.zeros_like(fake_scalar)))
            loss_D.backward()
            optimizer_d.step()

            # Train generator
            optimizer_g.zero_grad()
            loss_L1 = L1Loss(out, img)
            fake_scalar = discriminator(whole, mask)
            loss_GAN = MSELoss(fake_scalar, torch.ones_like(fake_scalar))
            loss = lambda_l1 * loss_L1 + lambda_gan * loss_GAN
            loss.backward()
            optimizer_g.step()
            for k, v in enumerate((loss_L1, loss_D, loss_GAN)):
                sums[k] += v.item() / len(dataloader)
        with torch.no_grad():
            out = generator(val_img, val_mask)
            hole = ((out - val_img).abs() * val_mask).sum() / val_mask.sum()
        print("[Epoch %d/%d] [L1 %.4f] [D Loss: %.4f] [G Loss: %.4f] [val hole l1 %.4f]" % (
            epoch + 1, epochs, sums[0], sums[1], sums[2], hole.item()))


if __name__ == "__main__":
    WGAN_trainer()
