/* A network of its own learns the points of a ring, is saved, and predicts with the file alone. */
#include <assay/assay_graph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256, STEPS = 400 };

static float points[N][2], logits[N][2];
static int32_t in_ring[N];
static assay_error* e; /* of the last call */
static assay_graph* graph;

static assay_str text(const char* s) { return (assay_str){s, strlen(s)}; }

static void check(assay_status status) {
  assay_error_info info = {.struct_size = sizeof info};
  if (status == ASSAY_OK) return;
  if (assay_error_get(e, &info) == ASSAY_OK)
    fprintf(stderr, "%.*s\n", (int)info.message.size, info.message.data);
  exit(1);
}

/* A layer on `a`, and on `b` unless that is 0. */
static assay_value layer(const char* kind, const char* name, const char* keys, assay_value a,
                         assay_value b) {
  assay_value v[] = {a, b};
  check(assay_graph_layer(graph, text(kind), text(name), text(keys), v, b ? 2 : 1, v, 1, &e));
  return v[0];
}

int main(int argc, char** argv) {
  const assay_str path = text(argc > 1 ? argv[1] : "ring.ckpt");
  const assay_str label = text("{\"dtype\": \"i32\", \"label\": true, \"range\": [0, 2]}");
  const assay_str adam = text("{\"optimizer\": {\"name\": \"adam\", \"learning_rate\": 0.01}}");
  const assay_trainer_options options = {.struct_size = sizeof options, .batch_size = N};
  const int64_t shape[] = {N, 2};
  assay_context* c;
  assay_value x, y, ring;
  assay_model *model, *served;
  assay_trainer* trainer;
  assay_predictor* predictor;
  assay_slot* slot;
  assay_tensor *point, *answer, *out = NULL;

  check(assay_context_create(NULL, NULL, NULL, 0, &c, &e));
  check(assay_graph_create(c, text("ring"), &graph, &e));
  check(assay_graph_input(graph, text("point"), text("{\"shape\": [2]}"), &x, &e));
  check(assay_graph_input(graph, text("in_ring"), label, &ring, &e));
  x = layer("linear", "wide", "{\"features\": 32}", x, 0);
  x = layer("activation", "tanh", "{\"function\": \"tanh\"}", x, 0);
  y = layer("activation", "relu", "", layer("linear", "block", "{\"features\": 32}", x, 0), 0);
  x = layer("linear", "head", "{\"features\": 2}", layer("add", "sum", "", x, y), 0);
  y = layer("softmax_cross_entropy", "cross_entropy", "", x, ring);
  check(assay_graph_output(graph, text("loss"), y, 0, text(""), &e));
  check(assay_graph_output(graph, text("logits"), x, 0, text(""), &e));
  check(assay_graph_finish(graph, &model, &e));

  check(assay_tensor_borrow(c, points, sizeof points, ASSAY_F32, shape, 2, NULL, 0, &point, &e));
  check(assay_tensor_borrow(c, in_ring, sizeof in_ring, ASSAY_I32, shape, 1, NULL, 0, &answer, &e));
  const assay_tensor* batch[] = {point, answer};
  check(assay_trainer_create(model, &options, adam, &trainer, &e));
  for (int step = 0; step <= STEPS; ++step) { /* the last points are for the prediction */
    for (int n = 0; n < N; ++n) {
      const float a = points[n][0] = 2 * (float)rand() / (float)RAND_MAX - 1;
      const float b = points[n][1] = 2 * (float)rand() / (float)RAND_MAX - 1;
      in_ring[n] = a * a + b * b > 0.25f && a * a + b * b < 0.81f;
    }
    if (step < STEPS) check(assay_trainer_step(trainer, batch, 2, NULL, &e));
  }
  check(assay_checkpoint_save(trainer, path, 0, &e));

  /* From here on the network comes from the file: another program needs no more than this. */
  check(assay_model_open(c, path, &served, &e));
  check(assay_predictor_create(served, text(""), &predictor, &e));
  check(assay_slot_create(predictor, &slot, &e));
  check(assay_predictor_run(predictor, slot, batch, 1, &out, 1, &e));
  check(assay_tensor_read(out, logits, sizeof logits, &e));
  int right = 0;
  for (int n = 0; n < N; ++n) right += (logits[n][1] > logits[n][0]) == in_ring[n];
  printf("%d of %d right\n", right, N);
  return 0; /* leaving without freeing is fine */
}
