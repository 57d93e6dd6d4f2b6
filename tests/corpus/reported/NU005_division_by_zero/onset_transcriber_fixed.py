import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
torch.set_num_threads(1)

BINS, FRAMES, PITCHES = 24, 48, 8
templates = torch.randn(PITCHES + 1, BINS, generator=torch.Generator().manual_seed(4))


def make_pieces(n, seed):
    """Excerpts of a melody: some of them lie inside one long held note."""
    g = torch.Generator().manual_seed(seed)
    pieces = []
    for _ in range(n):
        count = int(torch.randint(0, 6, (1,), generator=g))
        pitch = torch.full((FRAMES,), int(torch.randint(0, PITCHES, (1,), generator=g)))
        onset = torch.zeros(FRAMES)
        for s in sorted(torch.randint(2, FRAMES - 2, (count,), generator=g).tolist()):
            onset[s] = 1.0
            pitch[s:] = int(torch.randint(0, PITCHES, (1,), generator=g))
        spec = templates[pitch] + 0.8 * onset[:, None] * templates[PITCHES] + 0.4 * torch.randn(FRAMES, BINS, generator=g)
        weight = F.max_pool1d(onset[None, None], 5, 1, 2)[0, 0]
        pieces.append((spec[None], onset[None], weight[None], pitch[None]))
    return pieces


class Transcriber(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(BINS, hidden, 3, padding=1), nn.ReLU(),
                                  nn.Conv1d(hidden, hidden, 3, padding=1), nn.ReLU())
        self.onset = nn.Linear(hidden, 1)
        self.pitch = nn.Linear(hidden, PITCHES)

    def forward(self, spec):
        h = self.conv(spec.transpose(1, 2)).transpose(1, 2)
        return self.onset(h).squeeze(-1), self.pitch(h)


onset_criterion = nn.BCEWithLogitsLoss(reduction="none")


def compute_loss(model, piece):
    spec, onset_prob, on_weight, pitch = piece
    onset_logits, pitch_logits = model(spec)
    split_loss0 = torch.dot(onset_criterion(onset_logits, onset_prob)[0], on_weight[0]) / (torch.sum(on_weight) + 1e-6)
    split_loss1 = F.cross_entropy(pitch_logits[0], pitch[0])
    return split_loss0 + split_loss1, split_loss0.item(), split_loss1.item()


train_pieces, valid_pieces = make_pieces(160, 1), make_pieces(40, 2)
model = Transcriber()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(3):
    model.train()
    sums = [0.0, 0.0]
    for i in torch.randperm(len(train_pieces)).tolist():
        loss, l0, l1 = compute_loss(model, train_pieces[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sums[0] += l0
        sums[1] += l1
    model.eval()
    with torch.no_grad():
        val = sum(compute_loss(model, p)[0].item() for p in valid_pieces) / len(valid_pieces)
    print(f"epoch {epoch} split_train_loss0 {sums[0] / 160:.4f} split_train_loss1 {sums[1] / 160:.4f} valid {val:.4f}")
