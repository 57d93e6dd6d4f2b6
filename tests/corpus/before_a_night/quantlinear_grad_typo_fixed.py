"""Low-rank adapters on a frozen 4-bit quantised causal transformer (toy instruction log)."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, LENGTH = 48, 32


class QuantLinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, qweight, scales, zeros):
        weight = (qweight.to(x.dtype) - zeros.to(x.dtype)) * scales.to(x.dtype)
        ctx.save_for_backward(qweight, scales, zeros)
        ctx.input_shape = x.shape
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad_output):
        qweight, scales, zeros = ctx.saved_tensors
        grad_input = None

        if ctx.needs_input_grad[0]:
            weight = (qweight.to(grad_output.dtype) - zeros.to(grad_output.dtype)) * scales.to(grad_output.dtype)
            grad_input = (grad_output @ weight).view(ctx.input_shape)
        return grad_input, None, None, None


class QuantLinear(nn.Module):
    def __init__(self, cin, cout, bits=4):
        super().__init__()
        weight = torch.randn(cout, cin) / math.sqrt(cin)
        low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
        scales = (high - low) / (2 ** bits - 1)
        zeros = torch.round(-low / scales)
        q = torch.clamp(torch.round(weight / scales) + zeros, 0, 2 ** bits - 1)
        self.register_buffer("qweight", q.to(torch.uint8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)

    def forward(self, x):
        return QuantLinearFunction.apply(x, self.qweight, self.scales, self.zeros)


class LoraQuantLinear(nn.Module):
    def __init__(self, cin, cout, rank=16, alpha=32):
        super().__init__()
        self.base = QuantLinear(cin, cout)
        self.lora_a = nn.Parameter(torch.randn(rank, cin) / math.sqrt(cin))
        self.lora_b = nn.Parameter(torch.zeros(cout, rank))
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.t()) @ self.lora_b.t() * self.scaling


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q_proj, self.v_proj = LoraQuantLinear(dim, dim), LoraQuantLinear(dim, dim)
        self.k_proj, self.o_proj = QuantLinear(dim, dim), QuantLinear(dim, dim)
        self.up_proj, self.down_proj = LoraQuantLinear(dim, 2 * dim), QuantLinear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down_proj(F.gelu(self.up_proj(self.norm2(x))))


class QuantLM(nn.Module):
    def __init__(self, dim=64, layers=2, heads=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, dim), nn.Embedding(LENGTH, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, VOCAB, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def make_logs(n, rng):
    """Second-order grammar: the next token is a function of the last two, with some free choices."""
    ids = np.zeros((n, LENGTH + 1), dtype=np.int64)
    ids[:, :2] = rng.integers(0, VOCAB, (n, 2))
    for t in range(2, LENGTH + 1):
        nxt = (3 * ids[:, t - 1] + 7 * (ids[:, t - 2] % 4) + 5) % VOCAB
        free = rng.random(n) < 0.1
        ids[:, t] = np.where(free, rng.integers(0, VOCAB, n), nxt)
    return torch.from_numpy(ids)


def lm_loss(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=4)
    p.add_argument("--adapter", default="adapter.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    train, val = make_logs(960, rng), make_logs(160, rng)

    model = QuantLM()
    trainable = [q for q in model.parameters() if q.requires_grad]
    print(f"{sum(q.numel() for q in trainable)} trainable parameters")
    optimizer = torch.optim.AdamW(trainable, lr=args.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=args.epochs)
    start = 0
    if os.path.exists(args.adapter):
        ck = torch.load(args.adapter)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        start = ck["epoch"] + 1
    for epoch in range(start, args.epochs):
        model.train()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(args.seed * 31 + epoch))
        for step, idx in enumerate(order.split(args.batch_size)):
            loss = lm_loss(model, train[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trainable, 1.0)
            optimizer.step()
            if step % 6 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            print(f"epoch {epoch} val loss {lm_loss(model, val).item():.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch}, args.adapter)


if __name__ == "__main__":
    main()
