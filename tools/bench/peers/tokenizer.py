#!/usr/bin/env python3
"""Seconds to turn the lines of a text into the ids of a WordPiece vocabulary: Assay and Hugging Face's tokenizers in turn, on one
thread.

  tokenizer.py VOCABULARY TEXT --ours build/release/bin/tokenizer_bench

Both must give the same ids. Theirs is timed without offsets, the faster way, and with the lines already in a list.
"""
import argparse
import array
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}


def theirs(tokenizer, lines):
    start = time.perf_counter()
    encoded = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
    seconds = time.perf_counter() - start
    ids = array.array("i", (piece for line in encoded for piece in line.ids))
    return {"seconds": seconds, "pieces": len(ids), "sha256": hashlib.sha256(ids.tobytes()).hexdigest()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary")
    parser.add_argument("text", help="a file in UTF-8")
    parser.add_argument("--ours", required=True, help="path of tokenizer_bench")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    import tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece.from_file(arguments.vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    with open(arguments.text, encoding="utf-8", newline="\n") as file:
        lines = file.read().split("\n")
    ours, other = [], []
    for _ in range(arguments.rounds):
        done = subprocess.run([arguments.ours, arguments.vocabulary, arguments.text], check=True, capture_output=True, text=True)
        ours.append(json.loads(done.stdout))
        other.append(theirs(tokenizer, lines))
        if ours[-1]["sha256"] != other[-1]["sha256"]:
            sys.exit(f"other ids: {ours[-1]['pieces']} and {other[-1]['pieces']} pieces")
    a, b = (statistics.median(run["seconds"] for run in runs) for runs in (ours, other))
    ratios = sorted(y["seconds"] / x["seconds"] for x, y in zip(ours, other))
    size = os.path.getsize(arguments.text) / 2**20
    print(f"{size:.1f} MiB, {ours[0]['pieces']} pieces, medians of {arguments.rounds} rounds: Assay {a:.3f} s ({size / a:.1f} MiB/s), "
          f"tokenizers {tokenizers.__version__} {b:.3f} s ({size / b:.1f} MiB/s), {statistics.median(ratios):.1f} times "
          f"({ratios[0]:.1f} to {ratios[-1]:.1f})")


if __name__ == "__main__":
    main()
