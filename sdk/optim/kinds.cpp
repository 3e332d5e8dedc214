#include "sdk/optim/kinds.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>

#include "sdk/base/expect.h"

namespace assay::optim {
namespace {

bool holds(const KindKeys& kind, std::string_view key) {
  return std::find(kind.keys.begin(), kind.keys.end(), key) != kind.keys.end();
}

std::vector<std::string_view> kinds_with(std::string_view key, std::span<const KindKeys> kinds) {
  std::vector<std::string_view> names;
  for (const KindKeys& kind : kinds) {
    if (holds(kind, key)) names.push_back(kind.kind);
  }
  return names;
}

}  // namespace

void check_kind_keys(std::string_view path, const google::protobuf::Message& config,
                     std::string_view kind, std::span<const KindKeys> kinds) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  config.GetReflection()->ListFields(config, &set);
  const auto own =
      std::find_if(kinds.begin(), kinds.end(), [&](const KindKeys& k) { return k.kind == kind; });
  for (const auto* field : set) {
    const auto owners = kinds_with(field->name(), kinds);
    if (owners.empty() || holds(*own, field->name())) continue;
    const std::string key = cat(path, ".", field->name());
    const std::string takes =
        own->keys.empty() ? "no keys of its own" : enumerate(own->keys, false, " and ");
    fail(Code::kInvalid,
         cat("trainer: ", key, " belongs to ", enumerate(owners), ", not to ", kind,
             ", which takes ", takes),
         {.argument = key, .expected = takes, .actual = field->name()});
  }
}

}  // namespace assay::optim
