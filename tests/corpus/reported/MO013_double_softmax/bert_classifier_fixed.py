"""BERT text classification on generated CNews-like articles."""
import math
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(2021)
np.random.seed(2021)


class BertConfig:
    vocab_size = 600
    hidden_size = 64
    num_hidden_layers = 2
    num_attention_heads = 4
    intermediate_size = 128
    max_position_embeddings = 48
    type_vocab_size = 2
    hidden_dropout_prob = 0.1
    initializer_range = 0.02


class BertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids):
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions) + self.token_type_embeddings(token_type_ids)
        return self.dropout(self.LayerNorm(x))


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.dim = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention_output = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention_norm = nn.LayerNorm(config.hidden_size)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.dim).transpose(1, 2)

    def forward(self, x, extended_mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dim) + extended_mask
        context = (self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)
        x = self.attention_norm(x + self.dropout(self.attention_output(context)))
        return self.output_norm(x + self.dropout(self.output(nn.functional.gelu(self.intermediate(x)))))


class BertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = BertEmbeddings(config)
        self.encoder = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids, attention_mask, token_type_ids):
        extended_mask = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder:
            x = layer(x, extended_mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class BertClassifier(nn.Module):
    def __init__(self, bert_config, num_labels):
        super().__init__()
        self.bert = BertModel(config=bert_config)
        self.classifier = nn.Linear(bert_config.hidden_size, num_labels)
        self.apply(lambda m: self._init_weights(m, bert_config.initializer_range))

    @staticmethod
    def _init_weights(module, std):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=std)
        if isinstance(module, nn.Linear):
            module.bias.data.zero_()

    def forward(self, input_ids, attention_mask, token_type_ids):
        sequence_output, pooled = self.bert(input_ids=input_ids, attention_mask=attention_mask,
                                            token_type_ids=token_type_ids)
        logits = self.classifier(pooled)
        return logits


class CNewsDataset(Dataset):
    def __init__(self, n, seed, max_length=40):
        self.labels = ['体育', '娱乐', '家居', '房产', '教育', '时尚', '时政', '游戏', '科技', '财经']
        self.labels_id = list(range(len(self.labels)))
        rng = np.random.RandomState(seed)
        keywords = np.random.RandomState(77).permutation(np.arange(3, BertConfig.vocab_size))[:300].reshape(10, 30)
        self.input_ids, self.token_type_ids, self.attention_mask, self.label_id = [], [], [], []
        for _ in range(n):
            label = rng.randint(10)
            length = rng.randint(18, max_length - 2)
            words = rng.randint(3, BertConfig.vocab_size, length)
            topical = rng.rand(length) < 0.35
            words[topical] = rng.choice(keywords[label], topical.sum())
            ids = [1] + words.tolist() + [2]
            pad = max_length - len(ids)
            self.input_ids.append(np.array(ids + [0] * pad))
            self.token_type_ids.append(np.zeros(max_length, dtype=np.int64))
            self.attention_mask.append(np.array([1] * len(ids) + [0] * pad))
            self.label_id.append(label)

    def __getitem__(self, index):
        return self.input_ids[index], self.token_type_ids[index], self.attention_mask[index], self.label_id[index]

    def __len__(self):
        return len(self.input_ids)


def main():
    batch_size = 32
    device = 'cpu'
    epochs = 6
    learning_rate = 5e-4
    output_dir = tempfile.mkdtemp(prefix='bertclassifier_')

    train_dataset = CNewsDataset(3200, 1)
    valid_dataset = CNewsDataset(500, 2)
    train_dataloader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True)
    valid_dataloader = DataLoader(valid_dataset, batch_size=batch_size, shuffle=False)

    bert_config = BertConfig()
    num_labels = len(train_dataset.labels)
    model = BertClassifier(bert_config, num_labels).to(device)
    optimizer = AdamW(model.parameters(), lr=learning_rate)
    criterion = nn.CrossEntropyLoss()

    best_f1 = 0
    for epoch in range(1, epochs + 1):
        losses, accuracy = 0, 0
        model.train()
        for batch_index, (input_ids, token_type_ids, attention_mask, label_id) in enumerate(train_dataloader):
            model.zero_grad()
            output = model(input_ids=input_ids.to(device), attention_mask=attention_mask.to(device),
                           token_type_ids=token_type_ids.to(device))
            loss = criterion(output, label_id.to(device))
            losses += loss.item()
            pred_labels = torch.argmax(output, dim=1)
            acc = torch.sum(pred_labels == label_id.to(device)).item() / len(pred_labels)
            accuracy += acc
            loss.backward()
            optimizer.step()
            if batch_index % 20 == 0:
                print('Epoch: {} batch {} acc: {:.3f} loss: {:.4f}'.format(epoch, batch_index, acc, loss.item()), flush=True)
        print('\tTrain ACC: {:.4f}\tLoss: {:.4f}'.format(accuracy / len(train_dataloader), losses / len(train_dataloader)))

        model.eval()
        losses, pred_labels, true_labels = 0, [], []
        with torch.no_grad():
            for input_ids, token_type_ids, attention_mask, label_id in valid_dataloader:
                output = model(input_ids=input_ids.to(device), attention_mask=attention_mask.to(device),
                               token_type_ids=token_type_ids.to(device))
                losses += criterion(output, label_id.to(device)).item()
                pred_labels += torch.argmax(output, dim=1).tolist()
                true_labels += label_id.tolist()
        pred_labels, true_labels = np.array(pred_labels), np.array(true_labels)
        f1 = np.mean([2 * np.sum((pred_labels == k) & (true_labels == k)) /
                      max(1, np.sum(pred_labels == k) + np.sum(true_labels == k)) for k in range(num_labels)])
        print('\tLoss: {:.4f}  valid acc: {:.4f}  macro f1: {:.4f}'.format(
            losses / len(valid_dataloader), np.mean(pred_labels == true_labels), f1), flush=True)
        if f1 > best_f1:
            best_f1 = f1
            torch.save(model.state_dict(), os.path.join(output_dir, 'best_model.pkl'))


if __name__ == '__main__':
    main()
