// Writes a checkpoint of a model that has learnt nothing, as recipe-run leaves it for
// assay-predict: with the weights stands how pictures become samples.
//
//   write_model CHECKPOINT MODEL CONFIGURATION TRAINER_CONFIGURATION [PREPARATION]
#include <cstdio>

#include "tools/common/abi.h"

namespace {

using namespace assay::tools;

void write(const char* const* arguments, const char* preparation) {
  assay_context* context = nullptr;
  call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &context);
  const Context owned_context(context);
  assay_model* model = nullptr;
  call(Exit::kCrashed, assay_model_named, context, text(arguments[1]), text(arguments[2]), &model);
  const Model owned_model(model);
  call(Exit::kCrashed, assay_model_initialize, model, uint64_t{1});
  assay_trainer_options options{};
  options.struct_size = sizeof options;
  options.batch_size = 2;
  options.learning_rate = 0.1;
  assay_trainer* trainer = nullptr;
  call(Exit::kCrashed, assay_trainer_create, model,
       static_cast<const assay_trainer_options*>(&options), text(arguments[3]), &trainer);
  const Trainer owned_trainer(trainer);
  if (preparation != nullptr)
    call(Exit::kCrashed, assay_trainer_set_metadata, trainer, text("preparation"),
         text(preparation));
  call(Exit::kCrashed, assay_checkpoint_save, trainer, text(arguments[0]),
       uint32_t{ASSAY_PART_ALL});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  try {
    write(argv + 1, argc > 5 ? argv[5] : nullptr);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
