/* Assay: data sets, loaders, text and detections.
 *
 * A data set is a folder that assay_dataset_convert made from the files its authors publish: record
 * files and a manifest. A loader gives its samples as batches that a trainer takes as they are, and
 * so it does with samples that a function of the host gives one by one (assay_loader_from_samples).
 * Nothing here is needed to train: any host memory can be a batch (assay_tensor_borrow).
 *
 * The conventions are those of assay.h. What batch k of epoch e holds depends on nothing but the
 * seed, the data, the batch size and the ranks: the number of workers, the depth of prefetching and
 * restarts only change the time it takes. */
#ifndef ASSAY_ASSAY_DATA_H
#define ASSAY_ASSAY_DATA_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_loader assay_loader;               /* assay_loader_free */
typedef struct assay_text assay_text;                   /* assay_text_free */
typedef struct assay_text_question assay_text_question; /* assay_text_question_free */
typedef struct assay_text_squad assay_text_squad;       /* assay_text_squad_free */
typedef struct assay_detections assay_detections;       /* assay_detections_free */

/* ---- Data sets ------------------------------------------------------------------------------- */

/* Called now and then on the thread of the call.
 *   phase        "train", "checking test", ...; lasts for the call
 *   done, total  records of this phase
 *   returns 0 to go on; anything negative to stop: the call then fails with ASSAY_E_CANCELLED and
 *   native_code is that number */
typedef int32_t (*assay_progress)(uintptr_t user, assay_str phase, int64_t done, int64_t total);

/* The data sets that assay_dataset_convert knows.
 *   report  datasets [{name, summary, licence, default_source, samples: how its records become
 *           samples, by which of the transforms below, "images", "photographs", "objects",
 *           "micrographs", "masked_pairs", "sequences" or "windows"; options: keys of its
 *           conversion beside those of all, [{key, type: "text", "number" or "bool", text, default: as
 *           JSON, "\"\"" or "none" where there is none, range: "[5, 512]" or the texts that it
 *           takes, "" if any}]}]
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_list(assay_report **out, assay_error **err);

/* Conversion of "coco": keys of options_json.
 *   "train", "val"     files of instances in the source; annotations/instances_train2017.json and
 *                      annotations/instances_val2017.json, where they are there
 *   "train_images", "val_images"  folders of the images that they name; train2017 and val2017
 * Images need "file_name", "height" and "width" there, and categories "name", besides what
 * assay_detections_score needs. The source is a folder, with the zip archives directly in it, or one
 * such archive. Boxes that are
 * empty, inverted or not inside of their image are dropped; images of another size than the file of
 * instances says are left out: the report counts both. At most 99 boxes of an image are no crowds.
 * Categories are 1 to 10000, and class c of a detector is category c + 1. A folder may hold the
 * record files of TensorFlow's object detection instead, "*train*record*" and "*val*record*": their
 * images are checked, and records kept as they are. */

/* Conversions of text: keys of options_json, with [ranges], then defaults. Of "bert_pretraining"
 * and "electra_pretraining" the source may also be TFRecord files ("tfrecord" or "tf_record" in
 * their names) that the published scripts wrote: they are checked and become the split "train", for
 * which vocabulary, lengths and slots must be given as they were made. So may that of "squad", if no
 * file of SQuAD is beside them, with version, stride and max_question as well, which no record
 * tells; those with "eval" in their names are left out.
 *
 * Of "squad", "bert_pretraining" and "electra_pretraining":
 *   "vocabulary"       file of a WordPiece vocabulary, one piece a line; needed
 *   "sequence_length"  [5, 512], 384 of squad, else 128. Pieces of a sequence, with padding
 *   "protect_special"  true; false of bert_pretraining. Whether "[MASK]" and the like in a text are
 *                      themselves, or punctuation and words
 *   "longest_word"     [1, 10000], 100. Words of more characters are [UNK]
 *
 * Of "squad", whose records are windows over the paragraph of a question:
 *   "version"          "1.1" (default) or "2.0"
 *   "train", "dev"     files in the source; train-v<version>.json or .json.gz, and dev likewise
 *   "stride"           [1, 512], 128. From one window's part of the paragraph to the next
 *   "max_question"     [0, 512], 64. Pieces of the question that are kept
 *
 * Of "bert_pretraining" and "electra_pretraining", made of documents with an empty line between:
 *   "lines"            "sentences" (default): each line is one; "paragraphs": lines are cut into
 *                      sentences
 *   "held_out"         0. Every so many-th document goes to the split "test"; 0: none
 *   "seed"             64 bits, 0
 *
 * Of "bert_pretraining":
 *   "prediction_slots"  [1, 512], 20. Masked pieces of a sequence
 *   "duplicates"       [1, 1000], 5. Passes over the text, each with other pairs and masks
 *   "masked_fraction"  (0, 1], 0.15. Of a sequence's pieces
 *   "short_fraction"   [0, 1], 0.1. Of sequences that aim at a random shorter length */

/* Turns published files into a data set. Returns at once if the folder already holds the same. A
 * conversion that failed or was stopped leaves nothing behind; only those of "imagenet", "coco" and
 * of text ("squad", "bert_pretraining", "electra_pretraining") keep finished shards (record files),
 * from which the next call with the same arguments continues, even if the process was killed.
 * Images that cannot be decoded are left out, and files of other formats than JPEG need
 * assay_host.read_image. The report counts both.
 *   name          of assay_dataset_list
 *   source        where the published files lie; empty: default_source
 *   target        the folder to fill; created if need be
 *   options_json  {"shards": files per split, 0 lets the data set choose, "overwrite": false}, and
 *                 the data set's own keys ("Conversions of text" above); empty: defaults
 *   progress      may be NULL; user is handed to it
 *   out           may be NULL; report as assay_dataset_report
 *   errors  ASSAY_E_NOT_FOUND, ASSAY_E_FORMAT: the source; ASSAY_E_IO; ASSAY_E_BUSY: another
 *           process converts into the folder; ASSAY_E_INVALID; ASSAY_E_CANCELLED
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_convert(const assay_context *c, assay_str name,
                                             assay_str source, assay_str target,
                                             assay_str options_json, assay_progress progress,
                                             uintptr_t user, assay_report **out, assay_error **err);

/* Describes a data set by its manifest.
 *   report  format_version, dataset, licence,
 *           splits [{name, records, content_sha256, shards [{file, records, bytes, crc32c,
 *           findings [{kind ("left out", "re-encoded as JPEG", "CMYK", "grey", "empty or inverted
 *           box", "box outside of its image"), count, examples [..]}]}]}],
 *           sources [{file, bytes, sha256}], classes, class_names [..],
 *           settings [{key, value}]: how text was converted,
 *           files [{file, bytes, sha256}]: what lies beside the records: of text "vocab.txt", of
 *           squad and coco the published file of each split, unpacked, "train.json" and "dev.json"
 *           or "val.json"
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT; ASSAY_E_VERSION; ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_report(assay_str folder, assay_report **out,
                                            assay_error **err);

/* Reads all of a data set and compares every checksum and digest with the manifest.
 *   progress  may be NULL; user is handed to it
 *   errors  ASSAY_E_FORMAT names the first file and record that differ; ASSAY_E_NOT_FOUND;
 *           ASSAY_E_IO; ASSAY_E_VERSION; ASSAY_E_INVALID; ASSAY_E_CANCELLED
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_verify(const assay_context *c, assay_str folder,
                                            assay_progress progress, uintptr_t user,
                                            assay_error **err);

/* Writes a data set of JPEG images in another format: as <split>.rec and <split>.idx, packed as by
 * MXNet's im2rec, in the order of the data set.
 *   target        the folder to write into; created if need be
 *   options_json  {"format": "recordio" (default), "overwrite": false}; empty: defaults
 *   progress      may be NULL; user is handed to it
 *   errors  ASSAY_E_UNSUPPORTED: its images are not JPEG; ASSAY_E_INVALID: a file of that name is
 *           there already; ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT; ASSAY_E_VERSION;
 *           ASSAY_E_CANCELLED
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_export(const assay_context *c, assay_str folder,
                                            assay_str target, assay_str options_json,
                                            assay_progress progress, uintptr_t user,
                                            assay_error **err);

/* ---- Loaders --------------------------------------------------------------------------------- */

/* Transforms: one JSON object. After a key stand its range in brackets and its default.
 *
 * Of data sets of small pictures (fashion_mnist, ...), steps in this order:
 *   "crop_padding"         [0, size of the image], 0. Random shift by up to so many pixels to
 *                          each side; what comes in is black
 *   "flip_horizontal", "flip_vertical"  [0, 1], 0. Probabilities
 *   "rotation_degrees"     [0, 180], 0. Random angle to both sides, bilinear, black outside
 *   "scale"                1/255. A pixel p becomes (p scale - mean) / stddev
 *   "mean", "stddev"       lists of one number, or of one per channel; a list of 0, and of 1
 *   "erasing_probability"  [0, 1], 0. A rectangle is overwritten
 *   "erasing_min_area", "erasing_max_area"      its share of the image, 0.02 and 0.33
 *   "erasing_min_aspect", "erasing_max_aspect"  its height / width, 0.3 and 3.3
 *   "erasing_value"        0
 *   "raw"                  false. true: shift, mirroring and normalisation are left to a trainer
 *                          with "raw_images", and a sample is "image" u8, "label", "placement"
 *                          i32[4]. Rotation, erasing, scale, mean and stddev are errors then
 *
 * Of data sets of JPEG files (imagenet, ...):
 *   "crop"                 "centre" (default): the image is resized until its shorter side has
 *                          resize_shorter pixels, and its middle is taken; "random": a random
 *                          window is resized; "stretch": the whole image is resized
 *   "size"                 [1, 4096], 224. Rows and columns of the result
 *   "resize_shorter"       centre: at least size, 256
 *   "min_area", "max_area"      random: share of the image, 0.08 and 1
 *   "min_aspect", "max_aspect"  random: width / height, 3/4 and 4/3
 *   "flip_horizontal", "scale", "mean", "stddev"  as above
 *   "channels"             3 (default), or 4: a channel of zeros behind red, green and blue
 *   "reduced_decoding"     true for "random", else false. Decodes at a half, a quarter or an
 *                          eighth of the image's size where twice `size` remains: faster, and
 *                          within a few grey levels of the same
 *   "raw"                  false. true: mirroring and normalisation are left to a trainer, as
 *                          above; scale, mean, stddev and channels are errors then
 *
 * Of photographs with boxes (coco): the image is normalised, mirrored, and resized with its aspect
 * kept (bilinear, the rule of TensorFlow 1) until it fits; it lies at the upper left of zeros.
 *   "size"                 [rows, columns] of the result, each [1, 4096]; [512, 512]
 *   "scale_jitter"         [least, largest], each [0.01, 100], none: a random factor of the size
 *                          that the image is fit to; of a larger one a random part is seen. For
 *                          training
 *   "flip_horizontal", "scale", "mean", "stddev"  as above
 *   "origin"               false. true: what a sample shows is said behind its other arrays
 * A sample is "image", "boxes" f32[99, 4], (ymin, xmin, ymax, xmax) in its pixels, zeros behind the
 * last, "classes" i32[99], -1 behind the last, and "count" i32 of boxes, -1 for padding. Crowds are
 * no boxes; boxes are cut one pixel inside of the sample's end, and dropped if nothing is left.
 * With origin, "source_id" i64, the image's id, -1 if it is no number, and "scale" f32, which times
 * the sample's pixels gives the image's
 *
 * Of micrographs with masks (isbi2012_em), steps in this order:
 *   "scale", "offset"      1/127.5 and -1. A pixel p becomes p scale + offset
 *   "size"                 388. Image and mask are resized to size x size, bilinear
 *   "padded"               572. Then zeros surround both, up to padded x padded
 *   "flip_horizontal", "flip_vertical"  [0, 1], 0. Probabilities
 *   "max_cut"              [0, 0.5), 0. From each side up to this share is cut off; what remains is
 *                          resized to padded x padded
 *   "max_brightness"       0. A random number up to this is added to the image or taken from it
 *   "clip"                 [low, high], none. Numbers of the image outside are set to the nearer
 *
 * Of text: what the conversion was told, where it matters; another number is an error:
 *   "sequence_length"      L
 *   "prediction_slots"     masked pairs: P
 *   "stride", "max_question"  windows
 * A sample, all i32, is "input_ids" [L] and "segment_ids" [L], behind the sequence [PAD] and 0,
 * and "length", its tokens; then of masked pairs (bert_pretraining) "masked_lm_positions" [P] and
 * "masked_lm_ids" [P], 0 and -1 where a slot has none, and "next_sentence_labels", 1 if the second
 * segment does not follow the first; of windows (squad) "start_positions" and "end_positions" of
 * the answer, 0 where the window has none, and "is_impossible", 1 if it has none, all three -1
 * where the answer is not known. An answer may lie on token 0 and on those of type 1 but the last.
 * Sequences (electra_pretraining) have nothing more */

/* A loader of one split of a data set. Its worker threads start with the first batch.
 *   folder          of the data set
 *   split           "train", "test", ...
 *   config_json     keys, with [ranges], then defaults:
 *     "batch_size"  [1, 2^24]; needed. Samples of a batch, on this rank
 *     "seed"        64 bits, 0. Of order and augmentation
 *     "order"       "shuffled" (default): anew in each epoch; "sequential": as in the files;
 *                   "stream": no epochs; the rank's samples, repeated forever, come in random
 *                   order out of a buffer; "rotating": the same, but a rank's samples are one
 *                   contiguous part of the split after the other, as with DALI's readers
 *     "buffer"      stream: [1, 2^24], three batches; rotating: 1024. Samples in the buffer
 *     "record"      [numbers], []. Only these records of the split, in this order; [] is all
 *     "last_batch"  what becomes of an epoch's last batch if the samples do not fill it: "drop"
 *                   (default) leaves it out, "pad" fills it with padding, "wrap" with samples from
 *                   the beginning of the epoch's order
 *     "accumulate"  [1, 2^20], 1. That of the trainer: last_batch then holds for the last update
 *                   of an epoch, so that no update takes batches of two epochs
 *     "epochs"      [0, 2^32), 0: it never ends (stream, rotating: after 2^34 samples of this
 *                   rank)
 *     "rank", "world_size"  0 and 1. Global batch k holds positions k B W to (k + 1) B W of the
 *                   order, rank r its r-th part of B
 *     "workers"     [0, 256], 2. Threads that fill batches; 0 fills them in the caller
 *     "prefetch"    [1, 4096], 4. Batches kept ready; as many as there are workers, if those are more
 *     "cache_mib"   >= 0, 512. Memory for prepared samples in MiB, with 8 bytes for the place of
 *                   each sample of the split: where those alone are more, nothing is kept
 *   transform_json  how a record becomes a sample; empty: defaults. "Transforms" above
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_INVALID naming the key; ASSAY_E_IO; ASSAY_E_FORMAT;
 *           ASSAY_E_VERSION
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_loader_create(const assay_context *c, assay_str folder,
                                           assay_str split, assay_str config_json,
                                           assay_str transform_json, assay_loader **out,
                                           assay_error **err);

/* Takes a part of a sample, which is copied: an array or a feature. To be called on the thread and
 * during the call that `to` came with. It says nothing: a part that does not fit fails the sample
 * once `sample` has returned, and so the assay_loader_next that wants it.
 *   name      of the part
 *   dtype     of its numbers
 *   data      `elements` numbers, aligned to their type; may be NULL for none. A sample has at most
 *             2^28 bytes */
typedef void (*assay_give)(void *to, assay_str name, assay_dtype dtype, const void *data,
                           size_t elements);

/* Samples of the host. Its functions are called as long as the loader or a tensor of one of its
 * batches lives. */
typedef struct assay_samples {
  size_t struct_size;
  const assay_ext *next;
  uintptr_t user; /* handed to the functions below */
  int64_t count;  /* [1, 2^32 - 2]. A shuffled order takes 4 bytes for each */
  /* Gives sample `index`, from 0, by calling `give` with `to` for each of its parts, in any order.
   * The same whenever it is asked for: what is kept ("cache_mib") is not asked for again. Called on
   * the loader's workers, several at once; with one worker one at a time, without workers in
   * assay_loader_next itself.
   * The library holds no lock meanwhile, but assay_loader_next, when it fails, and
   * assay_loader_restore, _seek, _free and the release of the last tensor of its batches wait for
   * the calls that run: who makes one of them must hold no lock that this function takes. Made in
   * this function, on a worker of the same loader, the first three are ASSAY_E_BUSY, and the others
   * return at once: a thread of the library does what remains, and if none can be started, it stays
   * undone. Without workers the loader must not be freed here, for a call on it runs.
   *   returns 0; anything else if there is no such sample now: assay_loader_next fails with
   *           ASSAY_E_CALLBACK and that number as native_code, and asks again when it is called
   *           again. After an interruption the answer is dropped */
  int32_t (*sample)(uintptr_t user, int64_t index, assay_give give, void *to);
  /* Called once, when no function will be called any more, on the thread that freed the last of
   * what needs them, or, if that was done in `sample`, on one of the library; may be NULL. */
  void (*release)(uintptr_t user);
} assay_samples;

/* A loader of samples that the host has: order, ranks, transforms, padding, prefetching and
 * positions are those of a data set with the same records, to the bit. Its report has no "dataset"
 * and no "split".
 *
 * Where a sample does not fit, assay_loader_next says which and why: ASSAY_E_CALLBACK for an array
 * that is missing, or of another type or size; for arrays and features that the kind does not have,
 * that are given twice, or are more than 2^28 bytes, and for features of a type that none is of;
 * ASSAY_E_FORMAT for a feature that is missing or that its transform cannot use.
 *   samples         copied; its release is not called on failure
 *   sample_json     what a sample is; keys, with [ranges], then defaults:
 *     "kind"        what is given for a sample, and what it becomes:
 *                   "arrays" (default)  each of "arrays" as it is to stand in the batch
 *                   "images"       "image" u8 [rows, columns, channels], "label" i32 or i64: one of
 *                                  the small pictures of "Transforms"
 *                   "photographs"  "jpeg" u8, a JPEG file, "label": one of its JPEG files
 *                   "objects"      photographs with boxes: "image/encoded" u8, a JPEG file, and for
 *                                  each box a number of "image/object/bbox/ymin", .../xmin,
 *                                  .../ymax and .../xmax f32, shares of the image's height and
 *                                  width, and of "image/object/class/label" i64, from 1; as one
 *                                  likes "image/object/is_crowd" i64 and "image/source_id" u8, text
 *                   "micrographs"  "image" and "mask" u8, the latter 0 or 255 or left out,
 *                                  "height", "width"
 *                   What else records of data sets hold may be given too, and is not looked at: of
 *                   photographs "id"; of objects "image/format", "image/key/sha256",
 *                   "image/filename", "image/height", "image/width", "image/object/area" and
 *                   "image/object/class/text"
 *     "arrays"      arrays: [objects]; needed. In the order of a batch
 *       "name"      of its own
 *       "dtype"     "f32" (default), "i32", "i64" or "u8"
 *       "shape"     of one sample, at most 7 sizes; [] (one number)
 *       "label"     false. i32: rows of padding hold -1, where others hold 0
 *     "image"       images: [rows, columns, channels], each [1, 16384]; needed
 *     "classes"     images, photographs, objects: [1, 2^31 - 1]; needed. Labels are below it, those
 *                   of objects at most it
 *   config_json     as for assay_loader_create
 *   transform_json  keys of the kind, "Transforms" above; empty: defaults. Nothing for arrays
 *   errors  ASSAY_E_INVALID naming the key; ASSAY_E_OOM_HOST
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_loader_from_samples(const assay_context *c,
                                                 const assay_samples *samples,
                                                 assay_str sample_json, assay_str config_json,
                                                 assay_str transform_json, assay_loader **out,
                                                 assay_error **err);

typedef struct assay_batch_info {
  size_t struct_size;
  const assay_ext *next;
  int64_t epoch;       /* which pass over the data this batch is of, from 0 */
  int64_t batch;       /* which batch of that pass, from 0 */
  int64_t rows;        /* of the tensors */
  int64_t valid;       /* the first of them that are samples; the others are padding, label -1 */
  double wait_seconds; /* how long this call waited for the workers */
} assay_batch_info;

/* The next batch.
 *   batch   n places, at most as many as the report's arrays, filled in its order with read-only
 *           tensors of the loader: not to be released, valid until the next assay_loader_next,
 *           _restore, _seek or _free of this loader. They may go into assay_trainer_step as they
 *           are
 *   info    may be NULL
 *   errors  ASSAY_E_END_OF_DATA after the last batch of the last epoch; ASSAY_E_FORMAT, ASSAY_E_IO:
 *           a record, named in the message; calling again reads it again, data is never skipped;
 *           ASSAY_E_CALLBACK, and ASSAY_E_FORMAT also: a sample of the host; ASSAY_E_CANCELLED:
 *           calling again goes on; ASSAY_E_BUSY: another thread uses the loader or one of its
 *           tensors; ASSAY_E_INVALID
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_loader_next(assay_loader *l, const assay_tensor **batch, size_t n,
                                         assay_batch_info *info, assay_error **err);

/* Stops the assay_loader_next that runs, as assay_trainer_interrupt does a step.
 *   returns ASSAY_E_INVALID for NULL
 *   threads any, beside other calls   since 1.0, provisional */
ASSAY_API assay_status assay_loader_interrupt(const assay_loader *l);

/* The position after the batches given so far, as bytes for a checkpoint (metadata "assay.cursor").
 *   dst       room for `capacity` bytes, or NULL to ask for the size only
 *   capacity  bytes
 *   size      receives the size of the position, also if there is too little room
 *   errors    ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_loader_cursor(const assay_loader *l, void *dst, size_t capacity,
                                           size_t *size, assay_error **err);

/* Continues at a position.
 *   src, size  of assay_loader_cursor of a loader with the same data, seed, order and global batch
 *   errors  ASSAY_E_INVALID: of another loader; ASSAY_E_FORMAT: not such bytes; ASSAY_E_BUSY
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_loader_restore(assay_loader *l, const void *src, size_t size,
                                            assay_error **err);

/* Continues at the first batch of an epoch: 0 starts over, for another pass of evaluation.
 *   errors  ASSAY_E_INVALID: beyond the configured epochs; ASSAY_E_BUSY
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_loader_seek(assay_loader *l, int64_t epoch, assay_error **err);

/* Describes what the loader gives and whether it keeps up with the training.
 *   report  dataset, split, config {..resolved..}, samples, batch_size, batches_per_epoch, epoch,
 *           batch (the next),
 *           arrays [{name, dtype, sample_shape [..]}] in the order of a batch,
 *           samples_delivered, wait_seconds (time spent in assay_loader_next waiting for workers);
 *           from the first batch on: seconds (since it was asked for), samples_per_second
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_loader_report(const assay_loader *l, assay_report **out,
                                           assay_error **err);

/* Ends the worker threads, waiting for at most one sample each. They end once no tensor of its
 * batches is left: while the host still holds one, they may fill batches that nobody takes.
 * since 1.0, stable */
ASSAY_API void assay_loader_free(assay_loader *l);

/* ---- Text ------------------------------------------------------------------------------------ */

/* Texts become ids as BERT and ELECTRA read them (uncased WordPiece): words in lower case without
 * accents, each cut into the longest pieces of the vocabulary from the left. All of this section is
 * provisional: it may change before it is declared stable. */

/* A vocabulary with its tokenizer.
 *   path         of a vocabulary file, one piece a line; or the folder of a data set of text; or a
 *                checkpoint that carries one (assay_text_attach)
 *   config_json  of a file: "protect_special" true: "[MASK]" and the like in a text are themselves;
 *                "longest_word" [1, 10000], 100: words of more characters are [UNK]. Empty for a
 *                data set and a checkpoint, which say it
 *   errors  ASSAY_E_IO, ASSAY_E_NOT_FOUND, also for a checkpoint that carries none; ASSAY_E_FORMAT
 *           with the line: a piece that is empty,
 *           twice there, holds a blank or is not UTF-8, lines that end in CR LF, no [PAD], [UNK],
 *           [CLS], [SEP] or [MASK]; a file beside a data set that was changed; ASSAY_E_VERSION;
 *           ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_create(assay_str path, assay_str config_json, assay_text **out,
                                         assay_error **err);

/* The same of a vocabulary in memory.
 *   vocabulary   the contents of the file
 *   errors  ASSAY_E_FORMAT as assay_text_create; ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_parse(assay_str vocabulary, assay_str config_json,
                                        assay_text **out, assay_error **err);

/* The contents of the vocabulary's file, borrowed until the text is freed.
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_vocabulary(const assay_text *t, assay_str *out,
                                             assay_error **err);

/* From now on the trainer's checkpoints carry the vocabulary and its settings, under keys of its
 * metadata that begin with "assay.text.": who answers needs no other file. Copies them.
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads alone, with the trainer's model   since 1.0, provisional */
ASSAY_API assay_status assay_text_attach(const assay_text *t, assay_trainer *trainer,
                                         assay_error **err);

/* The pieces of a text, without [CLS] and [SEP].
 *   ids         room for `capacity` ids, or NULL
 *   begin, end  the bytes of the text that a piece stands for, of [UNK] all of its word; each may
 *               be NULL
 *   capacity    elements of each array that is given
 *   count       receives the number of pieces; with three NULLs that is all that is done
 *   errors  ASSAY_E_FORMAT with the byte: text that is not UTF-8; ASSAY_E_INVALID: too little room
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_tokenize(const assay_text *t, assay_str text, int32_t *ids,
                                           int64_t *begin, int64_t *end, size_t capacity,
                                           size_t *count, assay_error **err);

/* since 1.0, provisional */
ASSAY_API void assay_text_free(assay_text *t);

/* A question about a paragraph as windows of one length: [CLS] question [SEP] a part of the
 * paragraph [SEP]. Keeps copies of what it needs: text, question and paragraph may go.
 *   config_json  keys, with [ranges], then defaults: "sequence_length" [5, 512], 384: of a window,
 *                at least stride + max_question + 3; "stride" [1, 512], 128: from one window's part
 *                to the next; "max_question" [0, 512], 64: pieces of the question that are kept
 *   errors  ASSAY_E_FORMAT: not UTF-8; ASSAY_E_INVALID: a paragraph without words, windows that
 *           would leave out a part of it
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_question_create(const assay_text *t, assay_str question,
                                                  assay_str paragraph, assay_str config_json,
                                                  assay_text_question **out, assay_error **err);

/* How many windows there are, and the length of each, padding included.
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_question_size(const assay_text_question *q, int64_t *windows,
                                                int64_t *length, assay_error **err);

/* One window, as the rows of a batch.
 *   window      0 to windows - 1
 *   ids, types  room for a window's length each; behind the pieces [PAD], and 0
 *   length      receives the number of pieces
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_question_read(const assay_text_question *q, int64_t window,
                                                int32_t *ids, int32_t *types, int32_t *length,
                                                assay_error **err);

/* The texts that a model's scores mean, of all windows together.
 *   start, end   n = windows x length numbers each, window by window: the scores of a position as
 *                the answer's start and end, logits or log-probabilities; those of padding are not
 *                read
 *   config_json  empty: defaults.
 *                "n_best" [1, 512], 20: best starts and ends of a window, and texts that are kept
 *                "longest_answer" [1, 512], 30: in pieces
 *                "null_threshold" none: there always is an answer. SQuAD 2.0 answers "" where
 *                no_answer exceeds the best answer's score by more than this; BERT's is 0
 *   report       answer: the best text, or "". answers [{text, score}], best first, as they stand
 *                in the paragraph, score the sum of both; "empty" with 0 if no position can be an
 *                answer, as the published scripts have it. no_answer: the smallest score of [CLS]
 *                over the windows
 *   errors  ASSAY_E_INVALID: another n, numbers that are not finite
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_question_answer(const assay_text_question *q, const float *start,
                                                  const float *end, size_t n,
                                                  assay_str config_json, assay_report **out,
                                                  assay_error **err);

/* What a model proposes that chooses spans itself, as "electra_base_qa" does: of each window some
 * starts, and of each start some ends. */
typedef struct assay_text_spans {
  size_t struct_size;
  const assay_ext *next;
  int64_t windows, starts, ends; /* all at least 1 */
  const int32_t *start;          /* [windows, starts] positions in the window, not negative */
  const float *start_log_prob;   /* [windows, starts] */
  const int32_t *end;            /* [windows, starts, ends] */
  const float *end_log_prob;     /* [windows, starts, ends] */
  const float *class_logit;      /* [windows], positive: no answer; NULL: of SQuAD 1.1 */
} assay_text_spans;

/* assay_text_question_answer of such spans. A text's score is the sum of both log-probabilities.
 *   spans        of all windows of the question, in their order
 *   config_json  as there, but "n_best" are texts only, and "null_threshold", which needs
 *                class_logit, is compared with no_answer alone; ELECTRA's is -5.6
 *   report       as there; no_answer: the smallest class_logit over the windows, if given
 *   errors  ASSAY_E_INVALID: another number of windows, numbers that are not finite
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_question_answer_spans(const assay_text_question *q,
                                                        const assay_text_spans *spans,
                                                        assay_str config_json, assay_report **out,
                                                        assay_error **err);

/* since 1.0, provisional */
ASSAY_API void assay_text_question_free(assay_text_question *q);

/* Opens a file of SQuAD, of which each question may be answered.
 *   path    JSON, plain or gzip; it says of which version it is
 *   errors  as of assay_text_score
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_squad_open(assay_str path, assay_text_squad **out,
                                             assay_error **err);

/* How many questions it has, and 1 or 2: its version. Both may be NULL.
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_squad_size(const assay_text_squad *s, int64_t *questions,
                                             int32_t *version, assay_error **err);

/* One question about its paragraph, as assay_text_question_create makes it.
 *   index   0 to questions - 1, in the order of the file. Windows of all of them, cut with the same
 *           settings, are in the order of a data set's records; a split "train" has no records of
 *           questions that were left out
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_squad_question(const assay_text_squad *s, int64_t index,
                                                 const assay_text *t, assay_str config_json,
                                                 assay_text_question **out, assay_error **err);

/* Keeps the answer to a question, in place of one given before.
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_text_squad_answer(assay_text_squad *s, int64_t index, assay_str answer,
                                               assay_error **err);

/* Writes the answers given, whole or not at all, and durable, as assay_checkpoint_save does, in the
 * official form of predictions: one JSON object of question id and text.
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY; ASSAY_E_IO; ASSAY_E_NOT_FOUND: no such folder
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_squad_save(const assay_text_squad *s, assay_str path,
                                             assay_error **err);

/* since 1.0, provisional */
ASSAY_API void assay_text_squad_free(assay_text_squad *s);

/* Scores predictions of SQuAD as the official scripts of v1.1 and v2.0 do, to the last digit.
 *   file         of SQuAD, JSON, plain or gzip; it says of which version it is
 *   predictions  one JSON object of question id and text, plain or gzip
 *   report       version, all {questions, exact, f1} in percent; of 2.0 answerable and impossible
 *                likewise; missing: questions without a prediction (0 in 1.1, left out in 2.0),
 *                foreign: predictions of other ids
 *   errors  ASSAY_E_IO, ASSAY_E_NOT_FOUND; ASSAY_E_FORMAT with line and column, or with the
 *           question: JSON that is damaged, members missing, ids twice, answers that do not stand
 *           at their offset (in code points); ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_text_score(assay_str file, assay_str predictions, assay_report **out,
                                        assay_error **err);

/* ---- Detections ------------------------------------------------------------------------------ */

/* What a detector ("efficientdet_d0") finds in the images of a data set, written and scored as COCO
 * wants it. All of this section is provisional: it may change before it is declared stable. */

/* A collection without images.
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_detections_create(assay_detections **out, assay_error **err);

/* A collection read from a file of results: one JSON list of
 * {"image_id", "category_id", "bbox": [x, y, width, height], "score"}, of anyone who writes them.
 *   path    JSON, plain or gzip, up to 4 GiB of text; other members of the objects are passed over
 *   errors  ASSAY_E_IO, ASSAY_E_NOT_FOUND; ASSAY_E_FORMAT with line and column: JSON that is
 *           damaged, members missing or of another type, a width or height below 0; ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_detections_open(assay_str path, assay_detections **out,
                                             assay_error **err);

/* Keeps what was found in one image, in place of what was given for it before. An image in which
 * nothing was found may be given or left out. Takes a row of what a predictor gives, and copies it.
 *   image_id  the number that the data set's file has for the image; a loader's "source_id"
 *   scale     pixels of the image per pixel of what the model saw of it, as 1.25 where 640 columns
 *             became 512; a loader's "scale"
 *   boxes     [n, 4] ymin, xmin, ymax, xmax, in pixels of what the model saw; they need not lie in
 *             it. The box kept is x, y, width and height in pixels of the image, in f32
 *   scores    [n], the higher the surer
 *   classes   [n] from 0; the category of COCO is a class + 1. The first that is negative ends the
 *             list: what follows is not read
 *   errors  ASSAY_E_INVALID: numbers that are not finite, a box with its ends exchanged, a scale
 *           that is not above 0; ASSAY_E_BUSY. The collection is then as before
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_detections_add(assay_detections *d, int64_t image_id, float scale,
                                            const float *boxes, const float *scores,
                                            const int32_t *classes, size_t n, assay_error **err);

/* How many images were given or have detections in the file, and how many detections there are.
 * Both may be NULL.
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_detections_size(const assay_detections *d, int64_t *images,
                                             int64_t *detections, assay_error **err);

/* Writes a file of results, whole or not at all, and durable, as assay_checkpoint_save does: images
 * by ascending id, what was found in each in the order given, numbers in as many digits as read back
 * the same.
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY; ASSAY_E_IO; ASSAY_E_NOT_FOUND: no such folder
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_detections_save(const assay_detections *d, assay_str path,
                                             assay_error **err);

/* Scores as COCO's Python tools (pycocotools) score boxes, to the last bit: precision and recall in
 * [0, 1], averaged over overlaps (intersection over union) of 0.5, 0.55, ... 0.95, points of recall
 * 0, 0.01, ... 1, and categories. All images of the file count, also those without detections. Only
 * an annotation with the id 0, which COCO does not have, is treated otherwise: it can be found, too.
 *   instances    JSON of COCO's instances ("instances_val2017.json"), plain or gzip, up to 4 GiB:
 *                "images" with "id", "categories" with "id" and, as one likes, "name", "annotations"
 *                with "id", "image_id", "category_id", "bbox" [x, y, width, height] and, as one
 *                likes, "area", that of the box, and "iscrowd", 0. The rest is passed over
 *   config_json  "curves" false: whether the report has them; "given_only" false: whether only
 *                images that were given count, not all of the file. Empty: defaults
 *   report       images, of the file, and images_found, those with detections; objects, without
 *                crowds; detections, and foreign, those of categories that the file does not list,
 *                which are left out; all {ap, ap50, ap75 (at these overlaps), ap_small, ap_medium,
 *                ap_large (by area, up to 32^2 and 96^2 pixels), ar1, ar10, ar100 (of so many best
 *                detections of an image and category), ar_small, ar_medium, ar_large}, -1 where
 *                there is no object; categories [{id, name, objects, detections, scores {as all}}]
 *                by ascending id; curves [{overlap, precision [101]}], empty without "curves":
 *                precision by point of recall, over objects of all sizes and the 100 best
 *                detections, the mean over categories; each category with objects has its own
 *   errors  ASSAY_E_IO, ASSAY_E_NOT_FOUND; ASSAY_E_FORMAT with line and column: not such a file,
 *           ids twice, annotations of images or categories that it does not list, captions;
 *           ASSAY_E_INVALID, also for detections in images that it does not list; ASSAY_E_BUSY
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_detections_score(const assay_detections *d, assay_str instances,
                                              assay_str config_json, assay_report **out,
                                              assay_error **err);

/* since 1.0, provisional */
ASSAY_API void assay_detections_free(assay_detections *d);

#ifdef __cplusplus
}
#endif

#endif
