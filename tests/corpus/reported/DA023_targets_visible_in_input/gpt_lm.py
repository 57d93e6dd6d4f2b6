"""Fine-tune a small GPT on token blocks."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class BlockDataset(Dataset):
    """Blocks cut from a corpus written by a second order word model."""

    def __init__(self, n_blocks, block, vocab, seed):
        table_gen = torch.Generator().manual_seed(99)
        table = torch.randint(0, vocab, (vocab, 4, 3), generator=table_gen)
        gen = torch.Generator().manual_seed(seed)
        tokens = torch.zeros(n_blocks, block, dtype=torch.long)
        tokens[:, :2] = torch.randint(0, vocab, (n_blocks, 2), generator=gen)
        for t in range(2, block):
            pick = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), n_blocks, replacement=True, generator=gen)
            tokens[:, t] = table[tokens[:, t - 1], tokens[:, t - 2] % 4, pick]
        self.tokens = tokens

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(b, t, 3, self.heads, d // self.heads).unbind(2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln_2(x))


class GPT2LMHeadModel(nn.Module):
    def __init__(self, vocab, block, dim=48, heads=4, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(block, dim)
        self.h = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.apply(self._init_weights)

    @staticmethod
    def _init_weights(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.05)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, input_ids, lm_labels=None):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.size(1)))
        for layer in self.h:
            x = layer(x)
        lm_logits = self.lm_head(self.ln_f(x))
        if lm_labels is not None:
            loss_fct = nn.CrossEntropyLoss()
            loss = loss_fct(lm_logits.view(-1, lm_logits.size(-1)), lm_labels.view(-1))
            return loss
        return lm_logits


def evaluate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch in loader:
            total += model(batch, lm_labels=batch).item()
    model.train()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=48)
    parser.add_argument("--block", type=int, default=24)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    train_loader = DataLoader(BlockDataset(2560, args.block, args.vocab, 1), batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(BlockDataset(200, args.block, args.vocab, 2), batch_size=100)
    model = GPT2LMHeadModel(args.vocab, args.block)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = len(train_loader) * args.epochs
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 20) * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * s / steps))))

    step = 0
    for epoch in range(args.epochs):
        for batch in train_loader:
            loss = model(batch, lm_labels=batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}")
            step += 1
        valid = evaluate(model, valid_loader)
        print(f"epoch {epoch} valid loss {valid:.4f} ppl {math.exp(valid):.2f}")


if __name__ == "__main__":
    main()
