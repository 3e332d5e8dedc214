// Keys that only some kinds of a configuration have: momentum of sgd, gamma of step.
#pragma once

#include <google/protobuf/message.h>

#include <span>
#include <string_view>
#include <vector>

namespace assay::optim {

struct KindKeys {
  std::string_view kind;
  std::vector<std::string_view> keys;
};

// Fails with kInvalid for a key that is set in `config`, belongs to one of the kinds, but not to
// `kind`. `path` is where the configuration stands: "optimizer".
void check_kind_keys(std::string_view path, const google::protobuf::Message& config,
                     std::string_view kind, std::span<const KindKeys> kinds);

}  // namespace assay::optim
