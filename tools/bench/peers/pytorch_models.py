"""The measured networks as a PyTorch user would write them; see README.md for their layers."""

import torch
from torch import nn
from torch.nn import functional as F

import protocol


class Cnn(nn.Module):
    """conv [32, 64] of 5x5, each with batch norm, relu and 2x2 pooling; then hidden [256]."""

    def __init__(self, size, channels, classes):
        super().__init__()
        layers = []
        for width in (32, 64):
            layers += [nn.Conv2d(channels, width, 5, padding=2, bias=False),
                       nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            channels, size = width, size // 2
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(size * size * channels, 256, bias=False), nn.BatchNorm1d(256),
            nn.ReLU(inplace=True), nn.Linear(256, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + self.shortcut(x), inplace=True)


class ResNet18(nn.Module):
    """Width 64, stem 3x3 of stride 1 without pooling: the form for 32x32 images."""

    def __init__(self, size, channels, classes):
        super().__init__()
        layers = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64),
                  nn.ReLU(inplace=True)]
        inputs = 64
        for width in (64, 128, 256, 512):
            layers += [BasicBlock(inputs, width, 1 if width == inputs else 2),
                       BasicBlock(width, width, 1)]
            inputs = width
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean(dim=(2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Identity() if inputs == 4 * width else nn.Sequential(
            nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x), inplace=True)


class ResNet50(nn.Module):
    """v1.5: the stride is in the 3x3 convolution."""

    def __init__(self, size, channels, classes):
        super().__init__()
        layers = [nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64),
                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
        inputs = 64
        for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(inputs, width, 2 if width > 64 and block == 0 else 1))
                inputs = 4 * width
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(2048, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean(dim=(2, 3)))


class UnetMedical(nn.Module):
    """The published U-Net for micrographs: no padding, transposed convolutions of 3x3 that double the size as
    TensorFlow's SAME does, crops of the encoder's outputs beside them, dropout at the bottom."""

    def __init__(self, width=64, depth=4, classes=2):
        super().__init__()

        def two(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3), nn.ReLU(inplace=True),
                                 nn.Conv2d(outputs, outputs, 3), nn.ReLU(inplace=True))

        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(two(i, o) for i, o in zip([1] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 3, 2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(two(2 * w, w) for w in reversed(widths[:-1]))
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level in self.down[:-1]:
            skips.append(level(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.dropout(self.down[-1](x))
        for up, join in zip(self.up, self.join):
            x = F.relu(up(x)[:, :, :-1, :-1], inplace=True)
            skip = skips.pop()
            cut = (skip.shape[2] - x.shape[2]) // 2
            x = join(torch.cat([x, skip[:, :, cut:cut + x.shape[2], cut:cut + x.shape[3]]], dim=1))
        return self.output(x)


MODELS = {"cnn": Cnn, "resnet18": ResNet18, "resnet50": ResNet50}


def build(name, batch):
    """The model and a batch (images, labels), all channels_last."""
    size, channels, classes, _ = protocol.SHAPES[name]
    torch.manual_seed(1)
    model = MODELS[name](size, channels, classes)
    images = torch.randn(batch, channels, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,))
    return model.to(memory_format=torch.channels_last), images, labels
