/* Describes a network of its own, which learns the points of a ring, saves it, and predicts with the
 * file alone. */
#include <assay/assay_graph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, STEPS = 400 };

static assay_error* error; /* of the last call */
static assay_graph* graph;

static assay_str text(const char* s) { return (assay_str){s, strlen(s)}; }

/* Ends the program with the library's explanation if a call failed. */
static void check(assay_status status) {
  assay_error_info info = {.struct_size = sizeof info};
  if (status == ASSAY_OK) return;
  if (assay_error_get(error, &info) == ASSAY_OK)
    fprintf(stderr, "%.*s\n", (int)info.message.size, info.message.data);
  exit(1);
}

/* A layer on `a`, and on `b` unless that is 0. */
static assay_value layer(const char* kind, const char* name, const char* keys, assay_value a,
                         assay_value b) {
  const assay_value in[] = {a, b};
  assay_value out;
  check(assay_graph_layer(graph, text(kind), text(name), text(keys), in, b == 0 ? 1 : 2, &out, 1,
                          &error));
  return out;
}

int main(int argc, char** argv) {
  static float points[BATCH][2];
  static int32_t in_ring[BATCH];
  const int64_t shape[] = {BATCH, 2};
  const assay_str path = text(argc > 1 ? argv[1] : "ring.ckpt");
  assay_trainer_options options = {
      .struct_size = sizeof options, .batch_size = BATCH, .learning_rate = 0.01};
  assay_step_info step = {.struct_size = sizeof step};
  assay_tensor_info result = {.struct_size = sizeof result};
  assay_context* context;
  assay_value x, y, label;
  assay_model *model, *served;
  assay_tensor *point, *answer, *logits = NULL;
  assay_trainer* trainer;
  assay_predictor* predictor;
  assay_slot* slot;
  int right = 0;

  check(assay_context_create(NULL, NULL, NULL, 0, &context, &error));
  check(assay_graph_create(context, text("ring"), &graph, &error));
  check(assay_graph_input(graph, text("point"), text("{\"shape\": [2]}"), &x, &error));
  check(assay_graph_input(graph, text("in_ring"),
                          text("{\"dtype\": \"i32\", \"label\": true, \"range\": [0, 2]}"), &label,
                          &error));
  x = layer("activation", "tanh", "{\"function\": \"tanh\"}",
            layer("linear", "wide", "{\"features\": 32}", x, 0), 0);
  y = layer("activation", "relu", "", layer("linear", "block", "{\"features\": 32}", x, 0), 0);
  x = layer("linear", "head", "{\"features\": 2}", layer("add", "sum", "", x, y), 0);
  y = layer("softmax_cross_entropy", "cross_entropy", "", x, label);
  check(assay_graph_output(graph, text("loss"), y, 0, text(""), &error));
  check(assay_graph_output(graph, text("logits"), x, 0, text(""), &error));
  check(assay_graph_finish(graph, &model, &error));

  check(assay_tensor_borrow(context, points, sizeof points, ASSAY_F32, shape, 2, NULL, 0, &point,
                            &error));
  check(assay_tensor_borrow(context, in_ring, sizeof in_ring, ASSAY_I32, shape, 1, NULL, 0, &answer,
                            &error));
  const assay_tensor* batch[] = {point, answer};
  check(assay_trainer_create(model, &options, text("{\"optimizer\": {\"name\": \"adam\"}}"),
                             &trainer, &error));
  for (int i = 0; i <= STEPS; ++i) {
    for (int n = 0; n < BATCH; ++n) {
      const float a = points[n][0] = 2 * (float)rand() / (float)RAND_MAX - 1;
      const float b = points[n][1] = 2 * (float)rand() / (float)RAND_MAX - 1;
      in_ring[n] = a * a + b * b > 0.25f && a * a + b * b < 0.81f;
    }
    if (i == STEPS) break; /* the last points are for the prediction */
    check(assay_trainer_step(trainer, batch, 2, &step, &error));
    if (step.step % 100 == 0) printf("step %d: loss %.4f\n", (int)step.step, step.loss);
  }
  check(assay_checkpoint_save(trainer, path, 0, &error));

  /* From here on the network comes from the file: another program needs no more than this. */
  check(assay_model_open(context, path, &served, &error));
  check(assay_predictor_create(served, text(""), &predictor, &error));
  check(assay_slot_create(predictor, &slot, &error));
  check(assay_predictor_run(predictor, slot, batch, 1, &logits, 1, &error));
  check(assay_tensor_get_info(logits, &result, &error));
  const float* row = result.data;
  for (int n = 0; n < BATCH; ++n) right += (row[2 * n + 1] > row[2 * n]) == in_ring[n];
  printf("%d of %d right\n", right, BATCH);
  return 0; /* leaving without freeing is fine */
}
