"""Simple transformer translator on a generated English to German corpus."""
import math
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed(4)
np.random.seed(4)
random.seed(4)


class SelfAttention(nn.Module):
    def __init__(self, embed_dim, d_k, d_v, mask=False):
        super(SelfAttention, self).__init__()
        self.query_embed = nn.Linear(embed_dim, d_k)
        self.key_embed = nn.Linear(embed_dim, d_k)
        self.value_embed = nn.Linear(embed_dim, d_v)
        self.d_k = d_k
        self.mask = mask
        self.dropout = nn.Dropout(0.1)

    def forward(self, query_in, key_in, value_in):
        query = self.query_embed(query_in)
        key = self.key_embed(key_in)
        value = self.value_embed(value_in)
        attention_weights = torch.matmul(query, torch.transpose(key, 1, 2)) / math.sqrt(self.d_k)
        if self.mask:
            indices = torch.triu_indices(attention_weights.shape[1], attention_weights.shape[2], offset=1)
            attention_weights[:, indices[0], indices[1]] = float("-inf")
        attention_weights = F.softmax(attention_weights, dim=2)
        return self.dropout(torch.matmul(attention_weights, value))


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super(LayerNorm, self).__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.scale * (x - mean) / (std + self.eps) + self.shift


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim, d_k, d_v, num_heads, mask=False):
        super(MultiHeadAttention, self).__init__()
        self.attention_blocks = nn.ModuleList([SelfAttention(embed_dim, d_k, d_v, mask) for _ in range(num_heads)])
        self.norm = LayerNorm(embed_dim)

    def forward(self, query, key, value, residual_x):
        attention_out = torch.cat([attention(query, key, value) for attention in self.attention_blocks], dim=2)
        return self.norm(attention_out + residual_x)


class PositionWiseFeedForward(nn.Module):
    def __init__(self, embed_dim, output_dim):
        super(PositionWiseFeedForward, self).__init__()
        self.l1 = nn.Linear(embed_dim, output_dim)
        self.RELU = nn.ReLU()
        self.l2 = nn.Linear(output_dim, embed_dim)
        self.norm = LayerNorm(embed_dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, residual_x):
        x = self.dropout(self.l2(self.RELU(self.l1(x))))
        return self.norm(x + residual_x)


class TransformerBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, mask=False):
        super(TransformerBlock, self).__init__()
        self.multi_head_attention = MultiHeadAttention(embed_dim, embed_dim // num_heads, embed_dim // num_heads,
                                                       num_heads, mask)
        self.feed_forward = PositionWiseFeedForward(embed_dim, embed_dim)

    def forward(self, query, key, value, residual_x):
        attention_out = self.multi_head_attention(query, key, value, residual_x)
        return self.feed_forward(attention_out, attention_out)


class VocabLogits(nn.Module):
    def __init__(self, embed_dim, logit_dim):
        super(VocabLogits, self).__init__()
        self.linear = nn.Linear(embed_dim, logit_dim)

    def forward(self, x):
        return F.log_softmax(self.linear(x), dim=-1)


class PositionalEncoding(nn.Module):
    def __init__(self, embed_dim, max_len=200):
        super(PositionalEncoding, self).__init__()
        pe = torch.zeros(max_len, embed_dim)
        position = torch.arange(0, max_len).unsqueeze(1)
        pe[:, 0::2] = torch.sin(position / torch.pow(10000.0, torch.arange(0, embed_dim, 2).float() / embed_dim))
        pe[:, 1::2] = torch.cos(position / torch.pow(10000.0, torch.arange(1, embed_dim, 2).float() / embed_dim))
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Embeddings(nn.Module):
    def __init__(self, vocab_length, embed_dim):
        super(Embeddings, self).__init__()
        self.lut = nn.Embedding(vocab_length, embed_dim)
        self.pos_encode = PositionalEncoding(embed_dim)

    def forward(self, x):
        return self.pos_encode(self.lut(x))


class Encoder(nn.Module):
    def __init__(self, embed_dim, num_heads, num_blocks):
        super(Encoder, self).__init__()
        self.transformer_blocks = nn.ModuleList(
            [TransformerBlock(embed_dim, num_heads, mask=False) for _ in range(num_blocks)])
        self.positional_encoding = PositionalEncoding(embed_dim)

    def forward(self, x):
        x = self.positional_encoding(x)
        for block in self.transformer_blocks:
            x = block(x, x, x, x)
        return x


class Decoder(nn.Module):
    def __init__(self, embed_dim, num_heads, num_blocks, vocab_size):
        super(Decoder, self).__init__()
        self.multi_head_attention = MultiHeadAttention(embed_dim, embed_dim // num_heads, embed_dim // num_heads,
                                                       num_heads, mask=False)
        self.transformer_blocks = nn.ModuleList(
            [TransformerBlock(embed_dim, num_heads, mask=False) for _ in range(num_blocks)])
        self.vocab_logits = VocabLogits(embed_dim, vocab_size)

    def forward(self, encoder_outs, x):
        for block in self.transformer_blocks:
            attention_out = self.multi_head_attention(query=x[:, -1:, :], key=x, value=x, residual_x=x[:, -1:, :])
            x = block(query=attention_out, key=encoder_outs, value=encoder_outs, residual_x=attention_out)
        return self.vocab_logits(x)


class TransformerTranslator(nn.Module):
    def __init__(self, embed_dim, num_blocks, num_heads, encoder_vocab_size, output_vocab_size):
        super(TransformerTranslator, self).__init__()
        self.encoder_embedding = Embeddings(encoder_vocab_size, embed_dim)
        self.output_embedding = Embeddings(output_vocab_size, embed_dim)
        self.encoder = Encoder(embed_dim, num_heads, num_blocks)
        self.decoder = Decoder(embed_dim, num_heads, num_blocks, output_vocab_size)

    def encode(self, input_sequence):
        self.encode_out = self.encoder(self.encoder_embedding(input_sequence))

    def forward(self, output_sequence):
        return self.decoder(self.encode_out, self.output_embedding(output_sequence))


class EnglishToGermanDataset(torch.utils.data.Dataset):
    def __init__(self, n_sentences, seed, min_len=8, english_words=40):
        rng = np.random.RandomState(seed)
        lexicon = np.random.RandomState(8).permutation(english_words) + 3
        gender = np.random.RandomState(9).randint(0, 3, english_words)
        self.english_vocab_len = english_words + 2
        self.german_vocab_len = english_words + 6
        self.start, self.eos = 0, 1
        self.items = []
        for _ in range(n_sentences):
            length = rng.randint(4, min_len + 1)
            english = rng.randint(1, english_words, length)
            english[:-1][rng.rand(length - 1) < 0.25] = 0
            german = lexicon[english].copy()
            articles = np.where(english == 0)[0]
            german[articles] = english_words + 3 + gender[english[np.minimum(articles + 1, length - 1)]]
            english = np.concatenate([english + 2, np.full(min_len - length, self.eos)])
            german = np.concatenate([[self.start], german, np.full(min_len - length, self.eos)])
            logit_mask = torch.ones(len(german), 1, dtype=torch.bool)
            logit_mask[length + 1:] = 0
            self.items.append((torch.from_numpy(english), torch.from_numpy(german), logit_mask))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        english, german, logit_mask = self.items[idx]
        return {"english": english, "german": german, "logit_mask": logit_mask,
                "logits": F.one_hot(german, self.german_vocab_len).float()}


def run_batch(model, item, criterion):
    model.encode(item["english"])
    all_outs = torch.cat([model(item["german"][:, : i + 1]) for i in range(item["german"].shape[1] - 1)], dim=1)
    hits = (all_outs.argmax(-1) == item["german"][:, 1:]) & item["logit_mask"][:, 1:, 0]
    all_outs = all_outs * item["logit_mask"][:, 1:, :]
    logits = item["logits"] * item["logit_mask"]
    loss = criterion(all_outs, logits[:, 1:, :])
    return loss, hits.sum().item() / item["logit_mask"][:, 1:].sum().item()


def main():
    batch_size, embed_dim, num_blocks, num_heads, num_epochs, learning_rate = 64, 64, 2, 4, 6, 2e-3
    checkpoints = tempfile.mkdtemp(prefix="translator_")
    dataset, dataset_test = EnglishToGermanDataset(3200, 1), EnglishToGermanDataset(320, 2)
    dataloader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)
    dataloader_test = torch.utils.data.DataLoader(dataset_test, batch_size=batch_size)
    model = TransformerTranslator(embed_dim, num_blocks, num_heads, dataset.english_vocab_len, dataset.german_vocab_len)
    optimizer = optim.Adam(model.parameters(), lr=learning_rate)
    criterion = nn.KLDivLoss(reduction="batchmean")
    num_steps, train_losses, test_losses = 0, [], []

    for epoch in range(num_epochs):
        running_loss = []
        model.train()
        for item in dataloader:
            optimizer.zero_grad()
            loss, _ = run_batch(model, item, criterion)
            loss.backward()
            optimizer.step()
            running_loss.append(loss.item())
            num_steps += 1
            if num_steps % 25 == 0:
                print(f"step {num_steps} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            results = [run_batch(model, item, criterion) for item in dataloader_test]
        train_losses.append(np.mean(running_loss))
        test_losses.append(np.mean([r[0].item() for r in results]))
        print(f"TRAIN LOSS {train_losses[-1]:.4f} | TEST LOSS {test_losses[-1]:.4f} | "
              f"TEST WORDS {np.mean([r[1] for r in results]):.3f} | EPOCH {epoch}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "num_steps": num_steps,
                    "train_losses": train_losses, "test_losses": test_losses},
                   os.path.join(checkpoints, "Checkpoint" + str(num_steps) + ".pkl"))


if __name__ == "__main__":
    main()
