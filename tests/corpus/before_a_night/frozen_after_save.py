"""Fine-tune a frozen encoder with PiSSA adapters: intent classification, adapters exported as plain LoRA at each save."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, LEN, INTENTS = 120, 16, 6


def make_data(n, seed):
    """An intent is a pair of cue tokens in a given order among distractors."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(20, VOCAB, (n, LEN), generator=g)
    y = torch.randint(0, INTENTS, (n,), generator=g)
    for i in range(n):
        a, b = sorted(torch.randperm(LEN, generator=g)[:2].tolist())
        c1, c2 = 1 + int(y[i]) // 2 * 2, 2 + int(y[i]) // 2 * 2
        x[i, a], x[i, b] = (c1, c2) if y[i] % 2 == 0 else (c2, c1)
    return x, y


class AdapterLinear(nn.Module):
    """Frozen residual weight plus a trainable low-rank part made of the principal singular vectors."""

    def __init__(self, base, rank):
        super().__init__()
        u, s, vt = torch.linalg.svd(base.weight.data, full_matrices=False)
        root = s[:rank].sqrt()
        self.lora_B = nn.Parameter(u[:, :rank] * root)
        self.lora_A = nn.Parameter(root.unsqueeze(1) * vt[:rank])
        self.weight = nn.Parameter(base.weight.data - self.lora_B.data @ self.lora_A.data, requires_grad=False)
        self.bias = nn.Parameter(base.bias.data.clone(), requires_grad=False)
        self.register_buffer("init_B", self.lora_B.data.clone())
        self.register_buffer("init_A", self.lora_A.data.clone())

    def forward(self, x):
        return F.linear(x, self.weight, self.bias) + F.linear(F.linear(x, self.lora_A), self.lora_B)

    def inject(self, inference_mode):
        """Load the initial adapter next to the current one."""
        self.lora_A.requires_grad_(not inference_mode)
        self.lora_B.requires_grad_(not inference_mode)
        return torch.cat([self.lora_B.data, -self.init_B], 1), torch.cat([self.lora_A.data, self.init_A], 0)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(h)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, dim), nn.Embedding(LEN, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, INTENTS)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.size(1)))
        for layer in self.layers:
            h = layer(h)
        return self.classifier(self.norm(h).mean(1))


def add_adapters(model, rank):
    model.requires_grad_(False)
    for layer in model.layers:
        for name in ("qkv", "proj", "up", "down"):
            setattr(layer, name, AdapterLinear(getattr(layer, name), rank))
    model.classifier.requires_grad_(True)


def save_converted_model(model, path):
    """The difference to the initial adapter, as a LoRA of twice the rank that fits the original weights."""
    lora = {}
    for name, m in model.named_modules():
        if isinstance(m, AdapterLinear):
            lora[f"{name}.B"], lora[f"{name}.A"] = m.inject(inference_mode=True)
    torch.save(lora, path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--max_steps", type=int, default=8000)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--learning_rate", type=float, default=1e-3)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--save_steps", type=int, default=10)
    p.add_argument("--eval_steps", type=int, default=20)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--output_dir", default="output")
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    os.makedirs(a.output_dir, exist_ok=True)

    x, y = make_data(3200, 1)
    ex, ey = make_data(256, 2)
    model = Encoder()
    add_adapters(model, a.rank)
    params = [q for q in model.parameters() if q.requires_grad]
    opt = torch.optim.AdamW(params, lr=a.learning_rate, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10) * max(0.0, 1 - s / a.max_steps))
    ckpt, step = os.path.join(a.output_dir, "checkpoint.pt"), 0
    if os.path.exists(ckpt):
        c = torch.load(ckpt)
        model.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        torch.set_rng_state(c["rng"])
        step = c["step"]
    per_epoch = len(x) // a.batch_size
    while step < a.max_steps:
        epoch, pos = divmod(step, per_epoch)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(a.seed + epoch))
        idx = order[pos * a.batch_size:(pos + 1) * a.batch_size]
        model.train()
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        gn = nn.utils.clip_grad_norm_([q for q in model.parameters() if q.grad is not None], 1.0)
        opt.step()
        sched.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} grad_norm {gn.item():.3f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        if step % a.eval_steps == 0:
            model.eval()
            with torch.no_grad():
                out = model(ex)
            print(f"step {step} eval loss {F.cross_entropy(out, ey).item():.4f} "
                  f"acc {(out.argmax(1) == ey).float().mean().item():.3f}", flush=True)
        if step % a.save_steps == 0:
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                        "rng": torch.get_rng_state(), "step": step}, ckpt)
            save_converted_model(model, os.path.join(a.output_dir, "adapter_lora.pt"))


if __name__ == "__main__":
    main()
