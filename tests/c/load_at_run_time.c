/* A host that opens the library by name, uses it, closes it, and goes on; then opens it again and
 * leaves without freeing. */
#include <assay/assay.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef assay_status (*create_function)(const assay_context_options*, const assay_host*,
                                        const assay_device_id*, size_t, assay_context**,
                                        assay_error**);
typedef assay_status (*named_function)(const assay_context*, assay_str, assay_str, assay_model**,
                                       assay_error**);
typedef assay_status (*initialize_function)(assay_model*, uint64_t, assay_error**);
typedef void (*free_context_function)(assay_context*);
typedef void (*free_model_function)(assay_model*);

/* ISO C has no conversion from void * to a function. */
static void find(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

static int use(const char* path, int clean) {
  create_function create;
  named_function named;
  initialize_function initialize;
  free_context_function free_context;
  free_model_function free_model;
  assay_context* context;
  assay_model* model;
  const assay_str name = {"cnn", 3}, defaults = {NULL, 0};
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  find(library, "assay_context_create", &create);
  find(library, "assay_model_named", &named);
  find(library, "assay_model_initialize", &initialize);
  find(library, "assay_context_free", &free_context);
  find(library, "assay_model_free", &free_model);
  if (create(NULL, NULL, NULL, 0, &context, NULL) != ASSAY_OK) return 2;
  if (named(context, name, defaults, &model, NULL) != ASSAY_OK) return 3;
  if (initialize(model, 1, NULL) != ASSAY_OK) return 4;
  if (!clean) return 0;
  free_context(context);
  free_model(model);
  return dlclose(library) == 0 ? 0 : 5;
}

int main(int argc, char** argv) {
  int result = argc == 2 ? use(argv[1], 1) : 9;
  if (result == 0) result = use(argv[1], 1);
  if (result == 0) result = use(argv[1], 0);
  return result;
}
