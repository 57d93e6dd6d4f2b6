"""Sequential recommendation with a debiased contrastive objective."""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

configs = {'item_num': 800, 'max_seq_len': 16, 'embedding_size': 32, 'n_heads': 2, 'n_layers': 1, 'dropout_rate': 0.1,
           'cl_lambda': 1e-3, 'cl_temp': 0.8, 'weight_mean': 0.4, 'kl_weight': 1e-2, 'batch_size': 128, 'lr': 1e-3}

def make_sequences(n_users, seed):
    """Every user walks through one of 40 genres; the next item is one of a few successors of the last one."""
    rng = np.random.default_rng(seed)
    n, genres = configs['item_num'], 40
    genre_items = rng.permutation(n).reshape(genres, -1) + 1
    successors = np.zeros((n + 1, 4), dtype=np.int64)
    for members in genre_items:
        for item in members:
            successors[item] = rng.choice(members, 4, replace=False)
    seqs = []
    for _ in range(n_users):
        seq = [item := rng.choice(genre_items[rng.integers(genres)])]
        for _ in range(rng.integers(5, 20)):
            item = rng.choice(successors[item], p=[0.5, 0.25, 0.15, 0.1]) if rng.random() > 0.1 else rng.integers(1, n + 1)
            seq.append(item)
        seqs.append(np.array(seq))
    return seqs

class SequentialDataset(Dataset):
    def __init__(self, seqs, part):
        self.samples = []
        L = configs['max_seq_len']
        for s in seqs:
            for e in range(2, len(s) - 1) if part == 'train' else [len(s) - 1]:
                x = np.zeros(L, dtype=np.int64)
                h = s[max(0, e - L):e]
                x[-len(h):] = h
                self.samples.append((x, s[e]))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]

class CLLayer(nn.Module):
    def __init__(self, tau):
        super().__init__()
        self.tau = tau

    def vanilla_loss(self, z1, z2):
        sim = torch.exp(F.normalize(z1) @ F.normalize(z2).t() / self.tau)
        return -torch.log(1e-8 + sim.diag() / sim.sum(1))

def cal_kl_1(target, input):
    target = target.clamp(min=1e-8).log()
    return F.kl_div(F.log_softmax(input, dim=0), target, log_target=True, reduction='batchmean')

class DCRec_seq(nn.Module):
    def __init__(self, adj):
        super().__init__()
        d, self.weight_mean, self.kl_weight = configs['embedding_size'], configs['weight_mean'], configs['kl_weight']
        self.register_buffer('adj', adj)
        self.token_emb = nn.Embedding(configs['item_num'] + 1, d, padding_idx=0)
        self.pos_emb = nn.Embedding(configs['max_seq_len'], d)
        layer = nn.TransformerEncoderLayer(d, configs['n_heads'], 4 * d, configs['dropout_rate'], batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, configs['n_layers'], enable_nested_tensor=False)
        self.layernorm, self.dropout = nn.LayerNorm(d), nn.Dropout(configs['dropout_rate'])
        self.contrastive_learning_layer = CLLayer(configs['cl_temp'])
        self.fuse = nn.Parameter(torch.zeros(2))
        nn.init.normal_(self.token_emb.weight, std=0.02)

    def gcn_forward(self):
        item_emb = self.dropout(self.token_emb.weight)
        return self.layernorm(self.adj @ item_emb + item_emb)

    def encode(self, seqs):
        x = self.token_emb(seqs) + self.pos_emb.weight
        return self.transformer(self.dropout(x), src_key_padding_mask=seqs == 0)[:, -1]

    def fused(self, seq_output, adj_last):
        return torch.einsum('k,kbd->bd', self.fuse.softmax(0), torch.stack([seq_output, adj_last]))

    def _subgraph_agreement(self, a, b):
        agreement = torch.sigmoid(F.cosine_similarity(a, b, eps=1e-12))
        agreement = (agreement - agreement.min()) / (agreement.max() - agreement.min())
        return (self.weight_mean / agreement.mean()) * agreement

    def cal_loss(self, batch_seqs, batch_pos_items):
        adj_last, aug_last = (self.gcn_forward()[batch_seqs[:, -1]] for _ in range(2))
        seq_output, aug_seq_output = self.encode(batch_seqs), self.encode(batch_seqs)

        mainstream_weights = self._subgraph_agreement(adj_last, aug_last)
        expected_weights_distribution = torch.normal(self.weight_mean, 0.1, size=mainstream_weights.size()).sort()[0]
        kl_loss = self.kl_weight * cal_kl_1(expected_weights_distribution, mainstream_weights.sort()[0])
        cl_loss = self.contrastive_learning_layer.vanilla_loss(aug_seq_output, adj_last)
        cl_loss = (configs['cl_lambda'] * mainstream_weights * cl_loss).mean()
        logits = self.fused(seq_output, adj_last) @ self.token_emb.weight.t()
        rec_loss = F.cross_entropy(logits, batch_pos_items)
        loss = rec_loss + cl_loss + kl_loss
        return loss, {'rec_loss': rec_loss.item(), 'cl_loss': cl_loss.item(), 'kl_loss': kl_loss.item()}

    @torch.no_grad()
    def full_predict(self, batch_seqs):
        return self.fused(self.encode(batch_seqs), self.gcn_forward()[batch_seqs[:, -1]]) @ self.token_emb.weight.t()

def cooccurrence(seqs):
    a = torch.zeros(configs['item_num'] + 1, configs['item_num'] + 1)
    for s in seqs:
        h = torch.from_numpy(s[:-1])
        a[h[:-1], h[1:]] += 1
        a[h[1:], h[:-1]] += 1
    return a / a.sum(1, keepdim=True).clamp(min=1)

def evaluate(model, loader, k=10):
    model.eval()
    recall, ndcg, n = 0.0, 0.0, 0
    for seqs, target in loader:
        scores = model.full_predict(seqs)
        scores[:, 0] = -1e9
        rank = (scores > scores.gather(1, target[:, None])).sum(1)
        recall += (rank < k).sum().item()
        ndcg += (1 / torch.log2(rank[rank < k] + 2.0)).sum().item()
        n += len(target)
    return recall / n, ndcg / n

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', default=None)
    parser.add_argument('--epoch', type=int, default=6)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(2023)
    seqs = make_sequences(2000, seed=2023)
    train_loader = DataLoader(SequentialDataset(seqs, 'train'), configs['batch_size'], shuffle=True)
    test_loader = DataLoader(SequentialDataset(seqs, 'test'), 512)
    model = DCRec_seq(cooccurrence(seqs))
    optimizer = torch.optim.Adam(model.parameters(), lr=configs['lr'])
    best = 0.0
    for epoch in range(args.epoch):
        model.train()
        log, total = {}, 0.0
        for batch_seqs, batch_pos in train_loader:
            loss, parts = model.cal_loss(batch_seqs, batch_pos)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            log = {k: log.get(k, 0.0) + v for k, v in parts.items()}
        recall, ndcg = evaluate(model, test_loader)
        parts = ' '.join(f'{k}: {v / len(train_loader):.4f}' for k, v in log.items())
        print(f'[Epoch {epoch + 1:3d} / {args.epoch}] loss: {total / len(train_loader):.4f} {parts} | recall@10 {recall:.4f} ndcg@10 {ndcg:.4f}')
        if recall > best:
            best = recall
            torch.save(model.state_dict(), os.path.join(out, 'dcrec_seq.pth'))
