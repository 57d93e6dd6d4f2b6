import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
torch.set_num_threads(1)

LETTERS = 40
K = 64
L = 24
J = 4
TOPICS = 20

topic_bank = torch.randn(TOPICS, LETTERS, generator=torch.Generator().manual_seed(5))


def sample_text(topic, length, g):
    base = topic_bank[topic].unsqueeze(1).expand(-1, length, -1)
    return 0.7 * base + 0.7 * torch.randn(len(topic), length, LETTERS, generator=g)


def make_pairs(n, seed):
    g = torch.Generator().manual_seed(seed)
    topic = torch.randint(0, TOPICS, (n,), generator=g)
    shift = torch.randint(1, TOPICS, (J, n), generator=g)
    query = sample_text(topic, 5, g)
    pos = sample_text(topic, 9, g)
    negs = torch.stack([sample_text((topic + s) % TOPICS, 9, g) for s in shift])
    return query, pos, negs


class CDSSM(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_conv = nn.Conv1d(LETTERS, K, 3, padding=1)
        self.query_sem = nn.Linear(K, L)
        self.doc_conv = nn.Conv1d(LETTERS, K, 3, padding=1)
        self.doc_sem = nn.Linear(K, L)
        self.gamma = 5.0

    def encode_query(self, q):
        q = torch.tanh(self.query_conv(q.transpose(1, 2)))
        return self.query_sem(q.max(-1).values)

    def encode_doc(self, d):
        d = torch.tanh(self.doc_conv(d.transpose(1, 2)))
        return self.doc_sem(d.max(-1).values)

    def forward(self, q, pos, negs):
        q_s = self.encode_query(q)
        docs = [self.encode_doc(pos)] + [self.encode_doc(n) for n in negs]
        dots = torch.stack([F.cosine_similarity(q_s, d, dim=1) for d in docs], 1)
        scores = self.gamma * dots
        return scores


train_q, train_p, train_n = make_pairs(1600, 1)
val_q, val_p, val_n = make_pairs(300, 2)
model = CDSSM()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
batch = 32

for epoch in range(5):
    model.train()
    order = torch.randperm(len(train_q))
    total = 0.0
    for i in range(0, len(order), batch):
        idx = order[i:i + batch]
        y_pred = model(train_q[idx], train_p[idx], train_n[:, idx])
        target = torch.zeros(len(idx), dtype=torch.long)
        loss = criterion(y_pred, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        out = model(val_q, val_p, val_n)
        val_loss = criterion(out, torch.zeros(len(val_q), dtype=torch.long)).item()
        acc = (out.argmax(1) == 0).float().mean().item()
    print(f"epoch {epoch} train {total / len(order):.4f} val {val_loss:.4f} top1 {acc:.3f}")
