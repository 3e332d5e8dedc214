#ifndef ASSAY_ASSAY_GRAPH_H
#define ASSAY_ASSAY_GRAPH_H

#include <assay/assay.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct assay_graph assay_graph;

typedef uint64_t assay_value;

ASSAY_API assay_status assay_graph_create(const assay_context* c, assay_str name, assay_graph** out,
                                          assay_error** err);

ASSAY_API assay_status assay_graph_input(assay_graph* g, assay_str name, assay_str attributes_json,
                                         assay_value* out, assay_error** err);

ASSAY_API assay_status assay_graph_layer(assay_graph* g, assay_str kind, assay_str name,
                                         assay_str attributes_json, const assay_value* in,
                                         size_t n_in, assay_value* out, size_t n_out,
                                         assay_error** err);

ASSAY_API assay_status assay_graph_output(assay_graph* g, assay_str name, assay_value value,
                                          assay_value weight, assay_str attributes_json,
                                          assay_error** err);

ASSAY_API assay_status assay_graph_report(const assay_graph* g, assay_report** out,
                                          assay_error** err);

ASSAY_API assay_status assay_graph_finish(assay_graph* g, assay_model** out, assay_error** err);

ASSAY_API void assay_graph_free(assay_graph* g);

#ifdef __cplusplus
}
#endif

#endif
