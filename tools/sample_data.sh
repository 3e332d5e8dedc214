#!/usr/bin/env bash
# Converts what lies in a folder of sample data to the data sets of the small recipes: data/imagenet_sample (800 images to train, 43
# originals as val, 1000 classes), data/cifar10 (all 60,000 images, from a lossy JPEG copy), data/coco (80 images), data/squad (v1.1, a part of
# the questions for training), data/bert_pretraining and data/electra_pretraining (the text of recipes/small_corpus.md).
#
#   tools/sample_data.sh SAMPLES [TARGET]      e.g. tools/sample_data.sh ../shared/data data
#
# SAMPLES holds imagenet-sample/, cifar10-jpeg/, coco-tiny/, squad/ and text-corpus/, these two with bert-vocab/, or some of them. Needs dataset-convert in
# build/*/bin (tools/quickstart.sh builds it), python3, xz and 250 MB below TARGET/.unpacked, which stays for the next call.
set -euo pipefail
case "${1:-}" in
  "" | -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
samples=$(realpath "$1")
target=$(realpath -m "${2:-data}")
unpacked=$target/.unpacked
cd "$(dirname "$0")/.."
convert=$(ls -t build/*/bin/dataset-convert 2>/dev/null | head -1) || true
[ -x "${convert:-}" ] || { echo "There is no build/*/bin/dataset-convert; call tools/quickstart.sh or build it first." >&2; exit 1; }
mkdir -p "$unpacked"

# unpack ARCHIVE FOLDER: once.
unpack() {
  [ ! -e "$2.done" ] || return 0
  mkdir -p "$2"
  case "$1" in
    *.txt.xz) xz -dc "$1" >"$2/$(basename "${1%.xz}")" ;;
    *.zip) python3 -m zipfile -e "$1" "$2" ;;
    *) tar -xf "$1" -C "$2" ;;
  esac
  touch "$2.done"
}

# write_list FOLDER: a list of the images in it, which are named CLASS_wnid.jpg, beside it.
write_list() {
  (cd "$1" && printf '%s\n' *.jpg) | awk '{ printf "%d\t%d\t%s\n", NR - 1, substr($1, 1, 4), $1 }' >"$1.lst"
}

if [ -d "$samples/imagenet-sample" ]; then
  from=$samples/imagenet-sample
  unpack "$from/imagenet_sample_800_s256_q85.zip" "$unpacked/imagenet/train"
  unpack "$from/imagenet_originals_subset.zip" "$unpacked/imagenet/val"
  write_list "$unpacked/imagenet/train"
  write_list "$unpacked/imagenet/val"
  cp -f "$from/classes.tsv" "$unpacked/imagenet/classes.tsv"
  "$convert" imagenet --from "$unpacked/imagenet" --to "$target/imagenet_sample"
fi
if [ -d "$samples/cifar10-jpeg" ]; then
  unpack "$samples/cifar10-jpeg/cifar10_jpeg.tar.xz" "$unpacked/cifar10"
  "$convert" cifar10 --from "$unpacked/cifar10" --to "$target/cifar10"
fi
if [ -d "$samples/coco-tiny" ]; then
  "$convert" coco --from "$samples/coco-tiny/coco_tiny.zip" --to "$target/coco"
fi
vocabulary=$samples/bert-vocab/bert-base-uncased-vocab.txt
if [ -d "$samples/squad" ]; then
  "$convert" squad --from "$samples/squad" --to "$target/squad" --set vocabulary="$vocabulary" --set train=train-v1.1-part.json.gz
fi
if [ -d "$samples/text-corpus" ]; then
  for text in books wikipedia_paragraphs; do
    unpack "$samples/text-corpus/$text.txt.xz" "$unpacked/text/$text"
  done
  mkdir -p "$unpacked/texts"
  ln -sf "$unpacked"/text/*/*.txt "$unpacked/texts"
  for kind in bert_pretraining electra_pretraining; do
    "$convert" $kind --from "$unpacked/texts" --to "$target/$kind" --set vocabulary="$vocabulary" --set lines=paragraphs --set held_out=20
  done
fi
