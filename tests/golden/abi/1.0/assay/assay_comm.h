#ifndef ASSAY_ASSAY_COMM_H
#define ASSAY_ASSAY_COMM_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_comm_id {
  uint8_t bytes[128];
} assay_comm_id;

ASSAY_API assay_status assay_comm_new_id(assay_str kind, assay_comm_id* out, assay_error** err);

ASSAY_API assay_status assay_comm_create(const assay_context* c, const assay_comm_id* id,
                                         int32_t rank, int32_t world, int64_t timeout_ns,
                                         assay_comm** out, assay_error** err);

ASSAY_API assay_status assay_comm_gather(assay_comm* comm, assay_str mine, assay_report** out,
                                         assay_error** err);

ASSAY_API assay_status assay_comm_abort(const assay_comm* comm, assay_error** err);

ASSAY_API void assay_comm_free(assay_comm* comm);

#ifdef __cplusplus
}
#endif

#endif
