// Writes a checkpoint of a detector that has learnt nothing, as recipe-run leaves it for
// assay-predict: with the weights stands how pictures become samples.
//
//   write_detector CHECKPOINT [PREPARATION]
#include <cstdio>

#include "tools/common/abi.h"

namespace {

using namespace assay::tools;

void write(const std::string& checkpoint, const char* preparation) {
  assay_context* context = nullptr;
  call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &context);
  const Context owned_context(context);
  assay_model* model = nullptr;
  call(Exit::kCrashed, assay_model_named, context, text("efficientdet_d0"),
       text(R"({"classes": 3, "width": 16, "cells": 1})"), &model);
  const Model owned_model(model);
  call(Exit::kCrashed, assay_model_initialize, model, uint64_t{1});
  assay_trainer_options options{};
  options.struct_size = sizeof options;
  options.batch_size = 2;
  options.learning_rate = 0.1;
  assay_trainer* trainer = nullptr;
  call(Exit::kCrashed, assay_trainer_create, model,
       static_cast<const assay_trainer_options*>(&options),
       text(R"({"image_size": [128, 128], "optimizer": {"name": "sgd"}})"), &trainer);
  const Trainer owned_trainer(trainer);
  if (preparation != nullptr)
    call(Exit::kCrashed, assay_trainer_set_metadata, trainer, text("preparation"),
         text(preparation));
  call(Exit::kCrashed, assay_checkpoint_save, trainer, text(checkpoint), uint32_t{ASSAY_PART_ALL});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    write(argv[1], argc > 2 ? argv[2] : nullptr);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
