/* Assay: train, checkpoint and run deep-learning models inside your own program.
 *
 * This header is the specification of the library's C interface. It compiles alone, as C99 and
 * later and as C++11 and later. Loading data sets has a header of its own, assay_data.h.
 * Everything below is ABI 1.0.
 *
 * In short
 *   assay_context_create     a device, its threads, a log
 *   assay_model_named        a model by name, configured with JSON text; assay_graph.h describes
 *                            networks of your own
 *   assay_trainer_create     optimizer, schedule, precision; then assay_trainer_step once per
 *                            batch
 *   assay_checkpoint_save    everything needed to go on bit for bit
 *   assay_predictor_create   inference on a snapshot of the weights
 * examples/train_and_serve.c is a complete program.
 *
 * Names       assay_<noun>_<verb>, ASSAY_<CONSTANT>. Parameters come in the order subject,
 *             inputs, options, outputs, error.
 * Status      Every call that can fail returns assay_status: ASSAY_OK or a negative code. Codes
 *             are frozen.
 * Errors      The last parameter, assay_error **err, may be NULL. Otherwise it is set to NULL on
 *             success and to an error object on failure, which the caller frees with
 *             assay_error_free. There is no thread-local state. On failure output handles are
 *             NULL, output structs are as they were, and nothing else has changed, unless the
 *             function says otherwise.
 * Ownership   `T **out` gives the caller a handle, to be freed by the function that stands
 *             beside its type below. A returned pointer or assay_str is borrowed: valid as long
 *             as the object it came from or, where it is called static, until the process ends.
 *             No pointer argument is kept after return, except by assay_tensor_borrow,
 *             assay_tensor_from_dlpack and assay_trainer_prefetch.
 * Lifetimes   Objects keep alive what they were made from, so frees may come in any order. Every
 *             free accepts NULL, cannot fail, and may be called on any thread, but not while
 *             another thread is inside a call with that handle. Leaving the process without
 *             freeing is fine, but not of a channel "mpi" (assay_comm.h).
 * Threads     No handle is tied to the thread that made it. Every function says under `threads`
 *             what else may run at the same time:
 *               any    many threads may call it at once.
 *               alone  no other call on this handle at the same time.
 *               alone, with the model  nor on its model, or on tensors that view it.
 *             A call that breaks the rule gets ASSAY_E_BUSY and does nothing. A model, its
 *             trainer and the tensors that view its weights are one storage: reading a weight
 *             while a step runs gets ASSAY_E_BUSY, never half-updated numbers.
 * Text        assay_str: UTF-8, pointer and size, need not end in a zero byte. {NULL, 0} is
 *             empty. printf("%.*s", (int)t.size, t.data) prints one.
 * Configuration
 *             Settings with many keys are JSON text (RFC 8259, without extensions), described at
 *             the function that takes them. Text that is not JSON, an unknown key, a key given
 *             twice, a value of the wrong type (null included) or out of its range is
 *             ASSAY_E_INVALID: the error's message names line and column, its `argument` the
 *             key. 64-bit integers may be written as JSON numbers or strings. Reports print
 *             those of configurations and of checkpoint files as strings, as protobuf's JSON
 *             mapping does.
 * Structs     Set struct_size to sizeof the struct, and everything you do not use to zero: zero
 *             is always the default. A struct of an older header, which is shorter, is read as
 *             if the missing fields were zero. A longer one, of a newer header, is accepted if
 *             the bytes unknown here are zero, else refused with ASSAY_E_VERSION and their
 *             offset. Output structs are filled up to the caller's struct_size. `next` chains
 *             extensions; none is defined yet, so anything but NULL is refused with
 *             ASSAY_E_VERSION. Fields are only ever appended.
 * Memory      The first call of a kind makes its plan and its working memory, and keeps both.
 *             Later calls of that kind allocate nothing. An allocation of this library that fails
 *             is ASSAY_E_OOM_HOST; one of libgomp or oneDNN may end the process. A host that may run
 *             out stays below: assay_model_check says beforehand what a network takes, and the
 *             context's mem_limit refuses what would be more.
 * Side effects
 *             The library prints nothing, installs no signal or exit handlers, and changes no
 *             environment, locale or rounding mode. It opens no files but those it is given,
 *             /proc and /sys to learn about the machine and, for CUDA devices, libassay_cuda.so
 *             with what that needs. It starts threads only to compute and to load data. A
 *             function of the host must return: no exception or longjmp may pass through the
 *             library. After fork, the child must not use the library before exec. The library's
 *             code stays in the process after dlclose.
 * Synchronous Every call of this version has finished its work when it returns; only
 *             assay_trainer_prefetch leaves something for a later call. Asynchronous forms
 *             (streams, events) will come as further functions; those declared here keep their
 *             meaning.
 * Since       Every function names the ABI version that brought it. "stable" functions neither
 *             change nor disappear within ABI 1; "provisional" ones may change until version
 *             1.0.0 of the library and are stable from then on. */
#ifndef ASSAY_ASSAY_H
#define ASSAY_ASSAY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ASSAY_API __attribute__((visibility("default")))
#else
#define ASSAY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version and status ---------------------------------------------------------------------- */

typedef int32_t assay_status;

/* Frozen: a number is never given a second meaning. */
enum {
  ASSAY_OK = 0,
  ASSAY_E_INVALID = -1,     /* an argument, a configuration value, or a call in the wrong state */
  ASSAY_E_UNSUPPORTED = -2, /* a correct request that this build or device cannot serve */
  ASSAY_E_OOM_HOST = -3,    /* out of host memory, or over the context's limit */
  ASSAY_E_OOM_DEVICE = -4,  /* the same for device memory */
  ASSAY_E_DEVICE = -5,      /* the device or its driver failed */
  ASSAY_E_IO = -6,          /* the operating system, or assay_io, refused a file operation */
  ASSAY_E_FORMAT = -7,      /* a file or text is malformed, truncated or damaged */
  ASSAY_E_VERSION = -8,     /* a file, struct or extension of a version unknown here */
  ASSAY_E_NOT_FOUND = -9,   /* no such file, model, variable or key */
  ASSAY_E_BUSY = -10,       /* the handle or its storage is in use by another thread */
  ASSAY_E_CANCELLED = -11,  /* an interruption, or a progress function, stopped the call */
  ASSAY_E_TIMEOUT = -12,    /* another rank has not come in time (assay_comm.h) */
  ASSAY_E_COMM = -13,       /* another rank failed, left or brought something else */
  ASSAY_E_CALLBACK = -14,   /* a function of the host gave what cannot be used */
  ASSAY_E_NONDETERMINISTIC = -15, /* no deterministic kernel exists for what was asked */
  ASSAY_E_POISONED = -16,         /* an earlier failure left this handle unusable: free it */
  ASSAY_E_INTERNAL = -17,         /* a mistake in this library: please report it */
  ASSAY_E_NONFINITE = -18,  /* the loss or a gradient is NaN or infinite; nothing was updated */
  ASSAY_E_END_OF_DATA = -19 /* a loader has no further batch */
};

typedef struct assay_error assay_error;         /* assay_error_free */
typedef struct assay_context assay_context;     /* assay_context_free */
typedef struct assay_tensor assay_tensor;       /* assay_tensor_release */
typedef struct assay_model assay_model;         /* assay_model_free */
typedef struct assay_trainer assay_trainer;     /* assay_trainer_free */
typedef struct assay_predictor assay_predictor; /* assay_predictor_free */
typedef struct assay_slot assay_slot;           /* assay_slot_free */
typedef struct assay_report assay_report;       /* assay_report_free */
typedef struct assay_comm assay_comm;           /* assay_comm_free, assay_comm.h */

typedef struct assay_str {
  const char *data;
  size_t size; /* bytes */
} assay_str;

/* Head of an extension chained to a struct. No extension is defined in ABI 1.0. */
typedef struct assay_ext {
  uint32_t id;
  uint32_t flags;
  size_t struct_size;
  const struct assay_ext *next;
} assay_ext;

/* The ABI this library offers: major << 16 | minor. A program needs the same major, and at least
 * the minor it was built with. Packages carry this number: find_package(assay 1.0), pkg-config
 * "assay >= 1.0", libassay.so.1.
 *   threads any   since 1.0, stable */
#define ASSAY_ABI_VERSION (UINT32_C(1) << 16)
ASSAY_API uint32_t assay_abi_version(void);

/* The release of the library, "0.1.0"; static. It tells builds apart. What a program must check is
 * the version of the ABI.
 *   threads any   since 1.0, stable */
ASSAY_API assay_str assay_version_string(void);

/* The name of a code without its prefix, in lower case: "ok", "invalid", "end_of_data";
 * "unknown" for other numbers; static.
 *   threads any   since 1.0, stable */
ASSAY_API assay_str assay_status_name(assay_status status);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Bits of assay_error_info.flags. */
enum {
  ASSAY_ERROR_RETRY = 1,    /* the same call may succeed later */
  ASSAY_ERROR_POISONED = 2, /* the handle must be freed; the hint says if the process must end */
  ASSAY_ERROR_CALLER = 4    /* the arguments must change */
};

/* Who gave native_code. Frozen. */
enum {
  ASSAY_DOMAIN_NONE = 0,
  ASSAY_DOMAIN_ERRNO = 1,
  ASSAY_DOMAIN_ONEDNN = 2,
  ASSAY_DOMAIN_CUDA = 3,
  ASSAY_DOMAIN_CUDNN = 4,
  ASSAY_DOMAIN_CUBLAS = 5,
  ASSAY_DOMAIN_NCCL = 6,
  ASSAY_DOMAIN_MPI = 7,
  ASSAY_DOMAIN_HOST = 8,
  ASSAY_DOMAIN_ZIP = 9
};

typedef struct assay_error_info {
  size_t struct_size;
  const assay_ext *next;
  assay_status code;
  int32_t domain;
  int64_t native_code;
  uint32_t flags;
  uint32_t reserved;
  /* One line: what was done, found and expected, and what to do. Here and below bytes that are
   * not UTF-8 and control characters, of paths for example, are shown as \x0A. */
  assay_str message;
  /* Empty where they do not apply: */
  assay_str op_path;  /* the layer, "layer2.0.conv1" */
  assay_str argument; /* the argument, or the path of the configuration key: "optimizer.momentum" */
  assay_str expected; /* "f32[32,28,28,1]", "a number in [0, 1)", the names that are known */
  assay_str actual;   /* what was found instead */
  assay_str hint;     /* what to do: "did you mean \"momentum\"?" */
} assay_error_info;

/* Describes an error. An error is immutable, may travel between threads and outlives every other
 * handle.
 *   e    must not be NULL
 *   out  its texts live as long as e
 *   returns ASSAY_E_INVALID for NULL or a bad struct_size
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_error_get(const assay_error *e, assay_error_info *out);

/* since 1.0, stable */
ASSAY_API void assay_error_free(assay_error *e);

/* ---- Reports --------------------------------------------------------------------------------- */

/* The text of a report: one JSON object, UTF-8, immutable, as long as the report lives. Empty
 * for NULL. The keys are documented at the function that makes the report, and stand in the order
 * given there; further keys may appear. What is not known or does not apply is left out. Sizes are
 * bytes, times seconds.
 *   threads any   since 1.0, stable */
ASSAY_API assay_str assay_report_text(const assay_report *r);

/* since 1.0, stable */
ASSAY_API void assay_report_free(assay_report *r);

/* ---- Devices and contexts -------------------------------------------------------------------- */

/* assay_device_id.kind */
enum { ASSAY_DEVICE_CPU = 0, ASSAY_DEVICE_CUDA = 1 };

typedef struct assay_device_id {
  int32_t kind;
  int32_t index; /* among the devices of this kind, from 0 */
} assay_device_id;

typedef struct assay_device_info {
  size_t struct_size;
  const assay_ext *next;
  assay_device_id id;
  assay_str name;   /* "AMD EPYC 9R14"; static */
  assay_str driver; /* "oneDNN 2.6.3"; static */
  /* Empty if contexts can be made on it, else why not, in words; static. */
  assay_str unavailable_reason;
  uint64_t mem_total; /* bytes */
  uint64_t mem_free;  /* bytes, now; 0: not known (CUDA devices before a context uses them) */
  int32_t n_threads;  /* CPU: threads a context uses unless told otherwise */
  int32_t reserved;
} assay_device_info;

/* Describes device number `index` of all the library knows of, usable or not: the CPU is number 0.
 *   errors  ASSAY_E_NOT_FOUND when there are no more devices; ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_device_enum(size_t index, assay_device_info *out, assay_error **err);

/* Levels of the log. */
enum { ASSAY_LOG_ERROR = 1, ASSAY_LOG_WARNING = 2, ASSAY_LOG_INFO = 3, ASSAY_LOG_DEBUG = 4 };

/* One picture of a file, as assay_host.read_image gives it. */
typedef struct assay_picture {
  size_t struct_size;
  const assay_ext *next;
  int32_t height;
  int32_t width;
  int32_t channels;  /* 1: grey; 3: red, green, blue; 4: and opacity */
  int32_t bits;      /* per channel: 8, or 16 in the order of this machine */
  int64_t row_bytes; /* from row to row; 0: rows without gaps */
  const void *data;  /* rows from the top, channels innermost; borrowed for the call */
} assay_picture;

/* Functions that the host offers to the library. Each may be called on any thread, while the
 * library holds no lock, and must return. They are called as long as anything lives that was made
 * with the context, which may be longer than the context's own handle. */
typedef struct assay_host {
  size_t struct_size;
  const assay_ext *next;
  uintptr_t user; /* handed to every function below */
  /* Takes a message for people; NULL: no log.
   *   component  "trainer", ...
   *   text       one line without its end; both texts last for the call */
  void (*log)(uintptr_t user, int32_t level, assay_str component, assay_str text);
  /* Decodes an image file of another format than JPEG (PNG, TIFF, ...), for conversions of data
   * sets; NULL: such files cannot be used. Several threads may call at once.
   *   file, size  its content
   *   give        call it with `to` for each page, in order, on this thread
   *   returns 0; anything else if the file cannot be decoded: pages given before are dropped */
  int32_t (*read_image)(uintptr_t user, const void *file, size_t size,
                        void (*give)(void *to, const assay_picture *page), void *to);
} assay_host;

/* assay_context_options.determinism */
enum {
  /* The same program on the same machine gives the same bits on every run: kernels that cannot
   * promise that are not used. */
  ASSAY_DETERMINISM_ON = 1,
  /* CUDA: kernels whose sums depend on the order in which threads finish may be used where they
   * are faster. On the CPU nothing changes. */
  ASSAY_DETERMINISM_OFF = 2
};

typedef struct assay_context_options {
  size_t struct_size;
  const assay_ext *next;
  /* Threads per kernel; 0: as many as this process may use by affinity mask and cgroup quota. Those
   * that wait for each other spin: where other work keeps the cores busy, begin the process with
   * OMP_WAIT_POLICY=passive in its environment. Small networks, and servers that predict from many
   * threads, are best with 1. */
  int32_t n_threads;
  int32_t log_level; /* least important level handed to the log; 0: ASSAY_LOG_WARNING */
  /* Most bytes of all models, trainers, predictors and tensors together; 0: no limit. Calls that
   * would need more fail with ASSAY_E_OOM_HOST, on a CUDA device with ASSAY_E_OOM_DEVICE, and the
   * flag ASSAY_ERROR_RETRY: once something is freed the same call may succeed. */
  uint64_t mem_limit;
  int32_t determinism; /* 0: ASSAY_DETERMINISM_ON */
  int32_t reserved;    /* 0 */
} assay_context_options;

/* Makes a context. Does not touch others; but a CUDA device that has failed (ASSAY_E_POISONED) is
 * reset for the whole process, also for what the host itself or another library has on it.
 *   options, host  NULL for all defaults; copied
 *   devices        one in this version, never replaced by another; NULL, n_devices 0: the CPU
 *   errors  ASSAY_E_INVALID; ASSAY_E_UNSUPPORTED with the device's unavailable_reason;
 *           ASSAY_E_OOM_HOST
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_context_create(const assay_context_options *options,
                                            const assay_host *host, const assay_device_id *devices,
                                            size_t n_devices, assay_context **out,
                                            assay_error **err);

/* Stops every call now running in this context on other threads: steps, evaluations, predictions,
 * conversions, loaders. Each returns ASSAY_E_CANCELLED at the next kernel or record, the first call
 * of a kind, or of a batch size, once its plan is made; a stopped step has updated nothing, and
 * every handle may be used again. Calls that begin later are not affected.
 * Takes a lock: not for signal handlers. To stop one call and no other there are
 * assay_trainer_interrupt, assay_slot_interrupt and assay_loader_interrupt.
 *   returns ASSAY_E_INVALID for NULL
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_context_interrupt(const assay_context *c);

typedef struct assay_mem_stats {
  size_t struct_size;
  const assay_ext *next;
  uint64_t in_use; /* bytes held by all objects of the context on this device */
  uint64_t peak;   /* the most in_use has been */
  uint64_t limit;  /* of assay_context_options; 0: none */
  uint64_t blocks; /* number of blocks behind in_use */
} assay_mem_stats;

/* The memory of models, optimizer state, plans and tensors. The library's own bookkeeping is not
 * counted.
 *   errors  ASSAY_E_INVALID; ASSAY_E_NOT_FOUND if the context does not have the device
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_context_mem_stats(const assay_context *c, assay_device_id device,
                                               assay_mem_stats *out, assay_error **err);

/* What results depend on besides their inputs: library and machine.
 *   report  library_version, abi_version, compiler, build_type, assertions, device {kind, index,
 *           name, driver, threads, mem_total, mem_free}, cpu_flags [..], operating_system,
 *           machine
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_env_report(const assay_context *c, assay_report **out,
                                        assay_error **err);

/* since 1.0, stable */
ASSAY_API void assay_context_free(assay_context *c);

/* ---- Tensors --------------------------------------------------------------------------------- */

typedef int32_t assay_dtype;
/* Frozen; also stored in checkpoints. */
enum {
  ASSAY_F32 = 1,
  ASSAY_BF16 = 2,
  ASSAY_F16 = 3,
  ASSAY_F64 = 4,
  ASSAY_I32 = 5,
  ASSAY_I64 = 6,
  ASSAY_U8 = 7
};

enum { ASSAY_MAX_NDIM = 8 };

/* Bits of assay_tensor_info.flags. */
enum {
  ASSAY_TENSOR_READ_ONLY = 1, /* assay_tensor_write is refused */
  ASSAY_TENSOR_VIEW = 2       /* the memory belongs to a model, a slot or a loader */
};

/* Tensors are dense and row-major: the last axis is contiguous. Images are [batch, rows, columns,
 * channels]. */
typedef struct assay_tensor_info {
  size_t struct_size;
  const assay_ext *next;
  assay_dtype dtype;
  int32_t ndim;
  assay_device_id device;
  const int64_t *shape; /* ndim sizes; lives as long as the tensor */
  uint64_t bytes;       /* of the elements */
  /* The elements, if the host can address them, else NULL. Reading and writing them follows the
   * rules of assay_tensor_read and assay_tensor_write, but here the library cannot check that. */
  void *data;
  uint32_t flags;
  uint32_t reserved;
} assay_tensor_info;

/* A tensor of zeros, aligned to 64 bytes.
 *   device  {ASSAY_DEVICE_CPU, 0}: memory of the host, which batches lie in whatever the context's
 *           device. In a GPU's memory are only views and what assay_tensor_from_dlpack takes
 *   shape   ndim sizes, each at least 0; NULL if ndim is 0 (a scalar)
 *   ndim    0 to ASSAY_MAX_NDIM
 *   errors  ASSAY_E_INVALID; ASSAY_E_NOT_FOUND: another device; ASSAY_E_OOM_HOST
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_tensor_new(const assay_context *c, assay_device_id device,
                                        assay_dtype dtype, const int64_t *shape, int32_t ndim,
                                        assay_tensor **out, assay_error **err);

/* A tensor on memory of the host, without a copy.
 *   data     dense, row-major, aligned to its element; kept until release is called. NULL only
 *            for 0 elements
 *   bytes    size of the memory; at least that of the elements
 *   release  called once, when the last handle is gone, on the thread of that call; may be NULL.
 *            Not called on failure
 *   errors   ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_tensor_borrow(const assay_context *c, void *data, size_t bytes,
                                           assay_dtype dtype, const int64_t *shape, int32_t ndim,
                                           void (*release)(uintptr_t user), uintptr_t user,
                                           assay_tensor **out, assay_error **err);

/*   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_tensor_get_info(const assay_tensor *t, assay_tensor_info *out,
                                             assay_error **err);

/* Copies all elements to dst.
 *   bytes   exactly the tensor's size
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY while a step or a write uses the storage
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_tensor_read(const assay_tensor *t, void *dst, size_t bytes,
                                         assay_error **err);

/* Copies all elements from src.
 *   bytes   exactly the tensor's size
 *   errors  ASSAY_E_INVALID, also for read-only tensors; ASSAY_E_BUSY
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_tensor_write(assay_tensor *t, const void *src, size_t bytes,
                                          assay_error **err);

/* Adds an owner to the tensor and returns t. Each retain needs a release. NULL for NULL.
 *   threads any   since 1.0, stable */
ASSAY_API assay_tensor *assay_tensor_retain(const assay_tensor *t);

/* Gives up one ownership; the last ends the tensor.
 *   threads any   since 1.0, stable */
ASSAY_API void assay_tensor_release(assay_tensor *t);

struct DLManagedTensorVersioned; /* dlpack.h (DLPack 1) has it, which is not needed here */

/* The tensor for other libraries of this process, such as NumPy and PyTorch, without a copy.
 *   out  as kDLCPU, or kDLCUDA for memory of a GPU, of version 1.0, with strides; read-only if the
 *        tensor is. It owns the tensor until its deleter is called: once, on any thread. What is
 *        said of assay_tensor_info.data holds for its elements. Whatever this library does with
 *        them is done when its calls return: there is no stream to wait for
 *   errors  ASSAY_E_INVALID; ASSAY_E_OOM_HOST; ASSAY_E_DEVICE
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_tensor_to_dlpack(const assay_tensor *t,
                                              struct DLManagedTensorVersioned **out,
                                              assay_error **err);

/* A tensor of another library, without a copy.
 *   dl   in memory of the host (kDLCPU, kDLCUDAHost) or of the context's GPU (kDLCUDA), where its
 *        producer must have finished; f32, bf16, f16, f64, i32, i64 or u8, or bool, which becomes
 *        u8 of 0 and 1; row-major without gaps, aligned to its element; at most ASSAY_MAX_NDIM axes.
 *        Its deleter is called when the last handle is gone, on the thread of that call. After a
 *        failure it is still the caller's
 *   out  read-only if dl is
 *   errors  ASSAY_E_VERSION: not of version 1; ASSAY_E_UNSUPPORTED: its type, strides or alignment:
 *           copy it first; ASSAY_E_NOT_FOUND: not memory of this context; ASSAY_E_INVALID
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_tensor_from_dlpack(const assay_context *c,
                                                struct DLManagedTensorVersioned *dl,
                                                assay_tensor **out, assay_error **err);

/* ---- Models ---------------------------------------------------------------------------------- */

/* The architectures that assay_model_named knows.
 *   report  models [{name, summary, config {..defaults..}}]
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_model_list(assay_report **out, assay_error **err);

/* Configurations of models: one JSON object each. After a key stand its range in brackets and its
 * default. 0, "" and [] do not stand for the default: out of the range they are errors.
 *
 * "bert_base": BERT (arXiv:1810.04805), Hugging Face's names. Lengths of sequences are not the
 * model's but the trainer's and the predictor's
 *   "vocabulary"  [2, 2^24], 30522. Rows of the word table
 *   "hidden"      [1, 16384], 768. Numbers of a token; a multiple of heads
 *   "layers"      [1, 1024], 12
 *   "heads"       [1, 1024], 12. Of the attention
 *   "inner"       [1, 2^20], 3072. Width of the feed-forward networks
 *   "positions"   [1, 2^16], 512. Rows of the position table: the longest sequence
 *   "dropout"     [0, 1), 0.1. Behind the embeddings and in the blocks
 *   "attention_dropout"  [0, 1), 0.1. Of the weights of the attention
 *   "epsilon"     (0, 1), 1e-12. Of layer norms
 *   "gelu"        "erf" (default), its exact form, or "tanh", as in Google's code
 *   "head"        "pretraining" (default): masked words and next sentences; "span": where an answer
 *                 starts and ends, scores of all tokens, -1e30 behind the end of a sequence
 *
 * "cnn": blocks of convolution, batch norm, activation and 2x2 max-pooling, then hidden layers
 *   "image"       [rows, columns, channels], each [1, 16384], [28, 28, 1]
 *   "classes"     [2, 10^6], 10
 *   "conv"        channels of each block, each [1, 65536], [32, 64]
 *   "kernel"      odd, [1, 1023], 5. Window of the convolutions, padded to keep the size
 *   "batch_norm"  true. After convolutions and hidden layers
 *   "hidden"      sizes of the hidden layers, each [1, 2^20], [256]; [0] is none
 *   "dropout"     [0, 1), 0. After the hidden layers
 *   "activation"  "relu" (default), "elu", "tanh", "sigmoid", "gelu", "gelu_tanh" (its
 *                 approximation by tanh), "swish"
 *
 * "efficientdet_d0": finds objects (arXiv:1911.09070) as NVIDIA's TensorFlow 2 code does: a B0
 * without drop-connect, three BiFPN cells whose fusion weights pass no ReLU, heads that five levels
 * share; effdet's names. It takes "image" [rows, columns, 3], (byte / 255 - mean) / stddev of
 * ImageNet with 0 in padding, and normalises it once more; rows and columns are the trainer's or
 * predictor's image_size. To learn from, "boxes" [99, 4] (ymin, xmin, ymax, xmax in pixels),
 * "classes" [99] from 0 with -1 behind the last, and "count" []. Trains on class_loss + 50 box_loss;
 * predicts boxes [100, 4], scores [100], best first, and classes [100], -1 behind the last
 *   "classes"       [1, 10^4], 91. Of an anchor: COCO's numbers from 1 to 90, and one that none has
 *   "width"         [1, 1024], 64. Channels of the BiFPN and the heads
 *   "cells"         [1, 16], 3. Of the BiFPN
 *   "repeats"       [1, 16], 3. Convolutions of a head before the one that predicts
 *   "norm_momentum" [0, 1), 0.99. In each step running statistics become norm_momentum times
 *                   themselves and the rest of the batch's: 0.9 is PyTorch's 0.1
 *
 * "electra_base_pretraining": ELECTRA (arXiv:2003.10555): a generator that guesses masked words and
 * a discriminator that finds which are the generator's, on one set of embeddings. Batches are text
 * as it is: masks and draws are made on the device, anew in each step. Evaluation takes those of
 * step 0, by the row in the batch (many rows to a batch give many different ones), and gives loss,
 * mlm_loss, rtd_loss, masked_accuracy, replaced_accuracy, replaced_precision and replaced_recall.
 * Predicts discriminator_logits [sequence_length], positive for tokens that seem replaced. Slots for
 * masked words: the trainer's prediction_slots, by default masked_fraction + 0.005 of the sequence,
 * rounded down
 *   "vocabulary" ... "gelu"  as bert_base's, "vocabulary" 30528: the discriminator's
 *   "generator_hidden"   [1, 16384], 256. A multiple of generator_heads
 *   "generator_layers"   [1, 1024], 12
 *   "generator_heads"    [1, 1024], 4
 *   "generator_inner"    [1, 2^20], 1024
 *   "generator_weight", "discriminator_weight"  [0, 10^6], 1 and 50. Of their losses in the sum
 *   "masked_fraction"    (0, 1], 0.15. Of a sequence's tokens; they are drawn with repetition
 *   "shown"              [0, 1], 0.85. Rate of drawn tokens that the generator sees as [MASK]
 *   "cls", "sep", "mask" [0, 2^24), 101, 102, 103. Numbers of these pieces, which are never drawn
 *
 * "electra_base_qa": ELECTRA's discriminator (arXiv:2003.10555) with the joint head that it answers
 * questions with: a start, an end given the start, and whether there is an answer. An answer may lie
 * on [CLS], the first token, and on the tokens of type 1 before the last one. Predicts candidates:
 * start_index, start_log_prob [beam], and of each start in turn end_index, end_log_prob [beam beam];
 * of version 2.0 class_logit [], positive where there is no answer
 *   "vocabulary" ... "gelu"  as bert_base's
 *   "version"     of SQuAD, "1.1" (default) or "2.0", with a head for questions without an answer
 *   "beam"        [1, 512], 5. Starts that are followed up, and ends of each; at most all tokens
 *
 * "resnet18": residual network of basic blocks (arXiv:1512.03385), torchvision's names
 *   "image"       as above, [32, 32, 3]
 *   "classes"     [2, 10^6], 10
 *   "width"       [1, 4096], 64. Channels of the first stage
 *   "stem"        "cifar" (default): 3x3, stride 1; "imagenet": 7x7, stride 2, max-pooling
 *   "zero_last_gamma"  false. Blocks start as the identity
 *
 * "resnet50": ResNet-50 v1.5, torchvision's names
 *   "image"       as above, [224, 224, 3]; 4 channels for images padded with one of zeros, which
 *                 aligns the first convolution
 *   "classes"     [2, 10^6], 1000
 *   "width"       [1, 4096], 64. Channels of the first stage's 3x3 convolutions
 *   "zero_last_gamma"  true. The last batch norm of a block starts at scale 0
 *   "biased_running_variance"  false. Running variances with divisor n instead of n - 1
 *
 * "unet_medical": U-Net of unpadded convolutions for micrographs
 *   "image"       as above, [572, 572, 1]; the sides must be even before each pooling
 *   "classes"     [2, 1024], 2
 *   "width"       [1, 1024], 64. Channels of the first level; they double with each
 *   "depth"       [1, 6], 4. Number of poolings
 *   "dropout"     [0, 1), 0.5. At the bottom */

/* Makes a model by name, without weights. It gets them from assay_model_initialize,
 * assay_model_load_weights or assay_checkpoint_load, else from assay_trainer_create. Until then it
 * takes little memory.
 *   arch         "cnn", "resnet18", ... (assay_model_list); "graph": a network of your own, whose
 *                config_json assay_graph_report and assay_model_report show
 *   config_json  keys of that architecture, "Configurations of models" above; empty: its defaults
 *   errors  ASSAY_E_NOT_FOUND, listing the names; ASSAY_E_INVALID naming the key
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_model_named(const assay_context *c, assay_str arch,
                                         assay_str config_json, assay_model **out,
                                         assay_error **err);

/* Makes the model that a checkpoint holds, with its weights and statistics, and the moving averages
 * that it was saved with, which a predictor's "use_ema" takes. Networks of your own
 * (assay_graph.h) come back too: their description is the model's configuration.
 *   path    of a checkpoint with ASSAY_PART_TRAINER_STATE: others do not say what model they are of
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT: damaged, no checkpoint, or one without
 *           that part; ASSAY_E_VERSION; ASSAY_E_INVALID: a configuration that this version does not
 *           know; ASSAY_E_OOM_HOST
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_model_open(const assay_context *c, assay_str path, assay_model **out,
                                        assay_error **err);

/* Describes the model.
 *   report  architecture, config {..}, parameters (count), parameter_bytes, initialized,
 *           inputs [{name, dtype, sample_shape [..], classes (of class labels), label, range
 *           [low, high) of integers}] in the
 *           order of a batch; predictions take those that are not labels,
 *           variables [{name, role, dtype, shape [..], elements, initializer: how
 *           assay_model_initialize draws it, "normal(0.0589)", "uniform(..)",
 *           "truncated_normal(..)", "constant(..)"; kind: "kernel", "bias",
 *           "batch_norm", "layer_norm", "embedding" or "scalar"}]
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_model_report(const assay_model *m, assay_report **out,
                                          assay_error **err);

/* assay_model_check modes */
enum { ASSAY_MODE_TRAIN = 1, ASSAY_MODE_EVAL = 2, ASSAY_MODE_PREDICT = 3 };

/* Says whether this would work here, and what it would take. Everything is planned as the real call
 * would do it, but on address space without memory behind it: cheap enough to ask before any weight
 * is allocated.
 *   device       of the model's context
 *   mode         ASSAY_MODE_TRAIN and _EVAL: config_json is that of assay_trainer_create
 *                (batch_size is needed); ASSAY_MODE_PREDICT: that of assay_predictor_create, for
 *                a batch of max_batch
 *   report  architecture, device, mode, precision, batch, parameters, flops and bytes (of one
 *           call; 2 flops per multiply-add),
 *           determinism ("run-to-run": same inputs and seed, same bits on this machine; or "off"),
 *           memory {weights, statistics, gradients, optimizer, arena (activations and
 *           scratch), arena_unshared (the same if no two of them shared memory), arena_floor
 *           (the least any plan could reach), inputs, constants, total}: of a trainer with all its
 *           programs, which share one arena; evaluation is among them. Prefetched batches come
 *           on top,
 *           ops [{op, scope, direction ("forward", "backward", "update"), output, kernel, flops,
 *           bytes, scratch}] in order; with "accumulate" above 1 those of one backward, then of
 *           the update,
 *           passes [{program ("step", "backward", "apply", "eval"), name, changed, seconds,
 *           nodes_after}]
 *   errors  ASSAY_E_UNSUPPORTED names the op, its place, its types and why; ASSAY_E_INVALID;
 *           ASSAY_E_NOT_FOUND: device
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_model_check(const assay_model *m, assay_device_id device, int32_t mode,
                                         assay_str config_json, assay_report **out,
                                         assay_error **err);

/* Draws the first weights from the seed, as assay_trainer_create does for a model without weights.
 * The same seed gives the same weights, whatever was called before.
 *   errors  ASSAY_E_INVALID if the model has weights already; ASSAY_E_BUSY; ASSAY_E_OOM_HOST
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_model_initialize(assay_model *m, uint64_t seed, assay_error **err);

/* Tensors of a variable. Frozen. */
enum {
  ASSAY_KIND_VALUE = 1,    /* the weight, f32, also under mixed precision */
  ASSAY_KIND_GRADIENT = 2, /* of the last assay_trainer_backward or step */
  ASSAY_KIND_MOMENT1 = 3,  /* v of sgd ("momentum_convention" says how), or Adam's m */
  ASSAY_KIND_MOMENT2 = 4,  /* Adam's v */
  ASSAY_KIND_EMA = 5,      /* moving average of the weight, or of a running mean or variance */
  ASSAY_KIND_STATISTIC = 6 /* running mean or variance of a normalisation */
};

/* A tensor of the model by name, without a copy: reads show the present numbers, writes change
 * what is trained. Keeps the model alive. Gradients may be edited between assay_trainer_backward
 * and assay_trainer_apply.
 *   name    of assay_model_report, "block1.conv.weight"
 *   kind    of what training keeps there is a tensor for every weight, also for frozen ones, whose
 *           gradient and moments stay zeros
 *   errors  ASSAY_E_NOT_FOUND: no such variable, not a kind that it can have, or one that no
 *           training of this model has kept; ASSAY_E_INVALID: the model has no weights yet;
 *           ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_model_tensor(const assay_model *m, assay_str name, int32_t kind,
                                          assay_tensor **out, assay_error **err);

/* Flags of assay_model_load_weights. */
enum {
  /* Load what fits, which must be something, and report the rest; the model must have weights
   * already. */
  ASSAY_WEIGHTS_PARTIAL = 1
};

/* Loads weights and statistics into a model that has no trainer. Without ASSAY_WEIGHTS_PARTIAL
 * anything missing or of a wrong shape is an error. The whole file is read before anything is
 * changed. Moving averages that an earlier trainer left restart from the loaded weights.
 *   format    "safetensors" or "checkpoint". A checkpoint is one of the same model configuration
 *             unless map_json or ASSAY_WEIGHTS_PARTIAL says what to take of another's
 *   map_json  how names and layouts of the file map to ours, {"rules": [{"file":
 *             "layers.*.w", "model": "layer*.weight", "layout": "SAME", "OIHW", "HWIO" or "IO",
 *             "role": "value" or "statistic"}]}; the first rule that matches decides. Without rules
 *             names are ours, and so are layouts unless safetensors are PyTorch's, which their
 *             metadata say ("format": "pt") or, where they do not, the shapes of the convolutions.
 *             "keep": [patterns], []: names of the model that stay as they are, whatever the file
 *             holds, for example ["fc.*"], a head of another number of classes; the model must
 *             have weights already, and each pattern must match
 *   flags     bits of ASSAY_WEIGHTS_*
 *   out       may be NULL
 *   report    path, loaded [{model, file, cast, layout}], missing [..], unused [..], mismatched
 *             [{model, file, expected, actual}], kept [..]
 *   errors    ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT: damaged, or what is loaded by name is NaN;
 *             ASSAY_E_VERSION; ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_model_load_weights(assay_model *m, assay_str path, assay_str format,
                                                assay_str map_json, uint32_t flags,
                                                assay_report **out, assay_error **err);

/* Writes weights and statistics, whole or not at all, and durable, as assay_checkpoint_save does.
 * The file's metadata "format" is "pt" if its layouts are PyTorch's (rank 4: O,I,H,W), else "assay"
 * (O,H,W,I without a map).
 *   format    "safetensors"
 *   map_json  as for loading; the file gets the names and layouts of its side. "partial": true
 *             leaves out what no rule matches, which is ASSAY_E_INVALID otherwise: one of two
 *             networks that were trained together
 *   errors    ASSAY_E_INVALID; ASSAY_E_IO; ASSAY_E_NOT_FOUND: no such folder; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_model_save_weights(const assay_model *m, assay_str path,
                                                assay_str format, assay_str map_json,
                                                assay_error **err);

/* since 1.0, stable */
ASSAY_API void assay_model_free(assay_model *m);

/* ---- Training -------------------------------------------------------------------------------- */

/* Precision. Frozen. */
enum {
  ASSAY_PRECISION_FP32 = 1,
  ASSAY_PRECISION_TF32 = 2,     /* f32, matrix units may round operands (GPU) */
  ASSAY_PRECISION_AMP_FP16 = 3, /* f16 matrix operands, f32 masters, loss scaling (GPU) */
  ASSAY_PRECISION_AMP_BF16 = 4  /* bf16 matrix operands, f32 masters */
};

/* The numbers that most programs set. Each is also a key of config_json; giving both is
 * ASSAY_E_INVALID. */
typedef struct assay_trainer_options {
  size_t struct_size;
  const assay_ext *next;
  int64_t batch_size;      /* samples of a training batch; needed here or in config_json */
  int64_t eval_batch_size; /* 0: the same */
  int64_t accumulate;      /* micro-batches averaged into one update; 0: 1 */
  uint64_t seed;           /* of first weights and dropout */
  double learning_rate; /* at schedule factor 1, positive; config_json: optimizer.learning_rate */
  int32_t precision;    /* ASSAY_PRECISION_*; 0: FP32 */
  int32_t reserved;     /* 0, else ASSAY_E_INVALID */
  assay_comm *comm;     /* the other devices that train with this one; NULL: none */
} assay_trainer_options;

/* Configuration of a trainer: one JSON object. After a key stand its range in brackets and its
 * default. Keys of another kind of optimizer, schedule or loss scaling are errors. Reports and
 * checkpoints show the configuration resolved: with every key of its kinds, defaults included.
 *
 *   "batch_size"        [1, 2^30]; needed here or in the options. Samples of a training batch
 *   "eval_batch_size"   [1, 2^30], batch_size. Samples of an evaluation batch
 *   "accumulate"        [1, 2^30], 1. Batches whose gradients are averaged into one update
 *   "gradient_wire"     "fp32" or "fp16": what devices send each other. Over fp16 each one's
 *                       gradients (of emulated devices: of each batch) are rounded to it, summed
 *                       as fp32, and their sum is rounded; what is too large for it is infinite and
 *                       ends in a skipped update. Nothing with one device
 *   "emulated_devices"  [1, 2^30], 1; a divisor of "accumulate". The batches of an update are those
 *                       of so many devices in turn: batch i is device i % emulated_devices's. Each
 *                       keeps running statistics of its own, which start as the model's; between
 *                       updates the first device's are the model's, which predictions and averages
 *                       take. Those of the others are saved with ASSAY_PART_TRAINER_STATE. With
 *                       assay_trainer_options.comm the devices are its ranks: each sees every so
 *                       many-th batch only, this is their number, and "accumulate" counts the
 *                       batches of all, one each if not given. Where each has several, these are
 *                       summed first
 *   "precision"         "fp32" (default), "amp-bf16"; on GPUs also "tf32", "amp-fp16"
 *   "seed"              64 bits, 0. Of first weights and dropout
 *   "label_smoothing"   [0, 1), 0. Mass of the target moved to all classes alike
 *   "mixup_alpha"       [0, 1e6], 0 is none. Image classifiers: sample i of a batch is mixed with
 *                       the i-th from its end (arXiv:1710.09412)
 *   "raw_images"        none. Image classifiers: training batches hold 8-bit pixels, which are
 *                       placed, mirrored and normalised on the device. A batch is then image
 *                       u8[batch, height, width, channels], label, and placement i32[batch, 4]
 *                       with dy, dx, mirror_y, mirror_x of each image. Pixel (y, x) comes from
 *                       pixel (y' + dy, x' + dx) of the batch's image, where y' is y, or
 *                       height - 1 - y if mirror_y is not 0, and x' likewise; outside of that
 *                       image from black. Its value b becomes (b scale - mean) / stddev
 *     "scale"           1/255
 *     "mean", "stddev"  [numbers], 0 and 1. One, or one for each channel
 *     "channels"        of the batch's image; the model's if left out. Further channels of the
 *                       model's image are 0
 *   "image_size"        efficientdet_d0: [rows, columns] of its images, multiples of 128, [512, 512].
 *                       Weights fit every size
 *   "sequence_length"   models of text: tokens of a sequence with its padding, 128. Weights fit
 *                       every length up to the model's positions
 *   "prediction_slots"  bert_base: masked words of a sequence, 20
 *   "packed"            false. Models of text: tokens of a batch are computed without the padding
 *                       between them, in programs with room for a sixteenth, two ... of a padded
 *                       batch, each planned when a batch first needs it. Results differ from those
 *                       of padded batches by what dropout draws, and by rounding
 *   "disabled_pass"     [names], []. Graph rewrites to leave out (assay_model_check lists them)
 *   "optimizer"         needed
 *     "name"            "sgd", "adam", "adamw" or "lamb"; needed
 *     "learning_rate"   > 0; needed here or in the options. The rate at schedule factor 1
 *     "weight_decay"    [0, 1e6), 0. Added to the gradient (sgd, adam) or decoupled (adamw, lamb)
 *     "decay_in_loss"   sgd, adam: false. Decay is a part of the loss, weight_decay / 2 |w|^2: what
 *                       it adds to gradients is clipped with the rest
 *     "clip_norm"       >= 0, 0 is none. Largest L2 norm of all gradients together; larger ones
 *                       are scaled down to it
 *     "clip_each_norm"  >= 0, 0 is none. Largest L2 norm of the gradient of each parameter, before
 *                       clip_norm
 *     "ema_decay"       [0, 1), 0 is none. d of the moving average a of a weight w, after each
 *                       update: a = d a + (1 - d) w
 *     "ema_warmup"      false. After t updates d is min(ema_decay, (1 + t) / (10 + t))
 *     "ema_statistics"  false. Running means and variances are averaged like weights
 *     "momentum"        sgd: [0, 1), 0
 *     "nesterov"        sgd: false; needs momentum
 *     "momentum_convention"  sgd: how the update moves a weight w along its gradient g. They differ
 *                       when the rate changes. v is ASSAY_KIND_MOMENT1, also in checkpoints
 *                       "pytorch"      v = m v + g, w -= rate v (default; also TensorFlow 1)
 *                       "sutskever"    v = m v - rate g, w += v (Keras, MXNet, Caffe): v has
 *                                      the opposite sign
 *     "beta1", "beta2"  adam, adamw, lamb: [0, 1), 0.9 and 0.999
 *     "epsilon"         adam, adamw, lamb: [0, 1), 1e-8 (lamb 1e-6)
 *     "epsilon_form"    adam, adamw: "pytorch" (default), added to the corrected root, or
 *                       "tensorflow", to the uncorrected one
 *     "bias_correction" adam, adamw, lamb: true
 *     "group"           [objects], []. A parameter takes each setting from the last group that it
 *                       matches and that gives it, so that lists may cross: rates by layer, and
 *                       "*.bias" without decay. It matches those that both lists below match, of
 *                       which one is needed; a pattern or a kind that matches none is an error
 *       "match"         [patterns], []: names with * for any characters; []: all
 *       "kind"          [kinds], []: what they are, as assay_model_report says it; []: any
 *       "weight_decay"  [0, 1e6), the optimizer's
 *       "lr_scale"      [0, 1e6), 1. Factor of the rate
 *       "no_trust_ratio"  lamb: false. Takes trust ratio 1
 *       "frozen"        false. Not trained: no gradient is computed and no weight changes. Running
 *                       means and variances of norms still follow the batches
 *   "schedule"          the factor of the rate at step s, from 0; left out: "constant"
 *     "name"            needed. With W = warmup_steps, T = total_steps, e = end_factor and
 *                       t = (s - W) / (T - W), or s / T with decay_from_start, held in [0, 1],
 *                       for s >= W:
 *                       "constant"     1
 *                       "step"         gamma ^ (number of boundaries <= s)
 *                       "polynomial"   e + (1 - e) (1 - t) ^ power
 *                       "cosine"       e + (1 - e) (1 + cos(pi t)) / 2
 *                       "exponential"  gamma ^ ((s - W) / decay_steps)
 *     "warmup_steps"    >= 0, 0. For s < W the factor is (s + 1) / W
 *     "warmup_start"    >= 0, none. f: for s < W the factor is f + (1 - f) s / W instead
 *     "total_steps"     polynomial, cosine: > warmup_steps; needed
 *     "end_factor"      polynomial, cosine: >= 0, 0
 *     "decay_from_start"  polynomial, cosine: false. Falls as if there were no warm-up before
 *     "power"           polynomial: > 0, 1
 *     "gamma"           step, exponential: > 0, 0.1
 *     "boundaries"      step: increasing steps; needed
 *     "decay_steps"     exponential: > 0; needed. May be a fraction
 *     "on_skip"         "hold" (default): s counts the updates that were done before, so that
 *                       total_steps calls of which some are skipped end above end_factor;
 *                       "advance": also those that dynamic loss scaling skipped, as PyTorch's
 *                       schedulers do
 *   "loss_scale"
 *     "mode"            "none" (default), "static", "dynamic"
 *     "initial"         static, dynamic: > 0, 65536
 *     "growth"          dynamic: >= 1, 2. Factor after `interval` good updates
 *     "backoff"         dynamic: (0, 1], 0.5. Factor after a NaN or infinity
 *     "interval"        dynamic: [1, 2^31), 2000
 *     "minimum", "maximum"  dynamic: > 0, 1 and 2^24 */

/* A trainer of m on the model's context. A model has one trainer at a time; a new one starts at
 * step 0 with fresh optimizer state and the model's present weights.
 *   options      may be NULL
 *   config_json  "Configuration of a trainer" above
 *   errors  ASSAY_E_INVALID naming the key, also if the model has a trainer;
 *           ASSAY_E_UNSUPPORTED; ASSAY_E_BUSY; ASSAY_E_OOM_HOST
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_create(assay_model *m, const assay_trainer_options *options,
                                            assay_str config_json, assay_trainer **out,
                                            assay_error **err);

/* Bits of assay_step_info.flags. */
enum {
  ASSAY_STEP_UPDATED = 1, /* the weights changed */
  /* Dynamic loss scaling met a NaN or infinity: nothing was updated. */
  ASSAY_STEP_SKIPPED_NONFINITE = 2
};

typedef struct assay_step_info {
  size_t struct_size;
  const assay_ext *next;
  int64_t step;       /* updates done or skipped, this one included */
  int64_t micro_step; /* batches since the last update */
  int64_t samples;    /* training samples seen since step 0 */
  double loss;        /* mean over the batch, nats */
  double grad_norm;   /* global L2 norm before clipping; 0 without an update */
  double loss_scale;
  double learning_rate; /* of this update */
  double seconds;       /* wall time of the call */
  uint32_t flags;
  uint32_t reserved;
} assay_step_info;

/* Hands over the batch of a later step, so that its transfer overlaps the step before it.
 * assay_trainer_step and _backward use it when they are called with an empty batch (NULL, 0): the
 * oldest prefetched batch first. Two may wait. The first is copied at once. The second is read
 * during the next step: it must stay unchanged until that has returned, and a loader that gave it
 * answers ASSAY_E_BUSY until then. A step that fails and assay_checkpoint_load drop all prefetched
 * batches. Results are the same without prefetching.
 *   batch   as for assay_trainer_step
 *   errors  ASSAY_E_INVALID: wrong tensors, or two wait already; ASSAY_E_BUSY; ASSAY_E_OOM_HOST;
 *           ASSAY_E_OOM_DEVICE; ASSAY_E_DEVICE
 *   threads alone, with the model   since 1.0, provisional */
ASSAY_API assay_status assay_trainer_prefetch(assay_trainer *t, const assay_tensor *const *batch,
                                              size_t n, assay_error **err);

/* One training step on one batch: forward, backward and, at every accumulate-th call, the
 * update.
 *   batch   n tensors in host memory, the model's inputs in the order of assay_model_report, each
 *           [batch_size, sample_shape...]; where the report says i32, i64 is taken as well:
 *           "image" f32; of classifiers "label" i32 in [0, classes);
 *           of unet_medical "target" f32 [batch_size, rows, columns, classes], the weight of each
 *           class at each pixel of the output: 1 for the right one, 0 for the others, a row of
 *           zeros for pixels that do not count. With the trainer's "raw_images": image u8, label
 *           i32, placement i32; of bert_base, all i32, input_ids and segment_ids [batch_size,
 *           sequence_length], length [batch_size], how many of them are real, masked_lm_positions
 *           of real ones and masked_lm_ids [batch_size, prediction_slots], 0 and -1 in slots that
 *           are not used, and next_sentence_labels [batch_size], 1 for a random sentence; of
 *           electra_base_pretraining the first three of these; of models that answer questions,
 *           behind the first three, start_positions and end_positions [batch_size], and of
 *           version 2.0 is_impossible [batch_size], 0 or 1. Empty: the oldest prefetched batch;
 *           nothing else may come while one waits. Read during the call only
 *   info    may be NULL. For other numbers that the model computes: assay_trainer_scalar
 *   errors  ASSAY_E_INVALID: wrong number, type or shape of tensors, an integer out of range;
 *           ASSAY_E_NONFINITE unless loss scaling is dynamic; ASSAY_E_CANCELLED; ASSAY_E_BUSY.
 *           Weights, optimizer state, running statistics and counters are then as before the
 *           call. ASSAY_E_NONFINITE of an update over several batches drops them all: everything
 *           is as before the first of them. An update that dynamic loss scaling skips keeps the
 *           counters and takes back what its batches did to the running statistics.
 *           ASSAY_E_DEVICE, ASSAY_E_OOM_DEVICE: as before the call as well, but where the device
 *           failed in the middle of an update, or did not say whether it was done: then every later
 *           call that trains, evaluates, profiles, saves or loads is ASSAY_E_POISONED, whatever
 *           flag the first had, the model's weights may be half updated, and a new trainer goes on
 *           from a checkpoint. So it is where a device fails in the middle of
 *           assay_checkpoint_load, or while assay_trainer_profile puts back what it changed
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_step(assay_trainer *t, const assay_tensor *const *batch,
                                          size_t n, assay_step_info *info, assay_error **err);

/* The first half of a step: gradients of one batch, added to those of the calls since the last
 * update. Bit-equal to step when followed by assay_trainer_apply. Arguments and errors as
 * assay_trainer_step; ASSAY_E_INVALID when `accumulate` batches are waiting already.
 *   info    may be NULL
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_backward(assay_trainer *t, const assay_tensor *const *batch,
                                              size_t n, assay_step_info *info, assay_error **err);

/* The second half: the update from the gradients, which may have been edited
 * (assay_model_tensor).
 *   info    may be NULL
 *   errors  ASSAY_E_INVALID before `accumulate` backward calls; ASSAY_E_NONFINITE, as
 *           assay_trainer_step; ASSAY_E_CANCELLED: the batches wait on; ASSAY_E_BUSY
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_apply(assay_trainer *t, assay_step_info *info,
                                           assay_error **err);

/* Flags of assay_trainer_eval. */
enum { ASSAY_EVAL_EMA = 1 /* with the moving averages; needs optimizer.ema_decay */ };

typedef struct assay_eval_info {
  size_t struct_size;
  const assay_ext *next;
  /* One view of the outputs that assay_trainer_scalar gives by name; 0 where there is none. */
  /* "loss.weight": rows that counted, not padding (label -1, a target of zeros); of networks of your
   * own what "loss" was given as its weight, without one all rows (assay_graph.h). */
  int64_t samples;
  double loss_sum; /* "loss": nats, over these rows */
  double top1;     /* "top1": how many were classified right */
  double top5;     /* "top5": ... or among the five best */
  double seconds;  /* wall time of the call */
} assay_eval_info;

/* Evaluates one batch, with the running statistics and without dropout; changes nothing. Calling
 * this function is what selects evaluation; there is no mode to set or restore.
 *   batch   as for step, of eval_batch_size rows; rows of label -1, or of a dense
 *           target that is zero everywhere, are padding
 *   info    may be NULL
 *   errors  as assay_trainer_step, except ASSAY_E_NONFINITE
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_eval(assay_trainer *t, const assay_tensor *const *batch,
                                          size_t n, uint32_t flags, assay_eval_info *info,
                                          assay_error **err);

/* Stops the step or evaluation that runs with this trainer, as assay_context_interrupt does. A call
 * that is about to begin on another thread is not affected: who waits for its end calls this again
 * until it has come.
 *   returns ASSAY_E_INVALID for NULL
 *   threads any, beside other calls   since 1.0, provisional */
ASSAY_API assay_status assay_trainer_interrupt(const assay_trainer *t);

/* A number that the model computed for the last batch trained or evaluated: "loss"; "top1" and
 * "top5" of classifiers, in evaluation; "cross_entropy" and "dice_loss" of unet_medical, whose sum
 * is its loss; after an update "grad_norm", and "skip", 1 if it was left out as not finite; outputs
 * of networks of your own.
 *   value   a mean over the batch after training, a sum over what counts after evaluation, where
 *           "<name>.weight" is how much that was: the mean of an evaluation is the sum of the
 *           values over the sum of the weights
 *   errors  ASSAY_E_NOT_FOUND, listing the names, and saying so where evaluations have it;
 *           ASSAY_E_INVALID: before the first batch; ASSAY_E_BUSY
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_trainer_scalar(assay_trainer *t, assay_str name, double *value,
                                            assay_error **err);

/* A tensor that the model computed for the batch evaluated last: "logits" of classifiers and of
 * unet_medical, "masked_lm_logits" and "next_sentence_logits", "generator_logits" and
 * "discriminator_logits", "start_logits", "end_logits" and "class_logit" of models of text.
 *   name    what the model has stands in the message of ASSAY_E_NOT_FOUND
 *   out     receives a copy in host memory, rows in the order of the batch: assay_tensor_release.
 *           f32; under mixed precision it may be of the lower one
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_INVALID unless an evaluation was the last that this trainer
 *           did, reports and profiles included; ASSAY_E_BUSY; ASSAY_E_OOM_HOST
 *   threads alone, with the model   since 1.0, provisional */
ASSAY_API assay_status assay_trainer_output(assay_trainer *t, assay_str name, assay_tensor **out,
                                            assay_error **err);

/* Changes a setting between steps.
 *   key     "learning_rate" (the rate at schedule factor 1), or "loss_scale", which changes
 *           between updates only. Both are saved with checkpoints and come back with
 *           ASSAY_PART_TRAINER_STATE. "evaluated_device": the emulated device whose statistics
 *           evaluations read from now on, 0 at first
 *   errors  ASSAY_E_NOT_FOUND: no such key; ASSAY_E_INVALID: bad value; ASSAY_E_BUSY
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_set(assay_trainer *t, assay_str key, double value,
                                         assay_error **err);

/* Attaches a text of the host, or the cursor of its data loader, to the trainer. Texts are saved
 * with every checkpoint, the cursor with those that hold ASSAY_PART_TRAINER_STATE; loading that
 * part brings all of them back.
 *   key     UTF-8 without control characters, 1 to 255 bytes, not beginning with "assay."; or
 *           "assay.cursor"
 *   value   text of at most 16 MiB, copied; of "assay.cursor" any bytes. {NULL, 0} removes the key
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_set_metadata(assay_trainer *t, assay_str key, assay_str value,
                                                  assay_error **err);

/* Reads what assay_trainer_set_metadata or a checkpoint attached.
 *   value   borrowed until the next assay_trainer_set_metadata or assay_checkpoint_load of this
 *           trainer
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_INVALID; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_trainer_get_metadata(const assay_trainer *t, assay_str key,
                                                  assay_str *value, assay_error **err);

/* Says how training is done and where it stands. Plans what an update runs if none was done yet.
 *   report  architecture, config {..resolved..}, step, samples, loss_scale, learning_rate (as last
 *           set, at schedule factor 1),
 *           groups [{name, group (index in optimizer.group of the last it matches), weight_decay,
 *           lr_scale, trust_ratio}] one row per trained variable,
 *           evaluated [..]: what assay_trainer_scalar gives after an evaluation,
 *           memory {..} and passes [..] as in assay_model_check, plan [..]: the programs of an
 *           update, "# step", or "# backward" and "# apply", each followed by a line per node
 *           with its place in the arena and its kernel; with a channel communication {ranks,
 *           updates, bytes, seconds, waited}: over the updates of this trainer, the bytes of the
 *           gradients that were summed, how long that took, waiting for other ranks included, and
 *           how much of that was not hidden behind the backward pass; on GPUs neither is known
 *   errors  ASSAY_E_INVALID; ASSAY_E_UNSUPPORTED; ASSAY_E_OOM_HOST; ASSAY_E_BUSY
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_trainer_report(assay_trainer *t, assay_report **out,
                                            assay_error **err);

/* Times every node of the training step on the data of the last batch (zeros before the first);
 * with "accumulate" above 1 those of one backward, then of the update.
 * Weights, optimizer state and counters are put back afterwards; this takes a copy of them for
 * the time of the call.
 *   repeats  1 to 1000 steps; each time is the median
 *   report  repeats, seconds (sum of rows), memory {..}, rows [{op, scope, direction, output,
 *           kernel, seconds, flops, bytes}]
 *   errors  ASSAY_E_INVALID, also between backward and apply; ASSAY_E_BUSY; ASSAY_E_OOM_HOST
 *   threads alone, with the model   since 1.0, provisional */
ASSAY_API assay_status assay_trainer_profile(assay_trainer *t, int32_t repeats, assay_report **out,
                                             assay_error **err);

/* since 1.0, stable */
ASSAY_API void assay_trainer_free(assay_trainer *t);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Parts of a checkpoint. Frozen; also stored in files. */
enum {
  ASSAY_PART_WEIGHTS = 1,
  ASSAY_PART_MOMENTS = 2, /* of the optimizer */
  ASSAY_PART_EMA = 4,
  ASSAY_PART_STATISTICS = 8,     /* running means and variances */
  ASSAY_PART_TRAINER_STATE = 16, /* counters, loss scale, metadata */
  ASSAY_PART_ALL = 31
};

/* Writes a checkpoint. The file appears under its name whole and durable, or not at all:
 * whatever stops the writer leaves the previous file as it was. A link is followed; a device, pipe or
 * socket is not replaced (ASSAY_E_INVALID). Only where nothing but the last
 * step fails, making the new name durable (ASSAY_E_IO, "syncing folder"), is the new file in place,
 * whole; a power cut may then bring the previous one back. Everything in it is under a checksum.
 *   path    UTF-8
 *   parts   bits of ASSAY_PART_*; 0: all. With all, a trainer that loads the file goes on with
 *           the same bits as this one
 *   errors  ASSAY_E_INVALID, also between backward and apply; ASSAY_E_IO; ASSAY_E_NOT_FOUND: no
 *           such folder; ASSAY_E_BUSY
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_checkpoint_save(const assay_trainer *t, assay_str path, uint32_t parts,
                                             assay_error **err);

/* Loads parts of a checkpoint into a trainer of the same model configuration. Moments need the
 * same optimizer. ASSAY_PART_TRAINER_STATE continues where the writer stopped, so every key of the
 * trainer's configuration must be the same, except eval_batch_size. A difference is
 * ASSAY_E_INVALID: argument is the key, expected the checkpoint's value, actual the trainer's.
 * What the configuration does not hold may differ: paths, logs, prefetching, workers of loaders.
 * The bits of an uninterrupted training are promised on the same machine with the same number of
 * threads of the context. Weights loaded without ASSAY_PART_EMA restart the moving averages from
 * them. All is read and checked before anything is changed, which takes memory for one more copy of
 * the parts.
 *   parts   bits of ASSAY_PART_*; 0: all. The file must hold them; what else it holds is neither
 *           read nor checked
 *   out     may be NULL
 *   report  path, file_bytes, format_version, library_version, created_unix_s, step, samples,
 *           metadata [keys]
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT: damaged, or no checkpoint;
 *           ASSAY_E_VERSION; ASSAY_E_INVALID: of another model or optimizer; ASSAY_E_BUSY
 *   threads alone, with the model   since 1.0, stable */
ASSAY_API assay_status assay_checkpoint_load(assay_trainer *t, assay_str path, uint32_t parts,
                                             assay_report **out, assay_error **err);

/* A checkpoint that is no file: in memory, behind a socket, in a store of objects.
 *
 * The functions are called on the thread of the call that was given them, one at a time, and not
 * after it has returned. Those that return a number return 0; any other is the host's own, with which
 * the call fails: ASSAY_E_IO, domain ASSAY_DOMAIN_HOST, and that native_code. They may call the
 * library, but the trainer of the call and its model stay in use, as `threads` says: ASSAY_E_BUSY.
 * Those that a call has no use for may be NULL.
 *
 * To save takes a stream: bytes come once each, from the first to the last. To load takes random
 * access: what says where everything is, and that it is whole, are the last bytes. What has come
 * through a socket is to be kept, in memory for example, until its end is known. */
typedef struct assay_io {
  size_t struct_size;
  const assay_ext *next;
  uintptr_t user; /* handed to every function below */
  /* Saving: takes all of the next bytes, of which there may be as many as the largest tensor has.
   *   src  lent until this returns */
  int32_t (*write)(uintptr_t user, const void *src, size_t size);
  /* Saving: all has been written. Only now does it count: whoever stores it shows it under its name
   * from here on, and lets whatever had that name go. Nothing is called behind this, even if it
   * fails. NULL: nothing is left to do. */
  int32_t (*commit)(uintptr_t user);
  /* Saving: what was written is to be dropped, for a write or what lies between two of them failed.
   * NULL: the status of the call says enough. */
  void (*discard)(uintptr_t user);
  /* Loading: copies `size` bytes, which lie `offset` bytes behind the first, to dst, all of them.
   * At most 1 MiB at a time, and many times less than 1 KiB: where each means a message to another
   * machine, load the whole at once or read ahead. */
  int32_t (*read)(uintptr_t user, void *dst, size_t size, uint64_t offset);
  uint64_t size; /* loading: bytes of the checkpoint */
} assay_io;

/* assay_checkpoint_save by functions of the host: the same bytes, and whether they appear whole and
 * durable, or not at all, lies with its `commit`. Of several devices (assay_comm.h) only the
 * functions of rank 0 are called.
 *   io      `write` is needed, on every rank
 *   errors  ASSAY_E_INVALID, also between backward and apply; ASSAY_E_IO; ASSAY_E_OOM_HOST;
 *           ASSAY_E_VERSION; ASSAY_E_BUSY; of several devices ASSAY_E_COMM, also on all other
 *           ranks if rank 0 could not save, and ASSAY_E_TIMEOUT
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_checkpoint_save_io(const assay_trainer *t, const assay_io *io,
                                                uint32_t parts, assay_error **err);

/* assay_checkpoint_load by functions of the host: all is read and checked before anything is changed,
 * whatever they give.
 *   io      `read` and `size` are needed
 *   out     may be NULL; report as there, without path
 *   errors  as assay_checkpoint_load
 *   threads alone, with the model   since 1.0, provisional */
ASSAY_API assay_status assay_checkpoint_load_io(assay_trainer *t, const assay_io *io,
                                                uint32_t parts, assay_report **out,
                                                assay_error **err);

/* assay_model_open by functions of the host.
 *   io      `read` and `size` are needed
 *   errors  as assay_model_open
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_model_open_io(const assay_context *c, const assay_io *io,
                                           assay_model **out, assay_error **err);

/* Says what a checkpoint or safetensors file holds, without reading its tensors.
 *   report  path, format ("checkpoint" or "safetensors"), file_bytes; of checkpoints
 *           format_version, library_version, created_unix_s; parts [..], as they were asked for:
 *           "ema" is one of all also of a training without averages; with trainer state step,
 *           updates, batches, samples, seed, loss_scale, growth_counter, optimizer_name,
 *           optimizer_config, schedule_config; model_name, model_config; with trainer state
 *           precision, data_cursor_bytes; metadata [{key, value}], tensors [{name, role, dtype,
 *           dims [..], bytes, offset, crc32c}] (of safetensors neither role nor crc32c),
 *           weight_elements; with trainer state trainer_config (resolved), learning_rate (as
 *           last set). The four that end in _config are texts that hold JSON, as the functions take
 *           it: to go on with a training make its model with assay_model_open, a trainer with
 *           trainer_config, and load the file into that with ASSAY_PART_ALL. 64-bit integers are
 *           strings here
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_FORMAT; ASSAY_E_VERSION; ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_checkpoint_inspect(assay_str path, assay_report **out,
                                                assay_error **err);

/* assay_checkpoint_inspect by functions of the host; report as there, without path.
 *   io      `read` and `size` are needed
 *   errors  as assay_checkpoint_inspect
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_checkpoint_inspect_io(const assay_io *io, assay_report **out,
                                                   assay_error **err);

/* Reads every byte of a checkpoint file. Damage is described in the report and is not an error.
 *   report  path, ok, file_bytes, tensors (count), faults [a sentence each; empty when ok]
 *   errors  ASSAY_E_NOT_FOUND; ASSAY_E_IO; ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_checkpoint_verify(assay_str path, assay_report **out,
                                               assay_error **err);

/* Compares two checkpoint files: tensors bit by bit, states field by field.
 *   report  a, b, identical (creation time and library version do not count), equal_tensors
 *           (count),
 *           tensors [{name, role, kind "VALUES" (then different_elements, max_abs_difference,
 *           nan_mismatches), "SHAPE_OR_TYPE" (then a, b), "ONLY_IN_A" or "ONLY_IN_B"}],
 *           state [{field, a, b}]
 *   errors  as assay_checkpoint_inspect
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_checkpoint_diff(assay_str a, assay_str b, assay_report **out,
                                             assay_error **err);

/* Converts between checkpoints and safetensors. The target appears whole or not at all.
 *   to        another file than `from`; one that is there is replaced
 *   format    of the target: "safetensors" (from a checkpoint) or "checkpoint" (from
 *             safetensors: weights and statistics)
 *   map_json  as for assay_model_load_weights, without "keep". There is no model here: of a file with
 *             convolutions whose metadata do not say its "format" the rules must say the layout. What
 *             neither a rule nor the file calls a statistic is one if its name ends in
 *             ".running_mean" or ".running_var"
 *   kind      to safetensors: ASSAY_KIND_VALUE (or 0), or ASSAY_KIND_EMA for the moving averages
 *   out       may be NULL
 *   report    from, to, tensors (count), skipped [names]
 *   errors    as assay_checkpoint_inspect
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_checkpoint_convert(assay_str from, assay_str to, assay_str format,
                                                assay_str map_json, int32_t kind,
                                                assay_report **out, assay_error **err);

/* ---- Inference ------------------------------------------------------------------------------- */

/* Makes a predictor on the model's present weights, with normalisations folded into convolutions.
 * Later changes of the weights do not change it: they are copied, but only when something may change
 * them, which is a trainer, a load or a tensor of the model. Threads may share it; each caller needs
 * a slot of its own.
 *   config_json  keys, with defaults:
 *     "precision"      "fp32" (default), "amp-bf16"; on GPUs also "tf32", "amp-fp16"
 *     "use_ema"        false. Predict with the moving averages the last trainer kept, or those that
 *                      came with the checkpoint (assay_model_open)
 *     "max_batch"      at least 1, 1024. Largest batch of a run
 *     "image_size"     efficientdet_d0: [rows, columns], multiples of 128, [512, 512]
 *     "suppression"    efficientdet_d0: "soft" (default), Gaussian and class by class, as COCO's
 *                      evaluation wants it; or "hard", over all classes, scores above 0.4
 *     "sequence_length"  models of text: tokens of a sequence with its padding, 128
 *     "prediction_slots"  bert_base: masked words of a sequence, 20
 *     "disabled_pass"  [names], []. Graph rewrites to leave out
 *   errors  ASSAY_E_INVALID, also if the model has no weights; ASSAY_E_BUSY; ASSAY_E_OOM_HOST
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_predictor_create(const assay_model *m, assay_str config_json,
                                              assay_predictor **out, assay_error **err);

/* Describes the predictor, its inputs and its outputs.
 *   report  architecture, precision, use_ema, max_batch, inputs [{name, dtype, sample_shape [..]}],
 *           outputs [{name, dtype, sample_shape [..]}], both in the order of assay_predictor_run.
 *           "masked_lm_logits" has a row for each of a sample's prediction_slots
 *   errors  ASSAY_E_INVALID
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_predictor_report(const assay_predictor *p, assay_report **out,
                                              assay_error **err);

/* Writes what the predictor computes for programs of others. The file appears whole or not at all,
 * and replaces one of that name.
 *   path    UTF-8
 *   format  "onnx": a model of opset 17 with the inputs and outputs of assay_predictor_report, under
 *           their names, in f32 whatever the predictor's precision. The batch may have any size.
 *           Images have their channels last, as here; indices that are out of range are not checked
 *           there
 *   out     may be NULL
 *   report  path, format, opset, nodes (count), file_bytes
 *   errors  ASSAY_E_UNSUPPORTED: the network holds something that ONNX has not, which the message
 *           names, or more than 2 GiB; ASSAY_E_INVALID; ASSAY_E_IO; ASSAY_E_NOT_FOUND: no such
 *           folder; ASSAY_E_OOM_HOST
 *   threads any   since 1.0, provisional */
ASSAY_API assay_status assay_predictor_export(const assay_predictor *p, assay_str path,
                                              assay_str format, assay_report **out,
                                              assay_error **err);

/* Makes a slot: the plans and scratch memory with which one caller runs a predictor, made for each
 * batch size at its first use. The plans of the 8 batch sizes used last are kept, others are made
 * anew. May outlive its predictor.
 *   errors  ASSAY_E_INVALID; ASSAY_E_OOM_HOST
 *   threads any   since 1.0, stable */
ASSAY_API assay_status assay_slot_create(const assay_predictor *p, assay_slot **out,
                                         assay_error **err);

/* Makes the plan for a batch size now instead of in the first run.
 *   batch   1 to max_batch
 *   errors  ASSAY_E_INVALID; ASSAY_E_UNSUPPORTED; ASSAY_E_OOM_HOST; ASSAY_E_BUSY
 *   threads alone   since 1.0, stable */
ASSAY_API assay_status assay_slot_prepare(assay_slot *slot, int64_t batch, assay_error **err);

/* Runs one batch.
 *   slot    of this predictor
 *   in      n_in tensors in host memory, [batch, sample...], all with the same batch, 1 to
 *           max_batch; integers in their range (assay_model_report), i64 in place of i32 too.
 *           Floats are to be finite: a relu that the CPU computes within a convolution makes 0 of
 *           NaN, and the result may look sound
 *   out     n_out places, at most as many as the report's outputs, filled in its order:
 *           NULL on entry: receives a read-only view of the result, to be released; its numbers
 *           are valid until the next run of this slot. Such a view may stand here again in
 *           later runs of the same batch size, and then shows the new result, as long as the
 *           slot keeps the plan of that size.
 *           A tensor on entry: must have the output's type and shape, in memory of the host or of
 *           the predictor's GPU; the result is copied there
 *   errors  ASSAY_E_INVALID; ASSAY_E_CANCELLED; ASSAY_E_BUSY; ASSAY_E_OOM_HOST. On failure
 *           places that were NULL stay NULL
 *   threads any on the predictor, alone on the slot   since 1.0, stable */
ASSAY_API assay_status assay_predictor_run(const assay_predictor *p, assay_slot *slot,
                                           const assay_tensor *const *in, size_t n_in,
                                           assay_tensor **out, size_t n_out, assay_error **err);

/* Stops the run with this slot, as assay_trainer_interrupt does a step.
 *   returns ASSAY_E_INVALID for NULL
 *   threads any, beside other calls   since 1.0, provisional */
ASSAY_API assay_status assay_slot_interrupt(const assay_slot *slot);

/* Times every node of a prediction, on the data of the last run of this batch size (zeros before
 * the first).
 *   report  as assay_trainer_profile
 *   errors  ASSAY_E_INVALID; ASSAY_E_BUSY; ASSAY_E_OOM_HOST
 *   threads alone   since 1.0, provisional */
ASSAY_API assay_status assay_slot_profile(assay_slot *slot, int64_t batch, int32_t repeats,
                                          assay_report **out, assay_error **err);

/* since 1.0, stable */
ASSAY_API void assay_slot_free(assay_slot *slot);
/* since 1.0, stable */
ASSAY_API void assay_predictor_free(assay_predictor *p);

#ifdef __cplusplus
}
#endif

#endif
