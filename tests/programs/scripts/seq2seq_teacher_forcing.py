"""Sequence to sequence with attention and teacher forcing, the way of the translation tutorial: two modules, two optimizers."""

import random

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

random.seed(0)
torch.manual_seed(0)
SOS_token, EOS_token, words, MAX_LENGTH, hidden_size = 0, 1, 20, 8, 48
lengths = torch.randint(3, MAX_LENGTH - 1, (400,))
inputs, targets = torch.zeros(400, MAX_LENGTH, dtype=torch.long), torch.zeros(400, MAX_LENGTH, dtype=torch.long)
for row, length in enumerate(lengths.tolist()):
    sentence = torch.randint(2, words, (length,))
    inputs[row, :length], inputs[row, length] = sentence, EOS_token
    targets[row, :length], targets[row, length] = sentence.flip(0), EOS_token
pairs = TensorDataset(inputs, targets)
train_dataloader = DataLoader(pairs, sampler=RandomSampler(pairs), batch_size=32)


class EncoderRNN(nn.Module):
    def __init__(self, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa, self.Ua = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden_size)
        self.attention = BahdanauAttention()
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, words)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        decoder_input = torch.full((encoder_outputs.size(0), 1), SOS_token, dtype=torch.long)
        decoder_hidden, decoder_outputs = encoder_hidden, []
        for i in range(MAX_LENGTH):
            embedded = self.dropout(self.embedding(decoder_input))
            context, _ = self.attention(decoder_hidden.permute(1, 0, 2), encoder_outputs)
            output, decoder_hidden = self.gru(torch.cat((embedded, context), dim=2), decoder_hidden)
            decoder_outputs.append(self.out(output))
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                decoder_input = decoder_outputs[-1].argmax(-1).detach()
        return F.log_softmax(torch.cat(decoder_outputs, dim=1), dim=-1)


def train_epoch(dataloader, encoder, decoder, encoder_optimizer, decoder_optimizer, criterion):
    total_loss = 0
    for input_tensor, target_tensor in dataloader:
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        encoder_outputs, encoder_hidden = encoder(input_tensor)
        forced = target_tensor if random.random() < 0.8 else None
        decoder_outputs = decoder(encoder_outputs, encoder_hidden, forced)
        loss = criterion(decoder_outputs.view(-1, decoder_outputs.size(-1)), target_tensor.view(-1))
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        total_loss += loss.item()
    return total_loss / len(dataloader)


encoder, decoder = EncoderRNN(), AttnDecoderRNN()
encoder_optimizer, decoder_optimizer = optim.Adam(encoder.parameters(), 3e-3), optim.Adam(decoder.parameters(), 3e-3)
for epoch in range(1, 7):
    print(epoch, train_epoch(train_dataloader, encoder, decoder, encoder_optimizer, decoder_optimizer, nn.NLLLoss()))
encoder.eval()
decoder.eval()
with torch.no_grad():
    said = decoder(*encoder(inputs[:5])).argmax(-1)
for sentence, words_said in zip(inputs[:5].tolist(), said.tolist()):
    print(sentence, words_said)
