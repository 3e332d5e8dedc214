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

typedef int32_t assay_status;

enum {
  ASSAY_OK = 0,
  ASSAY_E_INVALID = -1,
  ASSAY_E_UNSUPPORTED = -2,
  ASSAY_E_OOM_HOST = -3,
  ASSAY_E_OOM_DEVICE = -4,
  ASSAY_E_DEVICE = -5,
  ASSAY_E_IO = -6,
  ASSAY_E_FORMAT = -7,
  ASSAY_E_VERSION = -8,
  ASSAY_E_NOT_FOUND = -9,
  ASSAY_E_BUSY = -10,
  ASSAY_E_CANCELLED = -11,
  ASSAY_E_TIMEOUT = -12,
  ASSAY_E_COMM = -13,
  ASSAY_E_CALLBACK = -14,
  ASSAY_E_NONDETERMINISTIC = -15,
  ASSAY_E_POISONED = -16,
  ASSAY_E_INTERNAL = -17,
  ASSAY_E_NONFINITE = -18,
  ASSAY_E_END_OF_DATA = -19
};

typedef struct assay_error assay_error;
typedef struct assay_context assay_context;
typedef struct assay_tensor assay_tensor;
typedef struct assay_model assay_model;
typedef struct assay_trainer assay_trainer;
typedef struct assay_predictor assay_predictor;
typedef struct assay_slot assay_slot;
typedef struct assay_report assay_report;
typedef struct assay_comm assay_comm;

typedef struct assay_str {
  const char* data;
  size_t size;
} assay_str;

typedef struct assay_ext {
  uint32_t id;
  uint32_t flags;
  size_t struct_size;
  const struct assay_ext* next;
} assay_ext;

#define ASSAY_ABI_VERSION (UINT32_C(1) << 16)
ASSAY_API uint32_t assay_abi_version(void);

ASSAY_API assay_str assay_version_string(void);

ASSAY_API assay_str assay_status_name(assay_status status);

enum { ASSAY_ERROR_RETRY = 1, ASSAY_ERROR_POISONED = 2, ASSAY_ERROR_CALLER = 4 };

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
  const assay_ext* next;
  assay_status code;
  int32_t domain;
  int64_t native_code;
  uint32_t flags;
  uint32_t reserved;

  assay_str message;

  assay_str op_path;
  assay_str argument;
  assay_str expected;
  assay_str actual;
  assay_str hint;
} assay_error_info;

ASSAY_API assay_status assay_error_get(const assay_error* e, assay_error_info* out);

ASSAY_API void assay_error_free(assay_error* e);

ASSAY_API assay_str assay_report_text(const assay_report* r);

ASSAY_API void assay_report_free(assay_report* r);

enum { ASSAY_DEVICE_CPU = 0, ASSAY_DEVICE_CUDA = 1 };

typedef struct assay_device_id {
  int32_t kind;
  int32_t index;
} assay_device_id;

typedef struct assay_device_info {
  size_t struct_size;
  const assay_ext* next;
  assay_device_id id;
  assay_str name;
  assay_str driver;

  assay_str unavailable_reason;
  uint64_t mem_total;
  uint64_t mem_free;
  int32_t n_threads;
  int32_t reserved;
} assay_device_info;

ASSAY_API assay_status assay_device_enum(size_t index, assay_device_info* out, assay_error** err);

enum { ASSAY_LOG_ERROR = 1, ASSAY_LOG_WARNING = 2, ASSAY_LOG_INFO = 3, ASSAY_LOG_DEBUG = 4 };

typedef struct assay_picture {
  size_t struct_size;
  const assay_ext* next;
  int32_t height;
  int32_t width;
  int32_t channels;
  int32_t bits;
  int64_t row_bytes;
  const void* data;
} assay_picture;

typedef struct assay_host {
  size_t struct_size;
  const assay_ext* next;
  uintptr_t user;

  void (*log)(uintptr_t user, int32_t level, assay_str component, assay_str text);

  int32_t (*read_image)(uintptr_t user, const void* file, size_t size,
                        void (*give)(void* to, const assay_picture* page), void* to);
} assay_host;

enum {

  ASSAY_DETERMINISM_ON = 1,

  ASSAY_DETERMINISM_OFF = 2
};

typedef struct assay_context_options {
  size_t struct_size;
  const assay_ext* next;

  int32_t n_threads;
  int32_t log_level;

  uint64_t mem_limit;
  int32_t determinism;
  int32_t reserved;
} assay_context_options;

ASSAY_API assay_status assay_context_create(const assay_context_options* options,
                                            const assay_host* host, const assay_device_id* devices,
                                            size_t n_devices, assay_context** out,
                                            assay_error** err);

ASSAY_API assay_status assay_context_interrupt(const assay_context* c);

typedef struct assay_mem_stats {
  size_t struct_size;
  const assay_ext* next;
  uint64_t in_use;
  uint64_t peak;
  uint64_t limit;
  uint64_t blocks;
} assay_mem_stats;

ASSAY_API assay_status assay_context_mem_stats(const assay_context* c, assay_device_id device,
                                               assay_mem_stats* out, assay_error** err);

ASSAY_API assay_status assay_env_report(const assay_context* c, assay_report** out,
                                        assay_error** err);

ASSAY_API void assay_context_free(assay_context* c);

typedef int32_t assay_dtype;

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

enum { ASSAY_TENSOR_READ_ONLY = 1, ASSAY_TENSOR_VIEW = 2 };

typedef struct assay_tensor_info {
  size_t struct_size;
  const assay_ext* next;
  assay_dtype dtype;
  int32_t ndim;
  assay_device_id device;
  const int64_t* shape;
  uint64_t bytes;

  void* data;
  uint32_t flags;
  uint32_t reserved;
} assay_tensor_info;

ASSAY_API assay_status assay_tensor_new(const assay_context* c, assay_device_id device,
                                        assay_dtype dtype, const int64_t* shape, int32_t ndim,
                                        assay_tensor** out, assay_error** err);

ASSAY_API assay_status assay_tensor_borrow(const assay_context* c, void* data, size_t bytes,
                                           assay_dtype dtype, const int64_t* shape, int32_t ndim,
                                           void (*release)(uintptr_t user), uintptr_t user,
                                           assay_tensor** out, assay_error** err);

ASSAY_API assay_status assay_tensor_get_info(const assay_tensor* t, assay_tensor_info* out,
                                             assay_error** err);

ASSAY_API assay_status assay_tensor_read(const assay_tensor* t, void* dst, size_t bytes,
                                         assay_error** err);

ASSAY_API assay_status assay_tensor_write(assay_tensor* t, const void* src, size_t bytes,
                                          assay_error** err);

ASSAY_API assay_tensor* assay_tensor_retain(const assay_tensor* t);

ASSAY_API void assay_tensor_release(assay_tensor* t);

ASSAY_API assay_status assay_model_list(assay_report** out, assay_error** err);

ASSAY_API assay_status assay_model_named(const assay_context* c, assay_str arch,
                                         assay_str config_json, assay_model** out,
                                         assay_error** err);

ASSAY_API assay_status assay_model_open(const assay_context* c, assay_str path, assay_model** out,
                                        assay_error** err);

ASSAY_API assay_status assay_model_report(const assay_model* m, assay_report** out,
                                          assay_error** err);

enum { ASSAY_MODE_TRAIN = 1, ASSAY_MODE_EVAL = 2, ASSAY_MODE_PREDICT = 3 };

ASSAY_API assay_status assay_model_check(const assay_model* m, assay_device_id device, int32_t mode,
                                         assay_str config_json, assay_report** out,
                                         assay_error** err);

ASSAY_API assay_status assay_model_initialize(assay_model* m, uint64_t seed, assay_error** err);

enum {
  ASSAY_KIND_VALUE = 1,
  ASSAY_KIND_GRADIENT = 2,
  ASSAY_KIND_MOMENT1 = 3,
  ASSAY_KIND_MOMENT2 = 4,
  ASSAY_KIND_EMA = 5,
  ASSAY_KIND_STATISTIC = 6
};

ASSAY_API assay_status assay_model_tensor(const assay_model* m, assay_str name, int32_t kind,
                                          assay_tensor** out, assay_error** err);

enum {

  ASSAY_WEIGHTS_PARTIAL = 1
};

ASSAY_API assay_status assay_model_load_weights(assay_model* m, assay_str path, assay_str format,
                                                assay_str map_json, uint32_t flags,
                                                assay_report** out, assay_error** err);

ASSAY_API assay_status assay_model_save_weights(const assay_model* m, assay_str path,
                                                assay_str format, assay_str map_json,
                                                assay_error** err);

ASSAY_API void assay_model_free(assay_model* m);

enum {
  ASSAY_PRECISION_FP32 = 1,
  ASSAY_PRECISION_TF32 = 2,
  ASSAY_PRECISION_AMP_FP16 = 3,
  ASSAY_PRECISION_AMP_BF16 = 4
};

typedef struct assay_trainer_options {
  size_t struct_size;
  const assay_ext* next;
  int64_t batch_size;
  int64_t eval_batch_size;
  int64_t accumulate;
  uint64_t seed;
  double learning_rate;
  int32_t precision;
  int32_t reserved;
  assay_comm* comm;
} assay_trainer_options;

ASSAY_API assay_status assay_trainer_create(assay_model* m, const assay_trainer_options* options,
                                            assay_str config_json, assay_trainer** out,
                                            assay_error** err);

enum {
  ASSAY_STEP_UPDATED = 1,

  ASSAY_STEP_SKIPPED_NONFINITE = 2
};

typedef struct assay_step_info {
  size_t struct_size;
  const assay_ext* next;
  int64_t step;
  int64_t micro_step;
  int64_t samples;
  double loss;
  double grad_norm;
  double loss_scale;
  double learning_rate;
  double seconds;
  uint32_t flags;
  uint32_t reserved;
} assay_step_info;

ASSAY_API assay_status assay_trainer_prefetch(assay_trainer* t, const assay_tensor* const* batch,
                                              size_t n, assay_error** err);

ASSAY_API assay_status assay_trainer_step(assay_trainer* t, const assay_tensor* const* batch,
                                          size_t n, assay_step_info* info, assay_error** err);

ASSAY_API assay_status assay_trainer_backward(assay_trainer* t, const assay_tensor* const* batch,
                                              size_t n, assay_step_info* info, assay_error** err);

ASSAY_API assay_status assay_trainer_apply(assay_trainer* t, assay_step_info* info,
                                           assay_error** err);

enum { ASSAY_EVAL_EMA = 1 };

typedef struct assay_eval_info {
  size_t struct_size;
  const assay_ext* next;

  int64_t samples;
  double loss_sum;
  double top1;
  double top5;
  double seconds;
} assay_eval_info;

ASSAY_API assay_status assay_trainer_eval(assay_trainer* t, const assay_tensor* const* batch,
                                          size_t n, uint32_t flags, assay_eval_info* info,
                                          assay_error** err);

ASSAY_API assay_status assay_trainer_interrupt(const assay_trainer* t);

ASSAY_API assay_status assay_trainer_scalar(assay_trainer* t, assay_str name, double* value,
                                            assay_error** err);

ASSAY_API assay_status assay_trainer_output(assay_trainer* t, assay_str name, assay_tensor** out,
                                            assay_error** err);

ASSAY_API assay_status assay_trainer_set(assay_trainer* t, assay_str key, double value,
                                         assay_error** err);

ASSAY_API assay_status assay_trainer_set_metadata(assay_trainer* t, assay_str key, assay_str value,
                                                  assay_error** err);

ASSAY_API assay_status assay_trainer_get_metadata(const assay_trainer* t, assay_str key,
                                                  assay_str* value, assay_error** err);

ASSAY_API assay_status assay_trainer_report(assay_trainer* t, assay_report** out,
                                            assay_error** err);

ASSAY_API assay_status assay_trainer_profile(assay_trainer* t, int32_t repeats, assay_report** out,
                                             assay_error** err);

ASSAY_API void assay_trainer_free(assay_trainer* t);

enum {
  ASSAY_PART_WEIGHTS = 1,
  ASSAY_PART_MOMENTS = 2,
  ASSAY_PART_EMA = 4,
  ASSAY_PART_STATISTICS = 8,
  ASSAY_PART_TRAINER_STATE = 16,
  ASSAY_PART_ALL = 31
};

ASSAY_API assay_status assay_checkpoint_save(const assay_trainer* t, assay_str path, uint32_t parts,
                                             assay_error** err);

ASSAY_API assay_status assay_checkpoint_load(assay_trainer* t, assay_str path, uint32_t parts,
                                             assay_report** out, assay_error** err);

ASSAY_API assay_status assay_checkpoint_inspect(assay_str path, assay_report** out,
                                                assay_error** err);

ASSAY_API assay_status assay_checkpoint_verify(assay_str path, assay_report** out,
                                               assay_error** err);

ASSAY_API assay_status assay_checkpoint_diff(assay_str a, assay_str b, assay_report** out,
                                             assay_error** err);

ASSAY_API assay_status assay_checkpoint_convert(assay_str from, assay_str to, assay_str format,
                                                assay_str map_json, int32_t kind,
                                                assay_report** out, assay_error** err);

ASSAY_API assay_status assay_predictor_create(const assay_model* m, assay_str config_json,
                                              assay_predictor** out, assay_error** err);

ASSAY_API assay_status assay_predictor_report(const assay_predictor* p, assay_report** out,
                                              assay_error** err);

ASSAY_API assay_status assay_predictor_export(const assay_predictor* p, assay_str path,
                                              assay_str format, assay_report** out,
                                              assay_error** err);

ASSAY_API assay_status assay_slot_create(const assay_predictor* p, assay_slot** out,
                                         assay_error** err);

ASSAY_API assay_status assay_slot_prepare(assay_slot* slot, int64_t batch, assay_error** err);

ASSAY_API assay_status assay_predictor_run(const assay_predictor* p, assay_slot* slot,
                                           const assay_tensor* const* in, size_t n_in,
                                           assay_tensor** out, size_t n_out, assay_error** err);

ASSAY_API assay_status assay_slot_interrupt(const assay_slot* slot);

ASSAY_API assay_status assay_slot_profile(assay_slot* slot, int64_t batch, int32_t repeats,
                                          assay_report** out, assay_error** err);

ASSAY_API void assay_slot_free(assay_slot* slot);

ASSAY_API void assay_predictor_free(assay_predictor* p);

#ifdef __cplusplus
}
#endif

#endif
