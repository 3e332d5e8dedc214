#!/usr/bin/env python3
"""The recipes bert_base/small_corpus, bert_base/small_corpus_hour and electra_base/small_corpus in PyTorch, for laying learning
curves beside recipe-run's.

  pytorch_text_curve.py bert data/bert_pretraining --steps 600 --seeds 1 2 3
  pytorch_text_curve.py bert_hour data/bert_pretraining --steps 4000 --every 400
  pytorch_text_curve.py electra data/electra_pretraining --steps 400 --every 50

The folder is the converted data set; its records are read as TFRecord files of tf.train.Example. Prints a line of JSON per
evaluation. What the recipe fixes is fixed here alike; the random numbers (order of the records, initial weights, dropout,
ELECTRA's masks) are PyTorch's and NumPy's own, so curves agree in distribution, not number by number.
"""

import argparse
import json
import struct
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.nn import functional as F

VOCABULARY, LENGTH, BATCH = 30522, 128, 32
CLS, SEP, MASK = 101, 102, 103


class Records:
    """The records of a split, by number."""

    def __init__(self, folder, split):
        self.files = [np.memmap(path, np.uint8, "r")
                      for path in sorted(Path(folder).glob(f"{split}-*.tfrecord"))]
        self.places = []  # (file, first byte, length); a record is its length, a sum, itself, a sum
        for number, data in enumerate(self.files):
            at = 0
            while at < len(data):
                length = struct.unpack_from("<Q", data, at)[0]
                self.places.append((number, at + 12, length))
                at += 16 + length

    def features(self, number):
        file, at, length = self.places[number]
        return numbers_of(bytes(self.files[file][at:at + length]))


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    """(number, bytes) of the length-delimited fields of a protobuf message; the features have no others."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 == 2, "no length-delimited field"
        length, at = varint(data, at)
        yield tag >> 3, data[at:at + length]
        at += length


def packed_integers(data):
    data = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(data < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    return np.add.reduceat((data & 127).astype(np.int64) << (7 * place), starts)


def numbers_of(example):
    """Example.features (1), its map's entries (1), of each the key (1) and value (2), of that FloatList (2) or Int64List (3)."""
    found = {}
    for _, features in fields(example):
        for _, entry in fields(features):
            parts = dict(fields(entry))
            for kind, values in fields(parts[2]):
                packed = next(fields(values))[1]
                found[parts[1].decode()] = (packed_integers(packed) if kind == 3 else
                                            np.frombuffer(packed, np.float32))
    return found


def stacked(records, numbers, names):
    rows = [records.features(number) for number in numbers]
    return {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in names}


def initialise(model):
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if "LayerNorm.weight" in name:
                parameter.fill_(1)
            elif parameter.dim() == 1:
                parameter.zero_()
            else:
                torch.nn.init.trunc_normal_(parameter, 0, 0.02, -0.04, 0.04)


class Bert(torch.nn.Module):
    names = ["input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids",
             "masked_lm_weights", "next_sentence_labels"]

    def __init__(self, dropout=0.1):
        super().__init__()
        self.whole = transformers.BertForPreTraining(transformers.BertConfig(
            hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout))

    def forward(self, batch):
        hidden = self.whole.bert(batch["input_ids"], attention_mask=batch["input_mask"],
                                 token_type_ids=batch["segment_ids"])
        positions = batch["masked_lm_positions"]
        rows = hidden.last_hidden_state.gather(1, positions[..., None].expand(-1, -1, 128))
        logits, follows = self.whole.cls(rows, hidden.pooler_output)
        labels, counted = batch["masked_lm_ids"], batch["masked_lm_weights"] > 0
        words = F.cross_entropy(logits[counted], labels[counted], reduction="sum")
        nsp = F.cross_entropy(follows, batch["next_sentence_labels"][:, 0], reduction="sum")
        right = (logits.argmax(-1) == labels)[counted].sum()
        n, pairs = counted.sum(), len(follows)
        return words / n + nsp / pairs, {"mlm_loss": (words, n), "masked_accuracy": (right, n),
                                         "nsp_loss": (nsp, pairs)}


class Electra(torch.nn.Module):
    names = ["input_ids", "input_mask", "segment_ids"]

    def __init__(self):
        super().__init__()
        shape = dict(vocab_size=VOCABULARY, embedding_size=128, num_hidden_layers=2)
        self.reader = transformers.ElectraForPreTraining(transformers.ElectraConfig(
            hidden_size=128, intermediate_size=512, num_attention_heads=2, **shape))
        self.writer = transformers.ElectraForMaskedLM(transformers.ElectraConfig(
            hidden_size=64, intermediate_size=256, num_attention_heads=1, **shape))
        self.writer.electra.embeddings = self.reader.electra.embeddings
        self.writer.generator_lm_head.weight = self.reader.electra.embeddings.word_embeddings.weight

    def forward(self, batch):
        """The masks of the reference implementation: positions are drawn with replacement, 85 % are shown as [MASK]."""
        ids, real = batch["input_ids"], batch["input_mask"] > 0
        types, lengths = batch["segment_ids"], real.sum(1)
        slots = int(LENGTH * 0.15 + 0.5)
        eligible = (real & (ids != CLS) & (ids != SEP) & (ids != MASK)).double()
        positions = torch.multinomial(eligible, slots, replacement=True)
        wanted = torch.clamp(torch.round(lengths.double() * 0.15), 1, slots)
        counted = torch.arange(slots)[None] < wanted[:, None]
        labels = ids.gather(1, positions)
        masked = ids.clone()
        shown = counted & (torch.rand(len(ids), slots) < 0.85)
        row = torch.arange(len(ids))[:, None].expand_as(positions)
        masked[row[shown], positions[shown]] = MASK
        hidden = self.writer.electra(masked, attention_mask=real.long(), token_type_ids=types)
        rows = hidden.last_hidden_state.gather(1, positions[..., None].expand(-1, -1, 64))
        logits = self.writer.generator_lm_head(self.writer.generator_predictions(rows))
        words = F.cross_entropy(logits[counted], labels[counted], reduction="sum")
        with torch.no_grad():  # what is drawn twice for a position is averaged, as published
            drawn = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1).view(len(ids), slots)
            sums = torch.zeros_like(ids).scatter_add_(1, positions, drawn * counted)
            times = torch.zeros_like(ids).scatter_add_(1, positions, counted.long())
            shown_ids = torch.where(times > 0, sums // times.clamp(min=1), ids)
        judged = self.reader(shown_ids, attention_mask=real.long(), token_type_ids=types).logits
        replaced = (shown_ids != ids) & real
        told = F.binary_cross_entropy_with_logits(judged[real], replaced[real].float(),
                                                  reduction="sum")
        n, tokens, claimed = counted.sum(), real.sum(), (judged > 0) & real
        found = (claimed & replaced).sum()
        return words / n + 50 * told / tokens, {
            "mlm_loss": (words, n), "rtd_loss": (told, tokens),
            "masked_accuracy": ((logits.argmax(-1) == labels)[counted].sum(), n),
            "replaced_precision": (found, claimed.sum()), "replaced_recall": (found, replaced.sum())}


def evaluate(model, records, batches):
    sums = {}
    model.eval()
    with torch.no_grad():
        for first in range(0, batches * BATCH, BATCH):
            _, parts = model(stacked(records, range(first, first + BATCH), model.names))
            for name, pair in parts.items():
                pair = np.array([float(part) for part in pair])
                sums[name] = sums.get(name, 0) + pair
    model.train()
    return {name: round(float(top / max(bottom, 1)), 4) for name, (top, bottom) in sums.items()}


def train(chosen, seed):
    torch.manual_seed(seed)
    hour = chosen.recipe == "bert_hour"
    model = Electra() if chosen.recipe == "electra" else Bert(0.0 if hour else 0.1)
    initialise(model)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    exempt = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                                   {"params": exempt, "weight_decay": 0.0}], lr=1e-3 if hour else 2e-3)
    rise = chosen.steps // 10  # of the hour's rate, which then falls linearly to 0
    share = (lambda step: min((step + 1) / max(rise, 1), (chosen.steps - step) / max(chosen.steps - rise, 1))
             if hour else 1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    training, held_out = Records(chosen.folder, "train"), Records(chosen.folder, "test")
    order = np.random.default_rng(seed).permutation(len(training.places))
    seconds = 0.0
    for step in range(chosen.steps + 1):
        if step % chosen.every == 0:
            batches = 32 if chosen.recipe == "electra" else 64
            print(json.dumps({"seed": seed, "step": step, **evaluate(model, held_out, batches),
                              "seconds_per_step": round(seconds / max(step, 1), 3)}), flush=True)
        if step == chosen.steps:
            break
        batch = stacked(training, order[step * BATCH:(step + 1) * BATCH], model.names)
        begin = time.perf_counter()
        loss, _ = model(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        seconds += time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", choices=["bert", "bert_hour", "electra"])
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--every", type=int, default=60)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    for seed in chosen.seeds:
        train(chosen, seed)


if __name__ == "__main__":
    main()
