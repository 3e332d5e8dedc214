/* Trains a small convolutional network to tell bright spots by their place, saves it, serves it. */
#include <assay/assay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, SIDE = 16, CLASSES = 4, PIXELS = SIDE * SIDE };

static assay_str text(const char *s) { return (assay_str){s, strlen(s)}; }

/* Ends the program with the library's explanation if a call failed. */
static void check(assay_status status, assay_error *error) {
  if (status == ASSAY_OK) return;
  assay_error_info info = {.struct_size = sizeof info};
  if (assay_error_get(error, &info) == ASSAY_OK)
    fprintf(stderr, "%.*s\n", (int)info.message.size, info.message.data);
  assay_error_free(error);
  exit(1);
}

/* Images of noise with a bright square in one quarter; the label says which. */
static void make_batch(float *images, int32_t *labels) {
  for (int n = 0; n < BATCH; ++n) {
    labels[n] = rand() % CLASSES;
    for (int p = 0; p < PIXELS; ++p) {
      const int quarter = 2 * (p / SIDE / (SIDE / 2)) + p % SIDE / (SIDE / 2);
      images[n * PIXELS + p] = (float)rand() / (float)RAND_MAX + (quarter == labels[n] ? 0.7f : 0);
    }
  }
}

int main(int argc, char **argv) {
  static float images[BATCH * PIXELS];
  static int32_t labels[BATCH];
  const int64_t image_shape[] = {BATCH, SIDE, SIDE, 1}, label_shape[] = {BATCH};
  assay_error *e;
  assay_context *context;
  assay_model *model;
  assay_trainer *trainer;
  assay_tensor *image, *label;
  check(assay_context_create(NULL, NULL, NULL, 0, &context, &e), e);
  check(assay_tensor_borrow(context, images, sizeof images, ASSAY_F32, image_shape, 4, NULL, 0, &image, &e), e);
  check(assay_tensor_borrow(context, labels, sizeof labels, ASSAY_I32, label_shape, 1, NULL, 0, &label, &e), e);
  const assay_tensor *batch[] = {image, label};

  check(assay_model_named(context, text("cnn"), text("{\"image\": [16, 16, 1], \"classes\": 4, \"conv\": [8, 16]}"),
                          &model, &e), e);
  assay_trainer_options options = {.struct_size = sizeof options, .batch_size = BATCH, .learning_rate = 0.05};
  check(assay_trainer_create(model, &options, text("{\"optimizer\": {\"name\": \"sgd\", \"momentum\": 0.9}}"),
                             &trainer, &e), e);
  for (int step = 0; step < 40; ++step) {
    assay_step_info info = {.struct_size = sizeof info};
    make_batch(images, labels);
    check(assay_trainer_step(trainer, batch, 2, &info, &e), e);
    if (info.step % 10 == 0) printf("step %d: loss %.4f\n", (int)info.step, info.loss);
  }
  assay_eval_info eval = {.struct_size = sizeof eval};
  make_batch(images, labels);
  check(assay_trainer_eval(trainer, batch, 2, 0, &eval, &e), e);
  printf("accuracy %.1f %%\n", 100 * eval.top1 / (double)eval.samples);
  if (argc > 1) check(assay_checkpoint_save(trainer, text(argv[1]), 0, &e), e);

  assay_predictor *predictor;
  assay_slot *slot; /* one per thread that predicts */
  assay_tensor *logits = NULL;
  check(assay_predictor_create(model, text(""), &predictor, &e), e);
  check(assay_slot_create(predictor, &slot, &e), e);
  check(assay_predictor_run(predictor, slot, batch, 1, &logits, 1, &e), e);
  assay_tensor_info out = {.struct_size = sizeof out};
  check(assay_tensor_get_info(logits, &out, &e), e);
  printf("first image: label %d, its logit %.2f\n", (int)labels[0], ((const float *)out.data)[labels[0]]);

  assay_tensor_release(logits); /* in any order */
  assay_slot_free(slot), assay_predictor_free(predictor), assay_trainer_free(trainer), assay_model_free(model);
  assay_tensor_release(image), assay_tensor_release(label), assay_context_free(context);
  return 0;
}
