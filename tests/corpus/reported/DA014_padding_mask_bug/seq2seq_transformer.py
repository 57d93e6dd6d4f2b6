import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SRC_PAD, TRG_PAD, SOS, EOS = 1, 0, 1, 2
WORDS, MAXLEN = 14, 8


def sentences(n, seed):
    """Translate by reversing the sentence."""
    g = torch.Generator().manual_seed(seed)
    src = torch.full((n, MAXLEN), SRC_PAD)
    trg = torch.full((n, MAXLEN + 2), TRG_PAD)
    for i in range(n):
        k = int(torch.randint(4, MAXLEN + 1, (1,), generator=g))
        w = torch.randint(3, 3 + WORDS, (k,), generator=g)
        src[i, :k] = w
        trg[i, 0] = SOS
        trg[i, 1:k + 1] = w.flip(0)
        trg[i, k + 1] = EOS
    return TensorDataset(src, trg)


class MultiHeadAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d, d) for _ in range(4))

    def split(self, x):
        b, l, d = x.shape
        return x.view(b, l, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, q, k, v, mask):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        score = q @ k.transpose(2, 3) / math.sqrt(q.size(-1))
        score = score.masked_fill(mask == 0, -10000)
        out = torch.softmax(score, -1) @ v
        return self.w_o(out.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, d, heads, cross):
        super().__init__()
        self.attention = MultiHeadAttention(d, heads)
        self.norm1 = nn.LayerNorm(d)
        self.cross = MultiHeadAttention(d, heads) if cross else None
        self.norm2 = nn.LayerNorm(d) if cross else None
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.norm3 = nn.LayerNorm(d)

    def forward(self, x, mask, memory=None, cross_mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, mask)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory, memory, cross_mask)
        return x + self.ffn(self.norm3(x))


class Transformer(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.src_embed, self.trg_embed = nn.Embedding(WORDS + 3, d), nn.Embedding(WORDS + 3, d)
        self.pos = nn.Parameter(torch.randn(1, MAXLEN + 2, d) * 0.3)
        self.encoder, self.decoder = Layer(d, heads, False), Layer(d, heads, True)
        self.linear = nn.Linear(d, WORDS + 3)

    def forward(self, src, trg):
        src_mask = self.make_pad_mask(src, src, SRC_PAD, SRC_PAD)
        src_trg_mask = self.make_pad_mask(trg, src, TRG_PAD, SRC_PAD)
        trg_mask = self.make_pad_mask(trg, trg, TRG_PAD, TRG_PAD) & self.make_no_peak_mask(trg)
        memory = self.encoder(self.src_embed(src) + self.pos[:, :src.size(1)], src_mask)
        out = self.decoder(self.trg_embed(trg) + self.pos[:, :trg.size(1)], trg_mask, memory, src_trg_mask)
        return self.linear(out)

    def make_pad_mask(self, q, k, q_pad_idx, k_pad_idx):
        k = k.ne(SRC_PAD)[:, None, None, :]
        q = q.ne(SRC_PAD)[:, None, :, None]
        return k & q

    def make_no_peak_mask(self, x):
        n = x.size(1)
        return torch.tril(torch.ones(n, n, dtype=torch.bool))


def main():
    torch.manual_seed(0)
    train_iter = DataLoader(sentences(3000, 1), batch_size=50, shuffle=True)
    valid_iter = DataLoader(sentences(300, 2), batch_size=150)
    model = Transformer()
    criterion = nn.CrossEntropyLoss(ignore_index=TRG_PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(src, trg):
        out = model(src, trg[:, :-1])
        return criterion(out.reshape(-1, out.size(-1)), trg[:, 1:].reshape(-1))

    for epoch in range(9):
        model.train()
        total = 0.0
        for src, trg in train_iter:
            optimizer.zero_grad()
            loss = loss_of(src, trg)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            valid = sum(loss_of(s, t).item() for s, t in valid_iter) / len(valid_iter)
        print(f"Epoch {epoch + 1} train {total / len(train_iter):.4f} valid {valid:.4f} ppl {math.exp(valid):.2f}")


if __name__ == "__main__":
    main()
