// The models that assay_model_named knows.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sdk/nn/model.h"

namespace assay::models {

struct ModelEntry {
  std::string_view name;
  std::string_view summary;
  // Reads the configuration (JSON text; "" is all defaults; each model's file declares its keys).
  // Fails with kInvalid.
  std::unique_ptr<nn::Model> (*create)(std::string_view config_json);
};

std::span<const ModelEntry> model_entries();

// One of these, or what a host described (sdk/nn/network.h). Fails with kNotFound, listing the
// names.
std::unique_ptr<nn::Model> create_model(std::string_view name, std::string_view config_json);

// Defined in <name>.cpp.
std::unique_ptr<nn::Model> create_bert_base(std::string_view config_json);
std::unique_ptr<nn::Model> create_cnn(std::string_view config_json);
std::unique_ptr<nn::Model> create_efficientdet_d0(std::string_view config_json);
std::unique_ptr<nn::Model> create_electra_base_pretraining(std::string_view config_json);
std::unique_ptr<nn::Model> create_electra_base_qa(std::string_view config_json);
std::unique_ptr<nn::Model> create_resnet18(std::string_view config_json);
std::unique_ptr<nn::Model> create_resnet50(std::string_view config_json);
std::unique_ptr<nn::Model> create_unet_medical(std::string_view config_json);

}  // namespace assay::models
