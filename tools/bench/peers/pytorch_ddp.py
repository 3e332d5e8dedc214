#!/usr/bin/env python3
"""PyTorch's time for a training step of DistributedDataParallel over gloo on this machine's CPU, one process a rank.

  pytorch_ddp.py --ranks 2 --models resnet18 bert_base

One line of JSON per model and precision, of rank 0; the batch and the threads are those of each rank.
"""

import argparse
import os

import protocol


def rank_main(rank, chosen, name):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(chosen.port)}
    import torch
    import torch.distributed
    torch.set_num_threads(chosen.threads)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=chosen.ranks)
    torch.manual_seed(rank)
    step = text_step(name, chosen) if name in protocol.TEXTS else image_step(name, chosen)
    for _ in range(10):
        step()
    times = protocol.measure(step, chosen.repeats, warm_up_seconds=0)
    if rank == 0:
        batch = chosen.batch or protocol.batches(name, "train")[0]
        case = (name, "train", "fp32", batch, chosen.threads)
        protocol.report("pytorch", f"ddp-{chosen.ranks}", case, times, torch.__version__)
    torch.distributed.destroy_process_group()


def image_step(name, chosen):
    import torch
    from torch.nn import functional as F
    import pytorch_models
    model, images, labels = pytorch_models.build(name, chosen.batch or protocol.SHAPES[name][3])
    model = torch.nn.parallel.DistributedDataParallel(model.train())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def text_step(name, chosen):
    import torch
    import pytorch_text
    model = pytorch_text.BertPretraining().train()
    batch, length, slots = chosen.batch or 8, protocol.TEXTS[name].length, protocol.TEXTS[name].slots
    ids = torch.randint(pytorch_text.VOCABULARY, (batch, length))
    positions = torch.stack([torch.randperm(length)[:slots] for _ in range(batch)])
    inputs = (ids, torch.zeros_like(ids), positions, torch.randint(pytorch_text.VOCABULARY, (batch, slots)),
              torch.randint(2, (batch,)))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(*inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--batch", type=int, help="of each rank; default: the protocol's")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--models", nargs="+", default=["resnet18"], choices=["cnn", "resnet18", "resnet50", "bert_base"])
    parser.add_argument("--port", type=int, default=29511)
    parser.add_argument("--keep-malloc", action="store_true", help="leave the C library's allocator as it is")
    chosen = parser.parse_args()
    protocol.prepare_process(chosen)
    import torch.multiprocessing
    for name in chosen.models:
        torch.multiprocessing.spawn(rank_main, (chosen, name), chosen.ranks)


if __name__ == "__main__":
    main()
