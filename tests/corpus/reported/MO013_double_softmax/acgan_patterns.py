import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

N_CLASSES, LATENT, IMG = 4, 16, 16


def render(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, N_CLASSES, (n,), generator=g)
    imgs = -0.8 * torch.ones(n, 1, IMG, IMG)
    off = torch.randint(-1, 2, (n, 2), generator=g)
    for i in range(n):
        r, c = 6 + off[i, 0], 6 + off[i, 1]
        if y[i] == 0:
            imgs[i, 0, r:r + 4, 2:14] = 0.8
        elif y[i] == 1:
            imgs[i, 0, 2:14, c:c + 4] = 0.8
        elif y[i] == 2:
            imgs[i, 0, r:r + 4, c:c + 4] = 0.8
        else:
            imgs[i, 0, 2:14, 2:14] = 0.8
            imgs[i, 0, r - 1:r + 5, c - 1:c + 5] = -0.8
    return (imgs + 0.08 * torch.randn(imgs.shape, generator=g)).clamp(-1, 1), y


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.label_emb = nn.Embedding(N_CLASSES, LATENT)
        self.l1 = nn.Linear(LATENT, 32 * 16)
        self.conv_blocks = nn.Sequential(
            nn.BatchNorm2d(32), nn.Upsample(scale_factor=2),
            nn.Conv2d(32, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(16, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 1, 3, padding=1), nn.Tanh())

    def forward(self, noise, labels):
        x = self.l1(self.label_emb(labels) * noise).view(-1, 32, 4, 4)
        return self.conv_blocks(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()

        def dblock(cin, cout):
            return [nn.Conv2d(cin, cout, 3, 2, 1), nn.LeakyReLU(0.2), nn.Dropout2d(0.2)]

        self.conv_blocks = nn.Sequential(*dblock(1, 8), *dblock(8, 16), *dblock(16, 32))
        ds = 32 * (IMG // 8) ** 2
        self.adv_layer = nn.Sequential(nn.Linear(ds, 1), nn.Sigmoid())
        self.aux_layer = nn.Sequential(nn.Linear(ds, N_CLASSES), nn.Softmax(dim=1))

    def forward(self, img):
        out = self.conv_blocks(img).flatten(1)
        return self.adv_layer(out), self.aux_layer(out)


class ACGAN(nn.Module):
    def __init__(self, lr=4e-4, betas=(0.5, 0.999)):
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=lr, betas=betas)
        self.opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=lr, betas=betas)

    @staticmethod
    def adversarial_loss(y_hat, y):
        return F.binary_cross_entropy(y_hat, y)

    @staticmethod
    def auxiliary_loss(y_hat, y):
        return F.cross_entropy(y_hat, y)

    def training_step(self, imgs, labels):
        n = imgs.size(0)
        valid, fake = torch.full((n, 1), 0.9), torch.full((n, 1), 0.1)

        z, gen_labels = torch.randn(n, LATENT), torch.randint(0, N_CLASSES, (n,))
        gen_imgs = self.generator(z, gen_labels)

        self.opt_d.zero_grad()
        real_pred, real_aux = self.discriminator(imgs)
        fake_pred, fake_aux = self.discriminator(gen_imgs.detach())
        d_real = (self.adversarial_loss(real_pred, valid) + self.auxiliary_loss(real_aux, labels)) / 2
        d_fake = (self.adversarial_loss(fake_pred, fake) + self.auxiliary_loss(fake_aux, gen_labels)) / 2
        d_loss = (d_real + d_fake) / 2
        d_loss.backward()
        self.opt_d.step()

        self.opt_g.zero_grad()
        validity, pred_label = self.discriminator(gen_imgs)
        g_loss = 0.5 * (self.adversarial_loss(validity, valid) + self.auxiliary_loss(pred_label, gen_labels))
        g_loss.backward()
        self.opt_g.step()
        return d_loss.item(), g_loss.item()


@torch.no_grad()
def class_accuracy(model, x, y):
    model.discriminator.eval()
    acc = (model.discriminator(x)[1].argmax(1) == y).float().mean().item()
    model.discriminator.train()
    return acc


def main():
    torch.manual_seed(7)
    x, y = render(640, 0)
    vx, vy = render(160, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
    model = ACGAN()
    for epoch in range(8):
        d_sum = g_sum = 0.0
        for imgs, labels in loader:
            d, g = model.training_step(imgs, labels)
            d_sum, g_sum = d_sum + d, g_sum + g
        print(f"epoch {epoch}  d_loss {d_sum / len(loader):.4f}  g_loss {g_sum / len(loader):.4f}  "
              f"class acc {class_accuracy(model, vx, vy):.3f}")


if __name__ == "__main__":
    main()
