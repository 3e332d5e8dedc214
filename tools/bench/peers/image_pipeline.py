#!/usr/bin/env python3
"""Images per second of processor time, one thread, transforms of ImageNet and COCO: Assay, torchvision (Pillow, tensors), OpenCV.

Training: decode, random resized crop (area 0.08 to 1, aspect 3/4 to 4/3) to 224 x 224 with an antialiased triangle filter, flip,
normalise. Evaluation: shorter side to 256, middle 224 x 224, normalise. Every side draws its own windows from the same
distribution. For detectors (tensors only): flip, fit to 0.1 to 2 times 512 x 512 with the aspect kept, bilinear without antialiasing, a
random window, normalise, pad with zeros; normalising last, what torchvision is faster at. OpenCV has no antialiased triangle; INTER_AREA, its filter for shrinking, stands in. Files are in memory.
"""
import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
MEAN, STD = [123.68, 116.779, 103.939], [58.393, 57.12, 57.375]


def read_files(folder):
    files = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jpg"))):
        with open(path, "rb") as file:
            files.append(file.read())
    return files


def torchvision_pillow():
    import io
    import torch
    from PIL import Image
    from torchvision import transforms
    torch.set_num_threads(1)
    tail = [transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float32),
            transforms.Normalize([m / 255 for m in MEAN], [s / 255 for s in STD])]
    train = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), *tail])
    evaluate = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), *tail])

    def run(transform):
        return lambda file: transform(Image.open(io.BytesIO(file)).convert("RGB"))
    return {"train": run(train), "eval": run(evaluate)}


def torchvision_tensor():
    import torch
    from torchvision import io
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    tail = [v2.ToDtype(torch.float32), v2.Normalize(MEAN, STD)]
    train = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), *tail])
    evaluate = v2.Compose([v2.Resize(256, antialias=True), v2.CenterCrop(224), *tail])

    def run(transform):
        def one(file):
            data = torch.frombuffer(bytearray(file), dtype=torch.uint8)
            return transform(io.decode_jpeg(data, mode=io.ImageReadMode.RGB))
        return one

    def detect(image, factor=1.0):
        side = int(512 * factor)
        scale = side / max(image.shape[1:])
        height, width = (max(int(n * scale), 1) for n in image.shape[1:])
        image = v2.functional.resize(image, [height, width], antialias=False)
        top, left = (int(max(n - 512, 0) * random.random()) for n in (height, width))
        image = image[:, top:top + 512, left:left + 512]
        image = v2.functional.normalize(image.to(torch.float32), MEAN, STD)
        return torch.nn.functional.pad(image, (0, 512 - image.shape[2], 0, 512 - image.shape[1]))

    def detect_train(image):
        image = v2.functional.horizontal_flip(image) if random.random() < 0.5 else image
        return detect(image, random.uniform(0.1, 2))
    return {"train": run(train), "eval": run(evaluate), "detect_train": run(detect_train), "detect_eval": run(detect)}


def opencv():
    import math
    import cv2
    import numpy as np
    cv2.setNumThreads(1)
    mean, scale = np.array(MEAN, np.float32), np.array([1 / s for s in STD], np.float32)

    def decode(file):
        return cv2.cvtColor(cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)

    def resize(image, width, height):
        shrinking = width < image.shape[1] and height < image.shape[0]
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR)

    def normalise(image):
        return (image.astype(np.float32) - mean) * scale

    def window(height, width):
        for _ in range(10):
            area = random.uniform(0.08, 1) * height * width
            aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return random.randint(0, height - h), random.randint(0, width - w), h, w
        return 0, 0, height, width

    def train(file):
        image = decode(file)
        top, left, h, w = window(*image.shape[:2])
        image = resize(image[top:top + h, left:left + w], 224, 224)
        return normalise(image[:, ::-1] if random.random() < 0.5 else image)

    def evaluate(file):
        image = decode(file)
        h, w = image.shape[:2]
        factor = 256 / min(h, w)
        image = resize(image, round(w * factor), round(h * factor))
        top, left = (image.shape[0] - 224) // 2, (image.shape[1] - 224) // 2
        return normalise(image[top:top + 224, left:left + 224])
    return {"train": train, "eval": evaluate}


PEERS = {"torchvision-pillow": torchvision_pillow, "torchvision-tensor": torchvision_tensor, "opencv": opencv}


def measure(peer, files, rounds):
    rates = {}
    for name, run in PEERS[peer]().items():
        timed = []
        for _ in range(rounds + 1):  # the first warms up
            start = time.process_time()
            for file in files:
                run(file)
            timed.append(len(files) / (time.process_time() - start))
        rates[name] = statistics.median(timed[1:])
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of .jpg files")
    parser.add_argument("--ours", default="build/release/bin/image_bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", choices=list(PEERS), help="measure this one only, in this process")
    chosen = parser.parse_args()
    if chosen.peer:
        print(json.dumps(measure(chosen.peer, read_files(chosen.folder), chosen.rounds)))
        return
    ours = {}
    for line in subprocess.run([chosen.ours, chosen.folder, str(chosen.rounds)], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.splitlines():
        row = json.loads(line)
        ours[row["name"]] = row["images_per_second"]
    print("| transform | opponent | its img/s | ours img/s | ours / theirs |\n|---|---|---|---|---|")
    for peer in PEERS:  # a fresh process each
        command = [sys.executable, __file__, chosen.folder, "--rounds", str(chosen.rounds), "--peer", peer]
        rates = json.loads(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout)
        for name, rate in rates.items():
            print(f"| {name} | {peer} | {rate:.0f} | {ours[name]:.0f} | {ours[name] / rate:.2f} |")


if __name__ == "__main__":
    main()
