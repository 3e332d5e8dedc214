/* Runs cases.txt, which says how, in the folder that it is started in. */
#include <assay/assay_data.h>
#include <assay/assay_graph.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, LINE = 1024 };

static assay_context* context;
static assay_graph* graph;
static assay_model* model;
static assay_trainer* trainer;
static assay_loader* loader;
static struct { /* a checkpoint in memory */
  char* data;
  size_t size;
} kept;
static assay_error* error;
static uint64_t state;

/* Tensors of a batch. */
static struct {
  assay_dtype dtype;
  int32_t ndim;
  int64_t shape[MOST];
  int64_t elements;
  uint64_t limit;
  assay_tensor* tensor;
} batch[MOST];
static size_t n_batch;

/* Values of the graph by name. */
static struct {
  char name[32];
  assay_value value;
} values[32];
static size_t n_values;

static assay_str text(const char* s) { return (assay_str){s, strlen(s)}; }

static uint64_t digest(const void* data, size_t size) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ ((const unsigned char*)data)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static uint64_t bits(double value) {
  uint64_t result;
  memcpy(&result, &value, sizeof result);
  return result;
}

/* 24 random bits (splitmix64). */
static uint64_t draw(void) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (z ^ (z >> 31)) >> 40;
}

/* The first words of the line, cut off from it; the rest is returned. */
static char* words(char* line, int n, char** out) {
  for (int i = 0; i < n; ++i) {
    out[i] = line;
    line += strcspn(line, " ");
    if (*line) *line++ = 0;
  }
  return line;
}

static void print(assay_str s) { printf("%.*s", (int)s.size, s.data); }

static void print_report(assay_report* report) {
  const assay_str s = assay_report_text(report);
  printf("report %016" PRIx64 "\n", digest(s.data, s.size));
  assay_report_free(report);
}

static assay_status print_tensor(const assay_tensor* t) {
  assay_tensor_info info = {.struct_size = sizeof info};
  const assay_status status = assay_tensor_get_info(t, &info, &error);
  if (status == ASSAY_OK) {
    void* copy = malloc(info.bytes + 1);
    if (assay_tensor_read(t, copy, info.bytes, &error) != ASSAY_OK) exit(1);
    printf("%016" PRIx64, digest(copy, info.bytes));
    for (int32_t i = 0; i < info.ndim; ++i) printf("%c%" PRId64, i ? 'x' : ' ', info.shape[i]);
    printf("\n");
    free(copy);
  }
  return status;
}

static int32_t keep_bytes(uintptr_t user, const void* src, size_t size) {
  char* grown = realloc(kept.data, kept.size + size);
  (void)user;
  if (!grown) return -1;
  kept.data = grown;
  memcpy(kept.data + kept.size, src, size);
  kept.size += size;
  return 0;
}

static int32_t give_bytes(uintptr_t user, void* dst, size_t size, uint64_t offset) {
  (void)user;
  memcpy(dst, kept.data + offset, size);
  return 0;
}

static void draw_batch(const assay_tensor** out) {
  for (size_t i = 0; i < n_batch; ++i) {
    float* numbers = malloc((size_t)batch[i].elements * sizeof *numbers);
    int32_t* integers = (int32_t*)numbers;
    for (int64_t k = 0; k < batch[i].elements; ++k) {
      if (batch[i].dtype == ASSAY_F32)
        numbers[k] = (float)draw() / 8388608.0f - 1;
      else
        integers[k] = (int32_t)(draw() % batch[i].limit);
    }
    if (assay_tensor_write(batch[i].tensor, numbers, (size_t)batch[i].elements * sizeof *numbers,
                           &error))
      exit(1);
    free(numbers);
    out[i] = batch[i].tensor;
  }
}

static void clear(void) {
  while (n_batch > 0) assay_tensor_release(batch[--n_batch].tensor);
  n_values = 0;
  assay_loader_free(loader), assay_trainer_free(trainer), assay_model_free(model),
      assay_graph_free(graph);
  loader = NULL, trainer = NULL, model = NULL, graph = NULL;
}

static assay_status add_tensor(assay_dtype dtype, char* rest) {
  char* w[1];
  rest = words(rest, 1, w);
  batch[n_batch].dtype = dtype;
  batch[n_batch].limit = strtoull(rest, NULL, 10);
  batch[n_batch].elements = 1;
  batch[n_batch].ndim = 0;
  for (char* size = strtok(w[0], "x"); size; size = strtok(NULL, "x")) {
    batch[n_batch].shape[batch[n_batch].ndim] = strtoll(size, NULL, 10);
    batch[n_batch].elements *= batch[n_batch].shape[batch[n_batch].ndim++];
  }
  const assay_status status =
      assay_tensor_new(context, (assay_device_id){ASSAY_DEVICE_CPU, 0}, dtype, batch[n_batch].shape,
                       batch[n_batch].ndim, &batch[n_batch].tensor, &error);
  n_batch += status == ASSAY_OK;
  return status;
}

static assay_status print_step(const assay_tensor* const* tensors, size_t n) {
  assay_step_info info = {.struct_size = sizeof info};
  const assay_status status = assay_trainer_step(trainer, tensors, n, &info, &error);
  if (status == ASSAY_OK)
    printf("step %" PRId64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", info.step,
           bits(info.loss), bits(info.grad_norm), bits(info.learning_rate));
  return status;
}

static assay_status next(int n, int train) {
  for (int i = 0; i < n; ++i) {
    const assay_tensor* tensors[2];
    assay_batch_info info = {.struct_size = sizeof info};
    assay_status status = assay_loader_next(loader, tensors, 2, &info, &error);
    if (status == ASSAY_E_END_OF_DATA) {
      printf("end\n");
      assay_error_free(error);
      return ASSAY_OK;
    }
    if (status == ASSAY_OK && train) status = print_step(tensors, 2);
    if (status != ASSAY_OK) return status;
    printf("batch %" PRId64 " %" PRId64 " %" PRId64 "\n", info.epoch, info.batch, info.valid);
    for (int k = 0; k < 2; ++k) print_tensor(tensors[k]);
  }
  return ASSAY_OK;
}

static assay_status predict(char* rest) {
  char* w[1];
  const assay_tensor* in[MOST];
  assay_predictor* predictor;
  assay_slot* slot = NULL;
  rest = words(rest, 1, w);
  draw_batch(in);
  assay_status status = assay_predictor_create(model, text(rest), &predictor, &error);
  if (status == ASSAY_OK) status = assay_slot_create(predictor, &slot, &error);
  for (size_t n_out = 1; status == ASSAY_OK;
       ++n_out) { /* one more each time, until there are no more */
    assay_tensor* out[MOST] = {NULL};
    status = assay_predictor_run(predictor, slot, in, strtoul(w[0], NULL, 10), out, n_out, &error);
    if (status == ASSAY_OK) status = print_tensor(out[n_out - 1]);
    for (size_t i = 0; i < n_out; ++i) assay_tensor_release(out[i]);
    if (status == ASSAY_E_INVALID && n_out > 1) { /* behind the last output */
      assay_error_free(error);
      status = ASSAY_OK;
      break;
    }
  }
  assay_slot_free(slot);
  assay_predictor_free(predictor);
  return status;
}

static assay_status layer(char* rest) {
  char* w[3];
  assay_value in[MOST];
  size_t n = 0;
  rest = words(rest, 3, w);
  for (char* name = strtok(w[2], ","); name; name = strtok(NULL, ","))
    for (size_t i = 0; i < n_values; ++i)
      if (strcmp(values[i].name, name) == 0) in[n++] = values[i].value;
  strcpy(values[n_values].name, w[1]);
  const assay_status status = assay_graph_layer(graph, text(w[0]), text(w[1]), text(rest), in, n,
                                                &values[n_values].value, 1, &error);
  n_values += status == ASSAY_OK;
  return status;
}

static assay_status tokenize(const char* rest) {
  int32_t ids[LINE];
  int64_t begin[LINE], end[LINE];
  size_t count;
  assay_text* vocabulary;
  assay_status status = assay_text_create(text("vocab.txt"), text(""), &vocabulary, &error);
  if (status != ASSAY_OK) return status;
  status = assay_text_tokenize(vocabulary, text(rest), ids, begin, end, LINE, &count, &error);
  for (size_t i = 0; status == ASSAY_OK && i < count; ++i)
    printf("piece %" PRId32 " %" PRId64 " %" PRId64 "\n", ids[i], begin[i], end[i]);
  assay_text_free(vocabulary);
  return status;
}

/* 6 x 5 pixels in three colours; those above 99 are refused. */
static int32_t picture(uintptr_t user, int64_t i, assay_give give, void* to) {
  unsigned char pixels[6 * 5 * 3];
  const int32_t label = (int32_t)(i % 4);
  (void)user;
  if (i > 99) return 1;
  for (int k = 0; k < 6 * 5 * 3; ++k) pixels[k] = (unsigned char)(31 * i + 7 * k);
  give(to, text("image"), ASSAY_U8, pixels, sizeof pixels);
  give(to, text("label"), ASSAY_I32, &label, 1);
  return 0;
}

/* Ends a JSON object of several in a line; gives the next. */
static char* next_object(char* object) {
  char* next = strstr(object, "} {") + 1;
  *next = 0;
  return next + 1;
}

static assay_status run(char* verb, char* rest);

/* A call that must fail. */
static assay_status fails(char* rest) {
  char* w[1];
  assay_error_info info = {.struct_size = sizeof info};
  rest = words(rest, 1, w);
  if (run(w[0], rest) == ASSAY_OK || assay_error_get(error, &info) != ASSAY_OK) {
    printf("%s did not fail\n", w[0]);
    exit(1);
  }
  print(assay_status_name(info.code));
  printf(" | ");
  print(info.argument);
  printf(" | ");
  print(info.message);
  printf("\n");
  assay_error_free(error);
  return ASSAY_OK;
}

static assay_status take_model(assay_status status, assay_model* opened) {
  if (status == ASSAY_OK) {
    assay_trainer_free(trainer), assay_model_free(model);
    trainer = NULL, model = opened;
  }
  return status;
}

static assay_status run(char* verb, char* rest) {
  const assay_io io = {
      .struct_size = sizeof io, .write = keep_bytes, .read = give_bytes, .size = kept.size};
  char* w[2];
  const assay_tensor* tensors[MOST];
  assay_status status = ASSAY_OK;
  if (strcmp(verb, "case") == 0) {
    clear();
    rest = words(rest, 1, w);
    state = strtoull(rest, NULL, 10);
    printf("case %s\n", w[0]);
  } else if (strcmp(verb, "model") == 0) {
    rest = words(rest, 1, w);
    status = assay_model_named(context, text(w[0]), text(rest), &model, &error);
  } else if (strcmp(verb, "input") == 0) {
    if (!graph && (status = assay_graph_create(context, text("cases"), &graph, &error)))
      return status;
    rest = words(rest, 1, w);
    strcpy(values[n_values].name, w[0]);
    status = assay_graph_input(graph, text(w[0]), text(rest), &values[n_values++].value, &error);
  } else if (strcmp(verb, "layer") == 0) {
    status = layer(rest);
  } else if (strcmp(verb, "output") == 0) {
    rest = words(rest, 2, w);
    for (size_t i = 0; i < n_values; ++i)
      if (strcmp(values[i].name, w[1]) == 0)
        status = assay_graph_output(graph, text(w[0]), values[i].value, 0, text(rest), &error);
  } else if (strcmp(verb, "finish") == 0) {
    status = assay_graph_finish(graph, &model, &error);
  } else if (strcmp(verb, "describe") == 0) {
    assay_report* report;
    status = assay_model_report(model, &report, &error);
    if (status == ASSAY_OK) print_report(report);
  } else if (strcmp(verb, "trainer") == 0) {
    status = assay_trainer_create(model, NULL, text(rest), &trainer, &error);
  } else if (strcmp(verb, "f32") == 0 || strcmp(verb, "i32") == 0) {
    status = add_tensor(verb[0] == 'f' ? ASSAY_F32 : ASSAY_I32, rest);
  } else if (strcmp(verb, "step") == 0) {
    for (int i = atoi(rest); status == ASSAY_OK && i > 0; --i) {
      draw_batch(tensors);
      status = print_step(tensors, n_batch);
    }
  } else if (strcmp(verb, "eval") == 0) {
    assay_eval_info info = {.struct_size = sizeof info};
    draw_batch(tensors);
    status = assay_trainer_eval(trainer, tensors, n_batch, 0, &info, &error);
    printf("eval %" PRId64 " %016" PRIx64 " %016" PRIx64 "\n", info.samples, bits(info.loss_sum),
           bits(info.top1));
  } else if (strcmp(verb, "tensor") == 0) {
    assay_tensor* t;
    rest = words(rest, 1, w);
    status = assay_model_tensor(model, text(w[0]), atoi(rest), &t, &error);
    if (status == ASSAY_OK) {
      status = print_tensor(t);
      assay_tensor_release(t);
    }
  } else if (strcmp(verb, "save") == 0) {
    status = assay_checkpoint_save(trainer, text(rest), 0, &error);
  } else if (strcmp(verb, "load") == 0) {
    status = assay_checkpoint_load(trainer, text(rest), 0, NULL, &error);
  } else if (strcmp(verb, "open") == 0) {
    assay_model* opened;
    status = assay_model_open(context, text(rest), &opened, &error);
    status = take_model(status, opened);
  } else if (strcmp(verb, "save_io") == 0) {
    kept.size = 0;
    status = assay_checkpoint_save_io(trainer, &io, 0, &error);
  } else if (strcmp(verb, "load_io") == 0) {
    status = assay_checkpoint_load_io(trainer, &io, 0, NULL, &error);
  } else if (strcmp(verb, "open_io") == 0) {
    assay_model* opened;
    status = assay_model_open_io(context, &io, &opened, &error);
    status = take_model(status, opened);
  } else if (strcmp(verb, "cut") == 0) {
    const size_t n = strtoul(rest, NULL, 10);
    kept.size -= n < kept.size ? n : kept.size;
  } else if (strcmp(verb, "predict") == 0) {
    status = predict(rest);
  } else if (strcmp(verb, "convert") == 0) {
    rest = words(rest, 2, w);
    status = assay_dataset_convert(context, text("fashion_mnist"), text(w[0]), text(w[1]),
                                   text(rest), NULL, 0, NULL, &error);
  } else if (strcmp(verb, "loader") == 0) {
    rest = words(rest, 1, w);
    char* second = next_object(rest);
    assay_loader* made;
    status = assay_loader_create(context, text("set"), text(w[0]), text(rest), text(second), &made,
                                 &error);
    if (status == ASSAY_OK) loader = made;
  } else if (strcmp(verb, "samples") == 0) {
    assay_samples samples = {.struct_size = sizeof samples, .sample = picture};
    rest = words(rest, 1, w);
    samples.count = atoi(w[0]);
    char* second = next_object(rest);
    char* third = next_object(second);
    assay_loader* made;
    status = assay_loader_from_samples(context, &samples, text(rest), text(second), text(third),
                                       &made, &error);
    if (status == ASSAY_OK) assay_loader_free(loader), loader = made;
  } else if (strcmp(verb, "next") == 0 || strcmp(verb, "train") == 0) {
    status = next(atoi(rest), verb[0] == 't');
  } else if (strcmp(verb, "keep") == 0) {
    char cursor[LINE];
    size_t size;
    status = assay_loader_cursor(loader, cursor, sizeof cursor, &size, &error);
    if (status == ASSAY_OK)
      status = assay_trainer_set_metadata(trainer, text("assay.cursor"), (assay_str){cursor, size},
                                          &error);
  } else if (strcmp(verb, "resume") == 0) {
    assay_str cursor;
    status = assay_trainer_get_metadata(trainer, text("assay.cursor"), &cursor, &error);
    if (status == ASSAY_OK) status = assay_loader_restore(loader, cursor.data, cursor.size, &error);
  } else if (strcmp(verb, "tokenize") == 0) {
    status = tokenize(rest);
  } else if (strcmp(verb, "fails") == 0) {
    status = fails(rest);
  } else {
    printf("unknown verb %s\n", verb);
    exit(1);
  }
  return status;
}

int main(int argc, char** argv) {
  char line[LINE];
  const assay_context_options options = {.struct_size = sizeof options, .n_threads = 2};
  FILE* file = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (!file || assay_context_create(&options, NULL, NULL, 0, &context, &error) != ASSAY_OK)
    return 2;
  while (fgets(line, sizeof line, file)) {
    char* verb;
    assay_error_info info = {.struct_size = sizeof info};
    line[strcspn(line, "\n")] = 0;
    if (!line[0] || line[0] == '#') continue;
    char* rest = words(line, 1, &verb);
    if (run(verb, rest) == ASSAY_OK) continue;
    if (assay_error_get(error, &info) == ASSAY_OK) print(info.message);
    printf("\n");
    return 1;
  }
  clear();
  assay_context_free(context);
  fclose(file);
  return 0;
}
