import os
import tempfile
from itertools import permutations

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1)
np.random.seed(1)

SAMPLE_RATE = 2000
SEGMENT = 2000
NUM_FILTERS = 48
FILTER_LENGTH = 32
HOP_LENGTH = 16
HIDDEN_SIZE = 64
BATCH_SIZE = 10
MAX_EPOCHS = 5
OUTPUT_FOLDER = tempfile.mkdtemp(prefix='nussl_')


class SISDRLoss(nn.Module):
    DEFAULT_KEYS = {'audio': 'estimates', 'source_audio': 'references'}

    def __init__(self, scaling=True, return_scaling=False, reduction='mean', zero_mean=True):
        self.scaling = scaling
        self.reduction = reduction
        self.zero_mean = zero_mean
        self.return_scaling = return_scaling
        super().__init__()

    def forward(self, estimates, references):
        eps = 1e-10
        _shape = references.shape
        references = references.view(-1, _shape[-2], _shape[-1])
        estimates = estimates.view(-1, _shape[-2], _shape[-1])
        if self.zero_mean:
            mean_reference = references.mean(dim=1, keepdim=True)
            mean_estimate = estimates.mean(dim=1, keepdim=True)
        else:
            mean_reference = 0
            mean_estimate = 0

        _references = references - mean_reference
        _estimates = estimates - mean_estimate

        references_projection = (_references ** 2).sum(dim=-2) + eps
        references_on_estimates = (_estimates * _references).sum(dim=-2) + eps

        scale = (
            (references_on_estimates / references_projection).unsqueeze(1)
            if self.scaling else 1)

        e_true = scale * _references
        e_res = _estimates - e_true

        signal = (e_true ** 2).sum(dim=1)
        noise = (e_res ** 2).sum(dim=1)
        sdr = 10 * torch.log10(signal / noise)

        if self.reduction == 'mean':
            sdr = sdr.mean()
        elif self.reduction == 'sum':
            sdr = sdr.sum()
        if self.return_scaling:
            return scale
        return -sdr


class PermutationInvariantLoss(nn.Module):
    DEFAULT_KEYS = {'estimates': 'estimates', 'source_magnitudes': 'targets'}

    def __init__(self, loss_function):
        super(PermutationInvariantLoss, self).__init__()
        self.loss_function = loss_function
        self.loss_function.reduction = 'none'

    def forward(self, estimates, targets):
        num_batch = estimates.shape[0]
        num_sources = estimates.shape[-1]
        estimates = estimates.reshape(num_batch, -1, num_sources)
        targets = targets.reshape(num_batch, -1, num_sources)

        losses = []
        for p in permutations(range(num_sources)):
            _targets = targets[..., list(p)]
            loss = self.loss_function(estimates, _targets)
            loss = loss.mean(dim=[-1, -2])
            losses.append(loss)

        losses = torch.stack(losses, dim=-1)
        losses = torch.min(losses, dim=-1)[0]
        loss = torch.mean(losses)
        return loss


class LearnedFilterBank(nn.Module):
    def __init__(self, num_filters, filter_length, hop_length):
        super().__init__()
        self.encoder = nn.Conv1d(1, num_filters, filter_length, stride=hop_length, padding=filter_length // 2, bias=False)
        self.decoder = nn.ConvTranspose1d(num_filters, 1, filter_length, stride=hop_length, padding=filter_length // 2, bias=False)

    def transform(self, audio):
        return torch.relu(self.encoder(audio.unsqueeze(1)))

    def inverse(self, spec, length):
        return self.decoder(spec)[:, 0, :length]


class SeparationModel(nn.Module):
    def __init__(self, num_sources=2):
        super().__init__()
        self.num_sources = num_sources
        self.filter_bank = LearnedFilterBank(NUM_FILTERS, FILTER_LENGTH, HOP_LENGTH)
        self.instance_norm = nn.GroupNorm(1, NUM_FILTERS)
        self.recurrent_stack = nn.LSTM(NUM_FILTERS, HIDDEN_SIZE, num_layers=1, batch_first=True, bidirectional=True)
        self.embedding = nn.Linear(2 * HIDDEN_SIZE, NUM_FILTERS * num_sources)

    def forward(self, data):
        mix = data['mix_audio']
        rep = self.filter_bank.transform(mix)
        features = self.instance_norm(rep).transpose(1, 2)
        features, _ = self.recurrent_stack(features)
        mask = torch.sigmoid(self.embedding(features))
        mask = mask.reshape(mask.shape[0], mask.shape[1], NUM_FILTERS, self.num_sources)
        audio = []
        for i in range(self.num_sources):
            estimate = mask[..., i].transpose(1, 2) * rep
            audio.append(self.filter_bank.inverse(estimate, mix.shape[-1]))
        return {'audio': torch.stack(audio, dim=-1), 'mask': mask}


class MixSourceDataset(Dataset):
    def __init__(self, num_items, seed):
        rng = np.random.RandomState(seed)
        t = np.arange(SEGMENT) / SAMPLE_RATE
        self.items = []
        for _ in range(num_items):
            sources = []
            for low, high, vib in ((60, 140, 3.0), (280, 600, 6.0)):
                audio = np.zeros(SEGMENT)
                n_notes = rng.randint(2, 5)
                bounds = np.linspace(0, SEGMENT, n_notes + 1).astype(int)
                played = rng.rand(n_notes) < 0.8
                if sources and not np.any(sources[0]):
                    played[0] = True
                for k in range(n_notes):
                    if not played[k]:
                        continue
                    f = rng.uniform(low, high)
                    seg = slice(bounds[k], bounds[k + 1])
                    phase = 2 * np.pi * f * t[seg] + 0.5 * np.sin(2 * np.pi * vib * t[seg])
                    env = np.hanning(bounds[k + 1] - bounds[k])
                    for h in range(1, 3):
                        audio[seg] += env * np.sin(h * phase + rng.uniform(0, 6)) / h
                sources.append(0.3 * rng.uniform(0.5, 1.0) * audio)
            self.items.append(np.stack(sources, axis=-1).astype(np.float32))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        sources = torch.from_numpy(self.items[idx])
        return {'mix_audio': sources.sum(dim=-1), 'source_audio': sources}


class TrainClosure:
    def __init__(self, loss_function, optimizer, model):
        self.loss_function = loss_function
        self.optimizer = optimizer
        self.model = model

    def __call__(self, engine, data):
        self.model.train()
        self.optimizer.zero_grad()
        output = self.model(data)
        loss = self.loss_function(output['audio'], data['source_audio'])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        return {'loss': loss.item()}


class ValidationClosure:
    def __init__(self, loss_function, model):
        self.loss_function = loss_function
        self.model = model

    def __call__(self, engine, data):
        with torch.no_grad():
            self.model.eval()
            output = self.model(data)
            loss = self.loss_function(output['audio'], data['source_audio'])
        return {'loss': loss.item()}


def main():
    train_loader = DataLoader(MixSourceDataset(400, 10), batch_size=BATCH_SIZE, shuffle=True)
    val_loader = DataLoader(MixSourceDataset(40, 11), batch_size=BATCH_SIZE)
    model = SeparationModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=5)
    loss_function = PermutationInvariantLoss(SISDRLoss())
    train_closure = TrainClosure(loss_function, optimizer, model)
    val_closure = ValidationClosure(loss_function, model)
    best = float('inf')
    iteration = 0
    for epoch in range(1, MAX_EPOCHS + 1):
        train_loss = []
        for data in train_loader:
            train_loss.append(train_closure(None, data)['loss'])
            iteration += 1
            if iteration % 20 == 0:
                print('iter %d loss/train %.4f' % (iteration, np.mean(train_loss[-20:])))
        val_loss = np.mean([val_closure(None, data)['loss'] for data in val_loader])
        scheduler.step(val_loss)
        print('epoch %d/%d loss/train %.4f loss/validation %.4f' % (epoch, MAX_EPOCHS, np.mean(train_loss), val_loss))
        torch.save(model.state_dict(), os.path.join(OUTPUT_FOLDER, 'latest.model.pth'))
        if val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), os.path.join(OUTPUT_FOLDER, 'best.model.pth'))


if __name__ == '__main__':
    main()
