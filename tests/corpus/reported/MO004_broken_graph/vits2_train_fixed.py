import math
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1234)
np.random.seed(1234)

N_SYMBOLS = 24
SPEC_CHANNELS = 32
INTER_CHANNELS = 16
HIDDEN_CHANNELS = 32
N_FLOWS = 2
BATCH_SIZE = 16
EPOCHS = 10
LEARNING_RATE = 1e-3
C_MEL = 45
C_KL = 1.0
MODEL_DIR = tempfile.mkdtemp(prefix='vits2_')

class Encoder(nn.Module):
    def __init__(self, hidden_channels, filter_channels, n_heads, n_layers, kernel_size=1, p_dropout=0.0):
        super().__init__()
        self.n_layers = n_layers
        self.drop = nn.Dropout(p_dropout)
        self.attn_layers = nn.ModuleList([nn.MultiheadAttention(hidden_channels, n_heads, p_dropout, batch_first=True)
                                          for _ in range(n_layers)])
        self.norm_layers_1 = nn.ModuleList([nn.LayerNorm(hidden_channels) for _ in range(n_layers)])
        self.ffn_layers = nn.ModuleList([nn.Sequential(
            nn.Conv1d(hidden_channels, filter_channels, kernel_size, padding=kernel_size // 2), nn.ReLU(),
            nn.Conv1d(filter_channels, hidden_channels, kernel_size, padding=kernel_size // 2)) for _ in range(n_layers)])
        self.norm_layers_2 = nn.ModuleList([nn.LayerNorm(hidden_channels) for _ in range(n_layers)])

    def forward(self, x, x_mask):
        pad = x_mask.squeeze(1) == 0
        x = x * x_mask
        for i in range(self.n_layers):
            h = x.transpose(1, 2)
            y, _ = self.attn_layers[i](h, h, h, key_padding_mask=pad, need_weights=False)
            x = self.norm_layers_1[i](h + self.drop(y)).transpose(1, 2)
            y = self.drop(self.ffn_layers[i](x * x_mask))
            x = self.norm_layers_2[i]((x + y).transpose(1, 2)).transpose(1, 2)
        return x * x_mask

class WN(nn.Module):
    def __init__(self, hidden_channels, kernel_size, dilation_rate, n_layers):
        super().__init__()
        self.in_layers = nn.ModuleList([nn.Conv1d(
            hidden_channels, 2 * hidden_channels, kernel_size, dilation=dilation_rate ** i,
            padding=(kernel_size - 1) * dilation_rate ** i // 2) for i in range(n_layers)])
        self.res_skip_layers = nn.ModuleList([nn.Conv1d(hidden_channels, 2 * hidden_channels, 1) for _ in range(n_layers)])

    def forward(self, x, x_mask):
        output = torch.zeros_like(x)
        for in_layer, res_skip in zip(self.in_layers, self.res_skip_layers):
            a, b = in_layer(x).chunk(2, 1)
            res, skip = res_skip(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x = (x + res) * x_mask
            output = output + skip
        return output * x_mask

class Flip(nn.Module):
    def forward(self, x, *args, reverse=False, **kwargs):
        x = torch.flip(x, [1])
        return x if reverse else (x, torch.zeros(x.size(0)))

class ResidualCouplingLayer(nn.Module):
    def __init__(self, channels, hidden_channels, kernel_size, dilation_rate, n_layers, mean_only=False):
        super().__init__()
        self.half_channels = channels // 2
        self.mean_only = mean_only
        self.pre = nn.Conv1d(self.half_channels, hidden_channels, 1)
        self.enc = WN(hidden_channels, kernel_size, dilation_rate, n_layers)
        self.post = nn.Conv1d(hidden_channels, self.half_channels * (2 - mean_only), 1)
        self.post.weight.data.zero_()
        self.post.bias.data.zero_()

    def forward(self, x, x_mask, g=None, reverse=False):
        x0, x1 = torch.split(x, [self.half_channels] * 2, 1)
        m = self.post(self.enc(self.pre(x0) * x_mask, x_mask)) * x_mask
        logs = torch.zeros_like(m)
        if not reverse:
            x1 = m + x1 * torch.exp(logs) * x_mask
            x = torch.cat([x0, x1], 1)
            return x, torch.sum(logs, [1, 2])
        x1 = (x1 - m) * torch.exp(-logs) * x_mask
        return torch.cat([x0, x1], 1)

class MonoTransformerFlowLayer(nn.Module):
    def __init__(self, channels, hidden_channels, mean_only=False):
        super().__init__()
        self.channels = channels
        self.half_channels = channels // 2
        self.mean_only = mean_only
        self.pre_transformer = Encoder(self.half_channels, self.half_channels, n_heads=2, n_layers=2, kernel_size=3, p_dropout=0.1)
        self.post = nn.Conv1d(self.half_channels, self.half_channels * (2 - mean_only), 1)
        self.post.weight.data.zero_()
        self.post.bias.data.zero_()

    def forward(self, x, x_mask, g=None, reverse=False):
        x0, x1 = torch.split(x, [self.half_channels] * 2, 1)
        x0_ = self.pre_transformer(x0 * x_mask, x_mask)
        h = x0_ + x0
        stats = self.post(h) * x_mask
        if not self.mean_only:
            m, logs = torch.split(stats, [self.half_channels] * 2, 1)
        else:
            m = stats
            logs = torch.zeros_like(m)
        if not reverse:
            x1 = m + x1 * torch.exp(logs) * x_mask
            x = torch.cat([x0, x1], 1)
            logdet = torch.sum(logs, [1, 2])
            return x, logdet
        else:
            x1 = (x1 - m) * torch.exp(-logs) * x_mask
            x = torch.cat([x0, x1], 1)
            return x

class ResidualCouplingTransformersBlock(nn.Module):
    def __init__(self, channels, hidden_channels, kernel_size, dilation_rate, n_layers, n_flows=4):
        super().__init__()
        self.flows = nn.ModuleList()
        for i in range(n_flows):
            self.flows.append(ResidualCouplingLayer(channels, hidden_channels, kernel_size, dilation_rate, n_layers, mean_only=True))
            self.flows.append(Flip())
            self.flows.append(MonoTransformerFlowLayer(channels, hidden_channels, mean_only=True))

    def forward(self, x, x_mask, g=None, reverse=False):
        if not reverse:
            for flow in self.flows:
                x, _ = flow(x, x_mask, g=g, reverse=reverse)
        else:
            for flow in reversed(self.flows):
                x = flow(x, x_mask, g=g, reverse=reverse)
        return x

class SynthesizerTrn(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_SYMBOLS, HIDDEN_CHANNELS)
        self.enc_p = Encoder(HIDDEN_CHANNELS, 2 * HIDDEN_CHANNELS, n_heads=2, n_layers=2, kernel_size=3, p_dropout=0.1)
        self.proj_p = nn.Conv1d(HIDDEN_CHANNELS, INTER_CHANNELS * 2, 1)
        self.pre_q = nn.Conv1d(SPEC_CHANNELS, HIDDEN_CHANNELS, 1)
        self.enc_q = WN(HIDDEN_CHANNELS, 5, 1, 3)
        self.proj_q = nn.Conv1d(HIDDEN_CHANNELS, INTER_CHANNELS * 2, 1)
        self.flow = ResidualCouplingTransformersBlock(INTER_CHANNELS, HIDDEN_CHANNELS, 5, 1, 2, n_flows=N_FLOWS)
        self.dec = nn.Sequential(nn.Conv1d(INTER_CHANNELS, HIDDEN_CHANNELS, 5, padding=2), nn.LeakyReLU(0.1),
                                 nn.Conv1d(HIDDEN_CHANNELS, HIDDEN_CHANNELS, 5, padding=2), nn.LeakyReLU(0.1),
                                 nn.Conv1d(HIDDEN_CHANNELS, SPEC_CHANNELS, 1))
    def encode_text(self, text, align, y_mask):
        x_mask = (text > 0).unsqueeze(1).float()
        x = self.emb(text).transpose(1, 2) * math.sqrt(HIDDEN_CHANNELS)
        stats = self.proj_p(self.enc_p(x, x_mask)) * x_mask
        stats = torch.gather(stats, 2, align.unsqueeze(1).expand(-1, stats.size(1), -1)) * y_mask
        return torch.split(stats, INTER_CHANNELS, dim=1)

    def forward(self, text, align, spec, y_mask):
        m_p, logs_p = self.encode_text(text, align, y_mask)
        m_q, logs_q = torch.split(self.proj_q(self.enc_q(self.pre_q(spec) * y_mask, y_mask)) * y_mask, INTER_CHANNELS, dim=1)
        z = (m_q + torch.randn_like(m_q) * torch.exp(logs_q)) * y_mask
        z_p = self.flow(z, y_mask)
        return self.dec(z) * y_mask, (z, z_p, m_p, logs_p, m_q, logs_q)
    def infer(self, text, align, y_mask, noise_scale=0.3):
        m_p, logs_p = self.encode_text(text, align, y_mask)
        z_p = m_p + torch.randn_like(m_p) * torch.exp(logs_p) * noise_scale
        z = self.flow(z_p * y_mask, y_mask, reverse=True)
        return self.dec(z * y_mask) * y_mask
def kl_loss(z_p, logs_q, m_p, logs_p, z_mask):
    kl = logs_p - logs_q - 0.5
    kl += 0.5 * ((z_p - m_p) ** 2) * torch.exp(-2.0 * logs_p)
    return torch.sum(kl * z_mask) / torch.sum(z_mask)

class TextAudioLoader(Dataset):
    def __init__(self, count, seed):
        template_rng = np.random.RandomState(7)
        templates = np.abs(np.cumsum(template_rng.randn(N_SYMBOLS, SPEC_CHANNELS), axis=1)) * 0.3
        rng = np.random.RandomState(seed)
        self.items = []
        for _ in range(count):
            n = rng.randint(5, 10)
            text = rng.randint(1, N_SYMBOLS, n)
            align = np.repeat(np.arange(n), rng.randint(3, 7, n))
            spec = templates[text[align]].T
            pitch = 1 + 0.3 * np.sin(np.linspace(0, rng.uniform(2, 8), len(align)) + rng.uniform(0, 6))
            spec = np.apply_along_axis(lambda r: np.convolve(r, [0.25, 0.5, 0.25], mode='same'), 1, spec) * pitch
            spec = spec + 0.03 * rng.randn(*spec.shape)
            self.items.append((text, align, spec.astype(np.float32)))
    def __len__(self):
        return len(self.items)
    def __getitem__(self, index):
        return self.items[index]
def collate(batch):
    max_x, max_y = max(len(b[0]) for b in batch), max(len(b[1]) for b in batch)
    text = torch.zeros(len(batch), max_x, dtype=torch.long)
    align = torch.zeros(len(batch), max_y, dtype=torch.long)
    spec = torch.zeros(len(batch), SPEC_CHANNELS, max_y)
    y_mask = torch.zeros(len(batch), 1, max_y)
    for i, (t, a, s) in enumerate(batch):
        text[i, :len(t)] = torch.from_numpy(t)
        align[i, :len(a)] = torch.from_numpy(a)
        spec[i, :, :len(a)] = torch.from_numpy(s)
        y_mask[i, :, :len(a)] = 1
    return text, align, spec, y_mask

def evaluate(net_g, eval_loader):
    net_g.eval()
    total = 0.0
    with torch.no_grad():
        for text, align, spec, y_mask in eval_loader:
            y_hat = net_g.infer(text, align, y_mask)
            total += ((y_hat - spec).abs() * y_mask).sum().item() / (y_mask.sum().item() * SPEC_CHANNELS)
    net_g.train()
    return total / len(eval_loader)

def run():
    train_loader = DataLoader(TextAudioLoader(480, 0), batch_size=BATCH_SIZE, shuffle=True, collate_fn=collate)
    eval_loader = DataLoader(TextAudioLoader(64, 1), batch_size=BATCH_SIZE, collate_fn=collate)
    net_g = SynthesizerTrn()
    optim_g = torch.optim.AdamW(net_g.parameters(), LEARNING_RATE, betas=(0.8, 0.99), eps=1e-9)
    scheduler_g = torch.optim.lr_scheduler.ExponentialLR(optim_g, gamma=0.98)
    global_step = 0
    for epoch in range(1, EPOCHS + 1):
        for batch_idx, (text, align, spec, y_mask) in enumerate(train_loader):
            y_hat, (z, z_p, m_p, logs_p, m_q, logs_q) = net_g(text, align, spec, y_mask)
            loss_mel = ((y_hat - spec).abs() * y_mask).sum() / (y_mask.sum() * SPEC_CHANNELS) * C_MEL
            loss_kl = kl_loss(z_p, logs_q, m_p, logs_p, y_mask) * C_KL
            loss_gen_all = loss_mel + loss_kl
            optim_g.zero_grad()
            loss_gen_all.backward()
            torch.nn.utils.clip_grad_norm_(net_g.parameters(), 50.0)
            optim_g.step()
            if global_step % 50 == 0:
                print('Train Epoch: %d step %d loss_mel=%.3f loss_kl=%.3f' % (epoch, global_step, loss_mel.item(), loss_kl.item()))
            global_step += 1
        scheduler_g.step()
        print('====> Epoch: %d eval mel l1 %.4f lr %.6f' % (epoch, evaluate(net_g, eval_loader), optim_g.param_groups[0]['lr']))
        torch.save({'model': net_g.state_dict(), 'optimizer': optim_g.state_dict(), 'iteration': epoch},
                   os.path.join(MODEL_DIR, 'G_%d.pth' % global_step))


if __name__ == '__main__':
    run()
