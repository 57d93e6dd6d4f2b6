"""Learned image watermark that survives JPEG: encoder, differentiable JPEG layer, decoder."""
import argparse
import math
import os
import random
from typing import Any

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function


class ClippingSTE(Function):
    """Hard clipping in the forward pass, soft clipping as surrogate in the backward pass."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, min: float, max: float, scale: float) -> Tensor:
        ctx.save_for_backward(input)
        ctx.min, ctx.max, ctx.scale = min, max, scale
        return input.clip(min=min, max=max)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor):
        (input,) = ctx.saved_tensors
        grad = torch.where(torch.logical_and(input >= ctx.min, input <= ctx.max), 1.0, ctx.scale) * grad_output
        return grad, None, None, None


class RoundingSTE(Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor) -> Tensor:
        return torch.round(input)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


def clip_image(x: Tensor) -> Tensor:
    return ClippingSTE.apply(x, 0.0, 255.0, 1e-3)


class DiffJPEG(nn.Module):
    """Luminance JPEG: 8x8 DCT, quantisation, inverse DCT."""

    def __init__(self, quality: int = 70):
        super().__init__()
        n = torch.arange(8, dtype=torch.float32)
        dct = torch.cos((2 * n[None, :] + 1) * n[:, None] * math.pi / 16) * 0.5
        dct[0] *= math.sqrt(0.5)
        self.register_buffer("dct", dct)
        table = torch.tensor([[16, 11, 10, 16, 24, 40, 51, 61], [12, 12, 14, 19, 26, 58, 60, 55],
                              [14, 13, 16, 24, 40, 57, 69, 56], [14, 17, 22, 29, 51, 87, 80, 62],
                              [18, 22, 37, 56, 68, 109, 103, 77], [24, 35, 55, 64, 81, 104, 113, 92],
                              [49, 64, 78, 87, 103, 121, 120, 101], [72, 92, 95, 98, 112, 100, 103, 99]], dtype=torch.float32)
        factor = 5000.0 / quality if quality < 50 else 200.0 - 2 * quality
        self.register_buffer("table", ((table * factor + 50) / 100).floor().clamp(1, 255))

    def forward(self, image: Tensor) -> Tensor:
        b, _, h, w = image.shape
        blocks = (image - 128).view(b, h // 8, 8, w // 8, 8).permute(0, 1, 3, 2, 4)
        coeff = self.dct @ blocks @ self.dct.t()
        coeff = RoundingSTE.apply(coeff / self.table) * self.table
        blocks = self.dct.t() @ coeff @ self.dct
        out = blocks.permute(0, 1, 3, 2, 4).reshape(b, 1, h, w) + 128
        return clip_image(out)


def conv(cin: int, cout: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU())


class Encoder(nn.Module):
    def __init__(self, bits: int, width: int = 24):
        super().__init__()
        self.features = nn.Sequential(conv(1, width), conv(width, width))
        self.message = nn.Linear(bits, 2 * 8 * 8)
        self.mix = nn.Sequential(conv(width + 3, width), conv(width, width), nn.Conv2d(width, 1, 1))

    def forward(self, image: Tensor, bits: Tensor) -> Tensor:
        # the message is spread as two 8x8 patterns that are repeated over the image
        pattern = self.message(bits * 2 - 1).view(-1, 2, 8, 8).repeat(1, 1, image.size(2) // 8, image.size(3) // 8)
        normed = image / 127.5 - 1
        residual = pattern.mean(1, keepdim=True) + self.mix(torch.cat([self.features(normed), pattern, normed], dim=1))
        return clip_image(image + 12.0 * residual)


class Decoder(nn.Module):
    def __init__(self, bits: int, width: int = 24):
        super().__init__()
        self.net = nn.Sequential(conv(1, width), conv(width, width), nn.Conv2d(width, width, 8, stride=8),
                                 nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, bits))

    def forward(self, image: Tensor) -> Tensor:
        # the content of the photo is smooth: look at what sticks out of the surroundings
        local = F.avg_pool2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), 5, stride=1)
        return self.net((image - local) / 16.0)


def make_photos(n: int, size: int, gen: torch.Generator) -> Tensor:
    """Smooth scenes with strong light: bright skies and deep shadows reach 255 and 0."""
    coarse = F.interpolate(torch.randn(n, 1, 5, 5, generator=gen), size=(size, size), mode="bicubic", align_corners=True)
    fine = F.interpolate(torch.randn(n, 1, 12, 12, generator=gen), size=(size, size), mode="bilinear", align_corners=True)
    exposure = torch.rand(n, 1, 1, 1, generator=gen) * 160 + 40
    photo = exposure + 90 * coarse + 18 * fine + 3 * torch.randn(n, 1, size, size, generator=gen)
    return photo.round().clamp(0, 255)


@torch.no_grad()
def validate(encoder, jpeg, decoder, photos, bits):
    encoder.eval(), decoder.eval()
    marked = encoder(photos, bits)
    accuracy = ((decoder(jpeg(marked.round())) > 0) == bits.bool()).float().mean().item()
    psnr = 10 * math.log10(255 ** 2 / F.mse_loss(marked, photos).item())
    encoder.train(), decoder.train()
    return accuracy, psnr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=20000)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--bits", type=int, default=12)
    parser.add_argument("--quality", type=int, default=70)
    parser.add_argument("--image-weight", type=float, default=2e-3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", default="watermark")
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    gen = torch.Generator().manual_seed(args.seed)
    photos = make_photos(4000, args.size, gen)
    val_photos = make_photos(128, args.size, gen)
    val_bits = torch.randint(0, 2, (128, args.bits), generator=gen).float()

    encoder, jpeg, decoder = Encoder(args.bits), DiffJPEG(args.quality), Decoder(args.bits)
    params = list(encoder.parameters()) + list(decoder.parameters())
    optimizer = torch.optim.Adam(params, lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.iterations)
    for it in range(1, args.iterations + 1):
        idx = torch.randint(0, len(photos), (args.batch_size,), generator=gen)
        image = photos[idx]
        bits = torch.randint(0, 2, (args.batch_size, args.bits), generator=gen).float()
        marked = encoder(image, bits)
        logits = decoder(jpeg(marked))
        bit_loss = F.binary_cross_entropy_with_logits(logits, bits)
        # let the message settle first, then ask for invisibility
        weight = args.image_weight * min(1.0, it / 3000)
        image_loss = F.mse_loss(marked, image)
        loss = bit_loss + weight * image_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 50 == 0:
            print(f"{it:6d} bits {bit_loss.item():.4f} mse {image_loss.item():.2f}", flush=True)
        if it % 500 == 0:
            accuracy, psnr = validate(encoder, jpeg, decoder, val_photos, val_bits)
            print(f"{it:6d} bit accuracy {accuracy:.4f} psnr {psnr:.2f}", flush=True)
            torch.save({"it": it, "encoder": encoder.state_dict(), "decoder": decoder.state_dict(),
                        "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, f"{args.out}/last.pt")


if __name__ == "__main__":
    main()
