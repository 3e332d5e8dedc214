/* Answers a question about a paragraph with a checkpoint of electra_base_qa, its only file. */
#include <assay/assay_data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 384, INPUTS = 3, MOST_OUTPUTS = 5 }; /* tokens of a window; tensors of a batch */

static assay_error* error; /* of the last call */

static assay_str text(const char* s) { return (assay_str){s, strlen(s)}; }

/* Ends the program with the library's explanation if a call failed. */
static void check(assay_status status) {
  assay_error_info info = {.struct_size = sizeof info};
  if (status == ASSAY_OK) return;
  if (assay_error_get(error, &info) == ASSAY_OK)
    fprintf(stderr, "%.*s\n", (int)info.message.size, info.message.data);
  assay_error_free(error);
  exit(1);
}

int main(int argc, char** argv) {
  assay_context* context;
  assay_model* model;
  assay_text* vocabulary;
  assay_text_question* question;
  assay_predictor* predictor;
  assay_slot* slot;
  assay_report* report;
  assay_tensor *in[INPUTS], *out[MOST_OUTPUTS] = {NULL};
  assay_tensor_info info[MOST_OUTPUTS];
  int64_t windows, length;

  if (argc < 4 || argc > 5) {
    fprintf(stderr, "answer_a_question CHECKPOINT QUESTION PARAGRAPH ['{\"null_threshold\": -5.6}']\n");
    return 2;
  }
  const assay_str options = text(argc == 5 ? argv[4] : "");
  const size_t outputs = argc == 5 ? 5 : 4; /* of SQuAD 2.0 whether there is an answer, too */

  check(assay_context_create(NULL, NULL, NULL, 0, &context, &error));
  check(assay_model_open(context, text(argv[1]), &model, &error));
  check(assay_text_create(text(argv[1]), text(""), &vocabulary, &error));
  check(assay_text_question_create(vocabulary, text(argv[2]), text(argv[3]),
                                   text("{\"sequence_length\": 384, \"stride\": 128}"), &question,
                                   &error));
  check(assay_text_question_size(question, &windows, &length, &error));

  /* A long paragraph is several windows: the rows of one batch. */
  const int64_t shape[] = {windows, length};
  const size_t bytes = (size_t)(windows * length) * sizeof(int32_t);
  int32_t* rows[INPUTS] = {malloc(bytes), malloc(bytes), malloc(bytes)}; /* ids, types, lengths */
  if (!rows[0] || !rows[1] || !rows[2]) return 1;
  for (int64_t w = 0; w < windows; ++w)
    check(assay_text_question_read(question, w, rows[0] + w * length, rows[1] + w * length,
                                   rows[2] + w, &error));
  for (int i = 0; i < INPUTS; ++i)
    check(assay_tensor_borrow(context, rows[i], i < 2 ? bytes : (size_t)windows * sizeof(int32_t),
                              ASSAY_I32, shape, i < 2 ? 2 : 1, NULL, 0, &in[i], &error));

  check(assay_predictor_create(model, text("{\"sequence_length\": 384}"), &predictor, &error));
  check(assay_slot_create(predictor, &slot, &error));
  check(assay_predictor_run(predictor, slot, (const assay_tensor* const*)in, INPUTS, out, outputs,
                            &error));
  for (size_t i = 0; i < outputs; ++i) {
    info[i] = (assay_tensor_info){.struct_size = sizeof info[i]};
    check(assay_tensor_get_info(out[i], &info[i], &error));
  }
  const int64_t beam = info[0].shape[1]; /* starts, and ends of each */
  const assay_text_spans spans = {.struct_size = sizeof spans,
                                  .windows = windows,
                                  .starts = beam,
                                  .ends = beam,
                                  .start = info[0].data,
                                  .start_log_prob = info[1].data,
                                  .end = info[2].data,
                                  .end_log_prob = info[3].data,
                                  .class_logit = outputs == 5 ? info[4].data : NULL};
  check(assay_text_question_answer_spans(question, &spans, options, &report, &error));
  printf("%.*s\n", (int)assay_report_text(report).size, assay_report_text(report).data);

  for (size_t i = 0; i < outputs; ++i) assay_tensor_release(out[i]); /* frees in any order */
  for (int i = 0; i < INPUTS; ++i) assay_tensor_release(in[i]), free(rows[i]);
  assay_report_free(report);
  assay_slot_free(slot);
  assay_predictor_free(predictor);
  assay_text_question_free(question);
  assay_text_free(vocabulary);
  assay_model_free(model);
  assay_context_free(context);
  return 0;
}
