#ifndef ASSAY_ASSAY_DATA_H
#define ASSAY_ASSAY_DATA_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_loader assay_loader;
typedef struct assay_text assay_text;
typedef struct assay_text_question assay_text_question;
typedef struct assay_text_squad assay_text_squad;
typedef struct assay_detections assay_detections;

typedef int32_t (*assay_progress)(uintptr_t user, assay_str phase, int64_t done, int64_t total);

ASSAY_API assay_status assay_dataset_list(assay_report** out, assay_error** err);

ASSAY_API assay_status assay_dataset_convert(const assay_context* c, assay_str name,
                                             assay_str source, assay_str target,
                                             assay_str options_json, assay_progress progress,
                                             uintptr_t user, assay_report** out, assay_error** err);

ASSAY_API assay_status assay_dataset_report(assay_str folder, assay_report** out,
                                            assay_error** err);

ASSAY_API assay_status assay_dataset_verify(const assay_context* c, assay_str folder,
                                            assay_progress progress, uintptr_t user,
                                            assay_error** err);

ASSAY_API assay_status assay_dataset_export(const assay_context* c, assay_str folder,
                                            assay_str target, assay_str options_json,
                                            assay_progress progress, uintptr_t user,
                                            assay_error** err);

ASSAY_API assay_status assay_loader_create(const assay_context* c, assay_str folder,
                                           assay_str split, assay_str config_json,
                                           assay_str transform_json, assay_loader** out,
                                           assay_error** err);

typedef struct assay_batch_info {
  size_t struct_size;
  const assay_ext* next;
  int64_t epoch;
  int64_t batch;
  int64_t rows;
  int64_t valid;
  double wait_seconds;
} assay_batch_info;

ASSAY_API assay_status assay_loader_next(assay_loader* l, const assay_tensor** batch, size_t n,
                                         assay_batch_info* info, assay_error** err);

ASSAY_API assay_status assay_loader_interrupt(const assay_loader* l);

ASSAY_API assay_status assay_loader_cursor(const assay_loader* l, void* dst, size_t capacity,
                                           size_t* size, assay_error** err);

ASSAY_API assay_status assay_loader_restore(assay_loader* l, const void* src, size_t size,
                                            assay_error** err);

ASSAY_API assay_status assay_loader_seek(assay_loader* l, int64_t epoch, assay_error** err);

ASSAY_API assay_status assay_loader_report(const assay_loader* l, assay_report** out,
                                           assay_error** err);

ASSAY_API void assay_loader_free(assay_loader* l);

ASSAY_API assay_status assay_text_create(assay_str path, assay_str config_json, assay_text** out,
                                         assay_error** err);

ASSAY_API assay_status assay_text_parse(assay_str vocabulary, assay_str config_json,
                                        assay_text** out, assay_error** err);

ASSAY_API assay_status assay_text_vocabulary(const assay_text* t, assay_str* out,
                                             assay_error** err);

ASSAY_API assay_status assay_text_attach(const assay_text* t, assay_trainer* trainer,
                                         assay_error** err);

ASSAY_API assay_status assay_text_tokenize(const assay_text* t, assay_str text, int32_t* ids,
                                           int64_t* begin, int64_t* end, size_t capacity,
                                           size_t* count, assay_error** err);

ASSAY_API void assay_text_free(assay_text* t);

ASSAY_API assay_status assay_text_question_create(const assay_text* t, assay_str question,
                                                  assay_str paragraph, assay_str config_json,
                                                  assay_text_question** out, assay_error** err);

ASSAY_API assay_status assay_text_question_size(const assay_text_question* q, int64_t* windows,
                                                int64_t* length, assay_error** err);

ASSAY_API assay_status assay_text_question_read(const assay_text_question* q, int64_t window,
                                                int32_t* ids, int32_t* types, int32_t* length,
                                                assay_error** err);

ASSAY_API assay_status assay_text_question_answer(const assay_text_question* q, const float* start,
                                                  const float* end, size_t n, assay_str config_json,
                                                  assay_report** out, assay_error** err);

typedef struct assay_text_spans {
  size_t struct_size;
  const assay_ext* next;
  int64_t windows, starts, ends;
  const int32_t* start;
  const float* start_log_prob;
  const int32_t* end;
  const float* end_log_prob;
  const float* class_logit;
} assay_text_spans;

ASSAY_API assay_status assay_text_question_answer_spans(const assay_text_question* q,
                                                        const assay_text_spans* spans,
                                                        assay_str config_json, assay_report** out,
                                                        assay_error** err);

ASSAY_API void assay_text_question_free(assay_text_question* q);

ASSAY_API assay_status assay_text_squad_open(assay_str path, assay_text_squad** out,
                                             assay_error** err);

ASSAY_API assay_status assay_text_squad_size(const assay_text_squad* s, int64_t* questions,
                                             int32_t* version, assay_error** err);

ASSAY_API assay_status assay_text_squad_question(const assay_text_squad* s, int64_t index,
                                                 const assay_text* t, assay_str config_json,
                                                 assay_text_question** out, assay_error** err);

ASSAY_API assay_status assay_text_squad_answer(assay_text_squad* s, int64_t index, assay_str answer,
                                               assay_error** err);

ASSAY_API assay_status assay_text_squad_save(const assay_text_squad* s, assay_str path,
                                             assay_error** err);

ASSAY_API void assay_text_squad_free(assay_text_squad* s);

ASSAY_API assay_status assay_text_score(assay_str file, assay_str predictions, assay_report** out,
                                        assay_error** err);

ASSAY_API assay_status assay_detections_create(assay_detections** out, assay_error** err);

ASSAY_API assay_status assay_detections_open(assay_str path, assay_detections** out,
                                             assay_error** err);

ASSAY_API assay_status assay_detections_add(assay_detections* d, int64_t image_id, float scale,
                                            const float* boxes, const float* scores,
                                            const int32_t* classes, size_t n, assay_error** err);

ASSAY_API assay_status assay_detections_size(const assay_detections* d, int64_t* images,
                                             int64_t* detections, assay_error** err);

ASSAY_API assay_status assay_detections_save(const assay_detections* d, assay_str path,
                                             assay_error** err);

ASSAY_API assay_status assay_detections_score(const assay_detections* d, assay_str instances,
                                              assay_str config_json, assay_report** out,
                                              assay_error** err);

ASSAY_API void assay_detections_free(assay_detections* d);

#ifdef __cplusplus
}
#endif

#endif
