#!/usr/bin/env python3
"""PyTorch's time for BERT and ELECTRA on the CPU, as `transformers` writes them with PyTorch's fused attention.

One line of JSON per model, task, precision and mode:
  eager            training with fused AdamW and dropout 0.1; bf16 is autocast over fp32 weights, in inference bf16 weights
  compile          the same under torch.compile (needs a C++ compiler)
Sequences are full, so no attention mask is given: PyTorch is fastest without. Logits of words are computed for the masked
positions only, as the published scripts do and `transformers` does not.
"""

import torch
import transformers
from torch import nn
from torch.nn import functional as F

import protocol

MODES = ["eager", "compile"]
VOCABULARY = 30522


class BertPretraining(nn.Module):
    def __init__(self, layers=12):
        super().__init__()
        config = transformers.BertConfig(attn_implementation="sdpa", num_hidden_layers=layers)
        self.whole = transformers.BertForPreTraining(config)

    def forward(self, ids, types, positions, words, follows):
        hidden = self.whole.bert(ids, token_type_ids=types)
        rows = hidden.last_hidden_state.gather(1, positions[..., None].expand(-1, -1, 768))
        logits, follow_logits = self.whole.cls(rows, hidden.pooler_output)
        return (F.cross_entropy(logits.float().flatten(0, 1), words.flatten())
                + F.cross_entropy(follow_logits.float(), follows))


class ElectraPretraining(nn.Module):
    """A generator of a third of the width; both share the tables of words, positions and types."""

    def __init__(self, layers=12):
        super().__init__()
        shape = dict(vocab_size=VOCABULARY, embedding_size=768, attn_implementation="sdpa", num_hidden_layers=layers)
        self.reader = transformers.ElectraForPreTraining(transformers.ElectraConfig(
            hidden_size=768, intermediate_size=3072, num_attention_heads=12, **shape))
        self.writer = transformers.ElectraForMaskedLM(transformers.ElectraConfig(
            hidden_size=256, intermediate_size=1024, num_attention_heads=4, **shape))
        self.writer.electra.embeddings = self.reader.electra.embeddings
        self.writer.generator_lm_head.weight = (
            self.reader.electra.embeddings.word_embeddings.weight)

    def forward(self, ids, types, positions, words, _):
        masked = ids.scatter(1, positions, 103)
        hidden = self.writer.electra(masked, token_type_ids=types).last_hidden_state
        rows = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))
        logits = self.writer.generator_lm_head(self.writer.generator_predictions(rows)).float()
        with torch.no_grad():
            noise = -torch.log(-torch.log(torch.rand_like(logits)))
            corrupted = ids.scatter(1, positions, (logits + noise).argmax(-1))
        judged = self.reader(corrupted, token_type_ids=types).logits.float()
        replaced = (corrupted != ids).float()
        return (F.cross_entropy(logits.flatten(0, 1), words.flatten())
                + 50 * F.binary_cross_entropy_with_logits(judged, replaced))


class BertAnswers(nn.Module):
    def __init__(self, layers=12):
        super().__init__()
        config = transformers.BertConfig(attn_implementation="sdpa", num_hidden_layers=layers)
        self.whole = transformers.BertForQuestionAnswering(config)

    def forward(self, ids, types, positions=None, words=None, _=None):
        out = self.whole(ids, token_type_ids=types)
        if positions is None:
            return out.start_logits, out.end_logits
        return (F.cross_entropy(out.start_logits.float(), positions[:, 0])
                + F.cross_entropy(out.end_logits.float(), positions[:, 1])) / 2


MODELS = {"bert_base": BertPretraining, "bert_base_512": BertPretraining,
          "electra_base_pretraining": ElectraPretraining, "electra_base_pretraining_512": ElectraPretraining,
          "bert_base_squad": BertAnswers, "bert_base_squad128": BertAnswers}


def inputs_of(name, batch):
    length, slots = protocol.TEXTS[name].length, protocol.TEXTS[name].slots or 2
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(1000, VOCABULARY, (batch, length), generator=random)
    types = (torch.arange(length)[None] >= length // 2).long().expand(batch, -1).contiguous()
    positions = torch.stack([torch.randperm(length, generator=random)[:slots] for _ in range(batch)])
    return ids, types, positions, ids.gather(1, positions), torch.arange(batch) % 2


def training_step(name, batch, precision, mode):
    model = MODELS[name]().train()
    inputs = inputs_of(name, batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(*batch_of):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return model(*batch_of)

    forward = torch.compile(loss_of) if mode == "compile" else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(*inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def predictor(name, batch, precision, mode):
    model = MODELS[name]().eval()
    ids, types = inputs_of(name, batch)[:2]
    if precision == "bf16":
        model = model.bfloat16()
    if mode == "compile":
        import torch._inductor.config as inductor
        inductor.freezing = True
        model = torch.compile(model)

    def run():
        with torch.no_grad() if mode == "compile" else torch.inference_mode():
            return model(ids, types)

    return run


def main():
    chosen = protocol.arguments(__doc__.splitlines()[0], ["fp32", "bf16"], MODES, protocol.TEXTS)
    torch.set_num_threads(chosen.threads)
    make = training_step if chosen.task == "train" else predictor
    for name in chosen.models:
        for precision in chosen.precisions:
            for batch in chosen.batches or protocol.batches(name, chosen.task):
                for mode in chosen.modes:
                    torch.compiler.reset()
                    times = protocol.measure(make(name, batch, precision, mode), chosen.repeats)
                    case = (name, chosen.task, precision, batch, chosen.threads)
                    protocol.report("pytorch", mode, case, times, torch.__version__)


if __name__ == "__main__":
    main()
