#include "models/models.h"

#include <array>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/base/utf8.h"
#include "sdk/nn/network.h"

namespace assay::models {
namespace {

constexpr std::array kModels{
    ModelEntry{"bert_base",
               "BERT with its heads for masked words and next sentences, or for answers",
               create_bert_base},
    ModelEntry{"cnn", "convolution blocks with pooling, hidden layers and a classifier",
               create_cnn},
    ModelEntry{"efficientdet_d0", "EfficientDet-D0, which finds objects in images",
               create_efficientdet_d0},
    ModelEntry{"electra_base_pretraining",
               "ELECTRA's generator of masked words and discriminator of replaced ones",
               create_electra_base_pretraining},
    ModelEntry{"electra_base_qa", "ELECTRA with its joint head for start and end of an answer",
               create_electra_base_qa},
    ModelEntry{"resnet18", "ResNet-18 of basic blocks, with a CIFAR or an ImageNet stem",
               create_resnet18},
    ModelEntry{"resnet50", "ResNet-50 v1.5 of bottleneck blocks, for ImageNet", create_resnet50},
    ModelEntry{"unet_medical", "U-Net without padding for segmentation of micrographs",
               create_unet_medical},
};

}  // namespace

std::span<const ModelEntry> model_entries() { return kModels; }

std::unique_ptr<nn::Model> create_model(std::string_view name, std::string_view config_json) {
  if (name == nn::kNetworkArchitecture) return nn::read_network(config_json);
  std::vector<std::string_view> known;
  for (const ModelEntry& entry : kModels) {
    if (entry.name == name) return entry.create(config_json);
    known.push_back(entry.name);
  }
  fail_unknown("no model is called", "arch", name, known);
}

}  // namespace assay::models
