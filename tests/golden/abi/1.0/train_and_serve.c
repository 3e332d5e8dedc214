/* Trains a small convolutional network to tell bright spots by their place, saves it, serves it. */
#include <assay/assay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, SIDE = 16, CLASSES = 4, PIXELS = SIDE * SIDE };

static float images[BATCH * PIXELS];
static int32_t labels[BATCH];
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

/* Images of noise with a bright square in one quarter; the label says which. */
static void make_batch(void) {
  for (int n = 0; n < BATCH; ++n) {
    labels[n] = rand() % CLASSES;
    for (int p = 0; p < PIXELS; ++p) {
      const int quarter = 2 * (p / SIDE / (SIDE / 2)) + p % SIDE / (SIDE / 2);
      images[n * PIXELS + p] = (float)rand() / (float)RAND_MAX + (quarter == labels[n] ? 0.7f : 0);
    }
  }
}

int main(int argc, char** argv) {
  const int64_t shape[] = {BATCH, SIDE, SIDE, 1};
  const assay_str network = text("{\"image\": [16, 16, 1], \"classes\": 4, \"conv\": [8, 16]}");
  const assay_str optimizer = text("{\"optimizer\": {\"name\": \"sgd\", \"momentum\": 0.9}}");
  assay_trainer_options options = {
      .struct_size = sizeof options, .batch_size = BATCH, .learning_rate = 0.05};
  assay_step_info step = {.struct_size = sizeof step};
  assay_eval_info eval = {.struct_size = sizeof eval};
  assay_tensor_info result = {.struct_size = sizeof result};
  assay_context* context;
  assay_tensor *image, *label, *logits = NULL;
  assay_model* model;
  assay_trainer* trainer;
  assay_predictor* predictor;
  assay_slot* slot; /* one per thread that predicts */

  check(assay_context_create(NULL, NULL, NULL, 0, &context, &error));
  check(assay_tensor_borrow(context, images, sizeof images, ASSAY_F32, shape, 4, NULL, 0, &image,
                            &error));
  check(assay_tensor_borrow(context, labels, sizeof labels, ASSAY_I32, shape, 1, NULL, 0, &label,
                            &error));
  const assay_tensor* batch[] = {image, label};

  check(assay_model_named(context, text("cnn"), network, &model, &error));
  check(assay_trainer_create(model, &options, optimizer, &trainer, &error));
  while (step.step < 40) {
    make_batch();
    check(assay_trainer_step(trainer, batch, 2, &step, &error));
    if (step.step % 10 == 0) printf("step %d: loss %.4f\n", (int)step.step, step.loss);
  }
  make_batch();
  check(assay_trainer_eval(trainer, batch, 2, 0, &eval, &error));
  printf("accuracy %.1f %%\n", 100 * eval.top1 / (double)eval.samples);
  if (argc > 1) check(assay_checkpoint_save(trainer, text(argv[1]), 0, &error));

  check(assay_predictor_create(model, text(""), &predictor, &error));
  check(assay_slot_create(predictor, &slot, &error));
  check(assay_predictor_run(predictor, slot, batch, 1, &logits, 1, &error));
  check(assay_tensor_get_info(logits, &result, &error));
  const float* row = result.data;
  printf("first image: label %d, its logit %.2f\n", (int)labels[0], row[labels[0]]);

  assay_tensor_release(logits); /* frees may come in any order */
  assay_slot_free(slot);
  assay_predictor_free(predictor);
  assay_trainer_free(trainer);
  assay_model_free(model);
  assay_tensor_release(image);
  assay_tensor_release(label);
  assay_context_free(context);
  return 0;
}
