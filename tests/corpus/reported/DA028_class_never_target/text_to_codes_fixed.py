import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

NUM_CODES = 16
CODE_LEN = 12
TEXT_LEN = 6
NUM_TOKENS = 24


def caption_to_codes(n, seed):
    """Captions name a pattern and two colours; images are already quantized into codebook indices."""
    pats = torch.randint(0, 2, (8, CODE_LEN), generator=torch.Generator().manual_seed(77))
    g = torch.Generator().manual_seed(seed)
    pattern = torch.randint(0, 8, (n,), generator=g)
    fg = torch.randint(0, NUM_CODES // 2, (n,), generator=g)
    bg = NUM_CODES // 2 + torch.randint(0, NUM_CODES // 2, (n,), generator=g)
    bg[torch.rand(n, generator=g) < 0.4] = 0
    filler = torch.randint(1, NUM_TOKENS, (n, TEXT_LEN - 3), generator=g)
    text = torch.cat([pattern[:, None], fg[:, None], bg[:, None], filler], dim=1)
    codes = torch.where(pats[pattern].bool(), fg[:, None], bg[:, None])
    return text, codes


class Parti(nn.Module):
    def __init__(self, dim=48, heads=4, depth=1):
        super().__init__()
        self.text_emb = nn.Embedding(NUM_TOKENS, dim)
        self.text_pos = nn.Parameter(torch.randn(TEXT_LEN, dim) * 0.02)
        enc = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(enc, 1, enable_nested_tensor=False)
        self.start = nn.Parameter(torch.randn(dim) * 0.02)
        self.image_emb = nn.Embedding(NUM_CODES, dim)
        self.image_pos = nn.Parameter(torch.randn(CODE_LEN, dim) * 0.02)
        dec = nn.TransformerDecoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(dec, depth)
        self.norm = nn.LayerNorm(dim)
        self.to_logits = nn.Linear(dim, NUM_CODES)
        self.register_buffer("causal", torch.ones(CODE_LEN, CODE_LEN).triu(1).bool())

    def forward(self, text, codes, return_loss=True):
        memory = self.encoder(self.text_emb(text) + self.text_pos)
        tokens = self.image_emb(codes[:, :-1])
        start = self.start.expand(codes.size(0), 1, -1)
        x = torch.cat([start, tokens], dim=1) + self.image_pos
        x = self.decoder(x, memory, tgt_mask=self.causal)
        logits = self.to_logits(self.norm(x))
        if not return_loss:
            return logits
        return F.cross_entropy(logits.transpose(1, 2), codes)


def train():
    torch.manual_seed(10)
    train_dl = DataLoader(TensorDataset(*caption_to_codes(2560, 0)), batch_size=64, shuffle=True)
    valid_dl = DataLoader(TensorDataset(*caption_to_codes(640, 1)), batch_size=128)
    model = Parti()
    optim = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    for epoch in range(5):
        model.train()
        total = 0.0
        for text, codes in train_dl:
            loss = model(text, codes)
            optim.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            total += loss.item()
        model.eval()
        right, n = 0, 0
        with torch.no_grad():
            for text, codes in valid_dl:
                pred = model(text, codes, return_loss=False).argmax(-1)
                right += (pred == codes).sum().item()
                n += codes.numel()
        print(f"epoch {epoch} loss {total / len(train_dl):.4f} valid code accuracy {right / n:.4f}")


if __name__ == "__main__":
    train()
