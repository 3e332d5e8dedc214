// Any text as a configuration, the first byte choosing of what: it is refused with an Error, or
// what it says can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/models.h"
#include "sdk/base/error.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/augment/micrograph_transform.h"
#include "sdk/data/loader_config.h"
#include "sdk/train/checkpoint/name_map.h"
#include "sdk/train/trainer_config.h"

namespace {

using namespace assay;

// The text of what was read, which is all that checkpoints and reports keep of it.
template <class Config>
std::string read(std::string_view text) {
  Config config;
  parse_json(text, config, "configuration");
  const std::string written = to_json(config);
  if constexpr (requires { check(with_defaults(config)); }) {
    check(with_defaults(config));
  } else {
    check_config("configuration", "", config);
  }
  return written;
}

std::string read_names(std::string_view text) {
  const weights::NameMap map = weights::parse_name_map(text);
  for (const std::string_view name : {"", "a", "layer.0.weight"})
    for (const auto& there : {name_in_file(map, name), name_in_model(map, name)})
      if (there && there->rule == nullptr && there->name != name) std::abort();
  return to_json(map);
}

std::string read_model(std::string_view name, std::string_view text) {
  return models::create_model(name, text)->config_json();
}

std::string read_one(size_t kind, std::string_view text) {
  constexpr auto kConfigurations = std::to_array(
      {read<train::TrainerConfig>, read<data::LoaderConfig>, read<data::ImageTransformConfig>,
       read<data::JpegTransformConfig>, read<data::DetectionTransformConfig>,
       read<data::MicrographTransformConfig>, read_names});
  const auto models = models::model_entries();
  kind %= kConfigurations.size() + models.size();
  if (kind < kConfigurations.size()) return kConfigurations[kind](text);
  return read_model(models[kind - kConfigurations.size()].name, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string written;
  try {
    written = read_one(data[0], text);
  } catch (const Error&) {
    return 0;
  }
  if (read_one(data[0], written) != written) std::abort();  // an Error here is a failure too
  return 0;
}
