#!/usr/bin/env python3
"""The recipe cifar10/resnet18 in PyTorch, for laying its learning curve beside recipe-run's.

  pytorch_cifar10.py FOLDER --width 16 --epochs 5 --seeds 1 2

FOLDER holds data_batch_1.bin to data_batch_5.bin and test_batch.bin. Prints a line of JSON per epoch: seed, epoch, mean training
loss, test accuracy and test loss. Everything that the recipe fixes is fixed here alike; the random numbers are PyTorch's own, so
curves agree in distribution, not number by number.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pytorch_models import BasicBlock

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
STD = torch.tensor([0.247, 0.2435, 0.2616]).view(1, 3, 1, 1)


class ResNet18(nn.Module):
    def __init__(self, width):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        inputs = width
        for outputs in (width, 2 * width, 4 * width, 8 * width):
            layers += [BasicBlock(inputs, outputs, 1 if outputs == inputs else 2),
                       BasicBlock(outputs, outputs, 1)]
            inputs = outputs
        self.features, self.fc = nn.Sequential(*layers), nn.Linear(inputs, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.fc(self.features(x).mean(dim=(2, 3)))


def read(folder, names):
    raw = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names])
    return torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32)), torch.from_numpy(raw[:, 0].astype(np.int64))


def normalised(pixels):
    return ((pixels.float() / 255 - MEAN) / STD).contiguous(memory_format=torch.channels_last)


def augmented(pixels, generator):
    """Shifts by up to 4 pixels, black coming in, then a flip of half the images."""
    n = len(pixels)
    padded = F.pad(pixels, [4] * 4)
    top, left = torch.randint(9, (2, n), generator=generator)
    rows = (top[:, None] + torch.arange(32))[:, None, :, None]
    columns = left[:, None] + torch.arange(32)
    flipped = torch.rand(n, generator=generator) < 0.5
    columns = torch.where(flipped[:, None], columns.flip(1), columns)[:, None, None, :]
    picked = torch.arange(n)[:, None, None, None]
    return padded[picked, torch.arange(3)[None, :, None, None], rows, columns]


def rate(step, epochs, per_epoch):
    """0.1: one epoch of warm-up from a step's share, then a cosine to zero."""
    if step < per_epoch:
        return 0.1 * (step + 1) / per_epoch
    return 0.05 * (1 + math.cos(math.pi * (step - per_epoch) / ((epochs - 1) * per_epoch)))


def evaluate(model, images, labels):
    model.eval()
    correct = loss = 0.0
    with torch.no_grad():
        for x, y in zip(images.split(250), labels.split(250)):
            logits = model(normalised(x))
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            correct += (logits.argmax(1) == y).sum().item()
    model.train()
    return correct / len(labels), loss / len(labels)


def train(seed, arguments, data):
    (images, labels), (test_images, test_labels) = data
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = ResNet18(arguments.width).to(memory_format=torch.channels_last)
    groups = [dict(params=[p for p in model.parameters() if p.dim() > 1], weight_decay=5e-4),
              dict(params=[p for p in model.parameters() if p.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    per_epoch, start = len(labels) // 128, time.time()
    for epoch in range(arguments.epochs):
        order, total = torch.randperm(len(labels), generator=generator), 0.0
        for i in range(per_epoch):
            batch = order[128 * i:128 * (i + 1)]
            for group in optimizer.param_groups:
                group["lr"] = rate(epoch * per_epoch + i, arguments.epochs, per_epoch)
            loss = F.cross_entropy(model(normalised(augmented(images[batch], generator))), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        accuracy, test_loss = evaluate(model, test_images, test_labels)
        print(json.dumps(dict(seed=seed, epoch=epoch + 1, train_loss=round(total / per_epoch, 4),
                              accuracy=accuracy, loss=round(test_loss, 4),
                              seconds=round(time.time() - start, 1))), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    data = (read(arguments.folder, [f"data_batch_{k}.bin" for k in range(1, 6)]),
            read(arguments.folder, ["test_batch.bin"]))
    for seed in arguments.seeds:
        train(seed, arguments, data)


if __name__ == "__main__":
    main()
