/* Assay: data sets and loaders.
 *
 * A data set is a folder that assay_dataset_convert made from the files its authors publish: record
 * files and a manifest. A loader gives its samples as batches that a trainer takes as they are.
 * Nothing here is needed to train: any host memory can be a batch (assay_tensor_borrow).
 *
 * The conventions are those of assay.h. Batch k of epoch e has one content, a function of the seed,
 * the data, the batch size and the ranks: the number of workers, the depth of prefetching and
 * restarts change only the time it takes. */
#ifndef ASSAY_ASSAY_DATA_H
#define ASSAY_ASSAY_DATA_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_loader assay_loader; /* assay_loader_free */

/* ---- Data sets ------------------------------------------------------------------------------- */

/* Called now and then on the thread of the call.
 *   phase        "train", "checking test", ...; lasts for the call
 *   done, total  records of this phase
 *   returns 0 to go on; anything negative to stop: the call then fails with ASSAY_E_CANCELLED and
 *   native_code is that number */
typedef int32_t (*assay_progress)(uintptr_t user, assay_str phase, int64_t done, int64_t total);

/* The data sets that assay_dataset_convert knows.
 *   report  datasets [{name, summary, licence, default_source}]
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_list(assay_report **out, assay_error **err);

/* Turns published files into a data set. Returns at once if the folder holds the same already. A
 * failed or stopped conversion leaves nothing behind; one of "imagenet" keeps its finished shards,
 * and the next call with the same arguments continues there, after a kill too. Images that cannot
 * be decoded are left out; files of other formats than JPEG need assay_host.read_image. Both are
 * counted in the report.
 *   name          of assay_dataset_list
 *   source        where the published files lie; empty: default_source
 *   target        the folder to fill; created if need be
 *   options_json  {"shards": files per split, 0 lets the data set choose, "overwrite": false};
 *                 empty: defaults
 *   progress      may be NULL; user is handed to it
 *   out           may be NULL; report as assay_dataset_report
 *   errors  ASSAY_E_NOT_FOUND, ASSAY_E_FORMAT: the source; ASSAY_E_IO; ASSAY_E_BUSY: another
 *           process converts into the folder; ASSAY_E_INVALID; ASSAY_E_CANCELLED
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_convert(const assay_context *c, assay_str name,
                                             assay_str source, assay_str target,
                                             assay_str options_json, assay_progress progress,
                                             uintptr_t user, assay_report **out, assay_error **err);

/* The manifest of a data set.
 *   report  format_version, dataset, licence, classes, class_names [..],
 *           splits [{name, records, content_sha256, shards [{file, records, bytes, crc32c,
 *           findings [{kind ("left out", "re-encoded as JPEG", "CMYK", "grey"), count,
 *           examples [..]}]}]}],
 *           sources [{file, bytes, sha256}]
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT; ASSAY_E_VERSION; ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_report(assay_str folder, assay_report **out,
                                            assay_error **err);

/* Reads all of a data set and compares every checksum and digest with the manifest.
 *   errors  ASSAY_E_FORMAT names the first file and record that differ; ASSAY_E_NOT_FOUND;
 *           ASSAY_E_IO; ASSAY_E_VERSION; ASSAY_E_INVALID; ASSAY_E_CANCELLED
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_dataset_verify(const assay_context *c, assay_str folder,
                                            assay_progress progress, uintptr_t user,
                                            assay_error **err);

/* Writes a data set of JPEG images in another format: <split>.rec and <split>.idx, as MXNet's im2rec
 * packs them, in the order of the data set.
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

/* A loader of one split of a data set. Its worker threads start with the first batch.
 *   folder          of the data set
 *   split           "train", "test", ...
 *   config_json     {"batch_size" (needed), "seed", "order": "shuffled" (default), "sequential",
 *                   "stream" (no epochs: through a shuffle buffer of "buffer" samples, default
 *                   three batches) or "rotating" (as "stream" with 1024, but each rank takes one
 *                   contiguous part after the other, as DALI's readers do), "record": [..] only these of the split, in this order,
 *                   "last_batch": "drop" (default), "pad" or "wrap", "epochs": 0 (default) never
 *                   ends, "rank", "world_size", "workers": 2 (default), 0 fills batches in the
 *                   caller, "prefetch": 4 (default) batches, "cache_mib": 512 (default)}
 *   transform_json  how a record becomes a sample; empty: all defaults. Pixel p of 0 to 255 becomes
 *                   (p * scale - mean) / stddev as f32; scale 1/255, mean 0, stddev 1 by default.
 *                   Images of one size: {"crop_padding", "flip_horizontal",
 *                   "flip_vertical", "rotation_degrees", "scale", "mean": [..], "stddev": [..],
 *                   "erasing_probability", "erasing_min_area", "erasing_max_area",
 *                   "erasing_min_aspect", "erasing_max_aspect", "erasing_value"}
 *                   Photographs ("imagenet"): {"crop": "centre" (default; the shorter side becomes
 *                   "resize_shorter" (256), then the middle), "random" (a window of "min_area"
 *                   (0.08) to "max_area" (1) of the area and "min_aspect" (3/4) to "max_aspect"
 *                   (4/3) width / height, stretched) or "stretch", "size": 224,
 *                   "flip_horizontal": probability, "scale", "mean": [..], "stddev": [..],
 *                   "channels": 3 (default) or 4, the last of zeros, "reduced_decoding": true for
 *                   "random" and else false, decode windows of at least twice "size" at a fraction
 *                   of the image's size}
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_INVALID naming the key; ASSAY_E_IO; ASSAY_E_FORMAT;
 *           ASSAY_E_VERSION
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_loader_create(const assay_context *c, assay_str folder,
                                           assay_str split, assay_str config_json,
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
 *           a record, named in the message; calling again fails again, data is never skipped;
 *           ASSAY_E_CANCELLED: calling again goes on; ASSAY_E_BUSY: another thread uses the loader
 *           or one of its tensors; ASSAY_E_INVALID
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_loader_next(assay_loader *l, const assay_tensor **batch, size_t n,
                                         assay_batch_info *info, assay_error **err);

/* The position after the batches given so far, as bytes for a checkpoint (metadata "assay.cursor").
 *   dst       at least *size bytes of room; NULL to ask for the size
 *   capacity  bytes of room at dst
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

/* What the loader gives and how it keeps up.
 *   report  dataset, split, samples, batch_size, batches_per_epoch, epoch, batch (the next),
 *           arrays [{name, dtype, sample_shape [..]}] in the order of a batch,
 *           samples_delivered, wait_seconds (time spent in assay_loader_next waiting for workers),
 *           seconds (since the first batch was asked for), samples_per_second
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_loader_report(const assay_loader *l, assay_report **out,
                                           assay_error **err);

/* Ends the worker threads, waiting for at most one sample each. since 1.0, stable */
ASSAY_API void assay_loader_free(assay_loader *l);

#ifdef __cplusplus
}
#endif

#endif
