"""Topic classification with a GRU document embedding: pick a learning rate, then train."""
import datetime
import math
import tempfile
import warnings
from pathlib import Path
from typing import List

import numpy as np
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, _LRScheduler
from torch.optim.sgd import SGD

warnings.filterwarnings("ignore", category=UserWarning)
torch.manual_seed(42)
np.random.seed(42)

TOPICS = ["sport", "politics", "science", "music"]


class Sentence:
    def __init__(self, tokens, label):
        self.tokens, self.label = tokens, label


class Corpus:
    def __init__(self, train, dev, test):
        self.train, self.dev, self.test = train, dev, test


def make_corpus(n_train=3600, n_dev=400, n_test=400, vocab=320):
    rng = np.random.RandomState(3)
    topic_words = rng.permutation(vocab)[:160].reshape(4, 40)

    def draw(n):
        sentences = []
        for _ in range(n):
            topic = rng.randint(4)
            length = rng.randint(8, 18)
            tokens = rng.randint(0, vocab, length)
            hits = rng.rand(length) < 0.3
            tokens[hits] = rng.choice(topic_words[topic], hits.sum())
            sentences.append(Sentence(tokens.tolist(), topic))
        return sentences

    return Corpus(draw(n_train), draw(n_dev), draw(n_test)), vocab


def data_loader(sentences: List[Sentence], batch_size, shuffle=False):
    order = torch.randperm(len(sentences)).tolist() if shuffle else list(range(len(sentences)))
    for start in range(0, len(order), batch_size):
        yield [sentences[i] for i in order[start:start + batch_size]]


class DocumentRNNEmbeddings(torch.nn.Module):
    def __init__(self, vocab, embedding_length=32, hidden_size=64):
        super().__init__()
        self.embeddings = torch.nn.Embedding(vocab + 1, embedding_length, padding_idx=vocab)
        self.rnn = torch.nn.GRU(embedding_length, hidden_size, batch_first=True, bidirectional=True)
        self.dropout = torch.nn.Dropout(0.3)
        self.embedding_length = 2 * hidden_size
        self.pad = vocab

    def forward(self, sentences):
        lengths = torch.tensor([len(s.tokens) for s in sentences])
        ids = torch.full((len(sentences), int(lengths.max())), self.pad)
        for i, s in enumerate(sentences):
            ids[i, :len(s.tokens)] = torch.tensor(s.tokens)
        packed = torch.nn.utils.rnn.pack_padded_sequence(self.embeddings(ids), lengths, batch_first=True,
                                                         enforce_sorted=False)
        _, hidden = self.rnn(packed)
        return self.dropout(torch.cat([hidden[0], hidden[1]], dim=1))


class TextClassifier(torch.nn.Module):
    def __init__(self, document_embeddings, n_labels):
        super().__init__()
        self.document_embeddings = document_embeddings
        self.decoder = torch.nn.Linear(document_embeddings.embedding_length, n_labels)
        self.loss_function = torch.nn.CrossEntropyLoss()
        torch.nn.init.xavier_uniform_(self.decoder.weight)

    def forward(self, sentences):
        return self.decoder(self.document_embeddings(sentences))

    def forward_loss(self, sentences):
        return self.loss_function(self.forward(sentences), torch.tensor([s.label for s in sentences]))

    def evaluate(self, sentences, batch_size=64):
        self.eval()
        loss, correct, batches = 0.0, 0, 0
        with torch.no_grad():
            for batch in data_loader(sentences, batch_size):
                scores = self.forward(batch)
                labels = torch.tensor([s.label for s in batch])
                loss += self.loss_function(scores, labels).item()
                correct += (scores.argmax(1) == labels).sum().item()
                batches += 1
        return correct / len(sentences), loss / batches


class ExpAnnealLR(_LRScheduler):
    def __init__(self, optimizer, end_lr, iterations, last_epoch=-1):
        self.end_lr = end_lr
        self.iterations = iterations
        super(ExpAnnealLR, self).__init__(optimizer, last_epoch=last_epoch)

    def get_lr(self):
        iteration = self.last_epoch + 1
        pct = iteration / self.iterations
        return [base_lr * (self.end_lr / base_lr) ** pct for base_lr in self.base_lrs]


class ModelTrainer:
    def __init__(self, model, corpus, optimizer=SGD):
        self.model, self.corpus, self.optimizer = model, corpus, optimizer

    def train(self, base_path: Path, learning_rate, mini_batch_size=32, anneal_factor=0.5, patience=3, max_epochs=3):
        optimizer = self.optimizer(self.model.parameters(), lr=learning_rate)
        scheduler = ReduceLROnPlateau(optimizer, factor=anneal_factor, patience=patience, mode="max")
        best_score = -1.0
        for epoch in range(max_epochs):
            self.model.train()
            train_loss, seen = 0.0, 0
            for batch_no, batch in enumerate(data_loader(self.corpus.train, mini_batch_size, shuffle=True)):
                loss = self.model.forward_loss(batch)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                optimizer.step()
                train_loss += loss.item()
                seen += 1
                if batch_no % 28 == 0:
                    print(f"epoch {epoch + 1} - iter {batch_no} - loss {train_loss / seen:.8f}", flush=True)
            dev_score, dev_loss = self.model.evaluate(self.corpus.dev)
            print(f"EPOCH {epoch + 1} done: loss {train_loss / seen:.4f} - lr {optimizer.param_groups[0]['lr']:.4g}")
            print(f"DEV : loss {dev_loss:.4f} - score {dev_score:.4f}")
            scheduler.step(dev_score)
            if dev_score >= best_score:
                best_score = dev_score
                torch.save(self.model.state_dict(), base_path / "best-model.pt")
        self.model.load_state_dict(torch.load(base_path / "best-model.pt"))
        return self.model.evaluate(self.corpus.test)[0]

    def find_learning_rate(self, base_path: Path, file_name="learning_rate.tsv", start_learning_rate=1e-7,
                           end_learning_rate=10, iterations=100, mini_batch_size=32, stop_early=True,
                           smoothing_factor=0.98, **kwargs) -> Path:
        best_loss = None
        moving_avg_loss = 0
        learning_rate_tsv = base_path / file_name
        with open(learning_rate_tsv, "w") as f:
            f.write("ITERATION\tTIMESTAMP\tLEARNING_RATE\tTRAIN_LOSS\n")

        optimizer = self.optimizer(self.model.parameters(), lr=start_learning_rate, **kwargs)
        scheduler = ExpAnnealLR(optimizer, end_learning_rate, iterations)
        self.model.train()

        for itr, batch in enumerate(data_loader(self.corpus.train, mini_batch_size, shuffle=True)):
            loss = self.model.forward_loss(batch)

            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            optimizer.step()
            scheduler.step(itr + 1)
            learning_rate = scheduler.get_lr()[0]

            loss_item = loss.item()
            if itr == 0:
                best_loss = loss_item
                moving_avg_loss = (1 - smoothing_factor) * loss_item
            else:
                if smoothing_factor > 0:
                    moving_avg_loss = smoothing_factor * moving_avg_loss + (1 - smoothing_factor) * loss_item
                    loss_item = moving_avg_loss / (1 - smoothing_factor ** (itr + 1))
                if loss_item < best_loss:
                    best_loss = loss_item

            if stop_early and (loss_item > 4 * best_loss or torch.isnan(loss)):
                print("loss diverged - stopping early!")
                break
            if itr >= iterations:
                break
            with open(str(learning_rate_tsv), "a") as f:
                f.write(f"{itr}\t{datetime.datetime.now():%H:%M:%S}\t{learning_rate}\t{loss_item}\n")
            if itr % 20 == 0:
                print(f"find_learning_rate - iter {itr} - loss {loss_item:.6f}", flush=True)
        print(f"learning rate finder finished - plot {learning_rate_tsv}")
        return learning_rate_tsv


def suggest(learning_rate_tsv: Path):
    rows = [line.split("\t") for line in open(learning_rate_tsv).read().splitlines()[1:]]
    rates, losses = [float(r[2]) for r in rows], [float(r[3]) for r in rows]
    losses = [x if math.isfinite(x) else float("inf") for x in losses]
    return rates[int(np.argmin(losses))] / 10


def main():
    base_path = Path(tempfile.mkdtemp(prefix="flair_"))
    corpus, vocab = make_corpus()
    finder = ModelTrainer(TextClassifier(DocumentRNNEmbeddings(vocab), len(TOPICS)), corpus)
    tsv = finder.find_learning_rate(base_path, iterations=100, smoothing_factor=0.7)
    learning_rate = suggest(tsv)
    print("learning rate for training: %.4g" % learning_rate)
    trainer = ModelTrainer(TextClassifier(DocumentRNNEmbeddings(vocab), len(TOPICS)), corpus)
    score = trainer.train(base_path, learning_rate=learning_rate, max_epochs=6)
    print("test score: %.4f" % score)


if __name__ == "__main__":
    main()
