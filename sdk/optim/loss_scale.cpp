#include "sdk/optim/loss_scale.h"

#include <array>

#include "sdk/base/expect.h"
#include "sdk/optim/kinds.h"

namespace assay::optim {
namespace {

const std::array<KindKeys, 3>& kinds() {
  static const std::array<KindKeys, 3> kKinds{
      {{"none", {}},
       {"static", {"initial"}},
       {"dynamic", {"initial", "growth", "backoff", "interval", "minimum", "maximum"}}}};
  return kKinds;
}

}  // namespace

LossScaleConfig with_defaults(LossScaleConfig config) {
  if (!config.has_mode()) config.set_mode("none");
  const bool dynamic = config.mode() == "dynamic";
  if ((dynamic || config.mode() == "static") && !config.has_initial()) config.set_initial(65536);
  if (!dynamic) return config;
  if (!config.has_growth()) config.set_growth(2);
  if (!config.has_backoff()) config.set_backoff(0.5);
  if (!config.has_interval()) config.set_interval(2000);
  if (!config.has_minimum()) config.set_minimum(1);
  if (!config.has_maximum()) config.set_maximum(16777216);
  return config;
}

void check(const LossScaleConfig& config) {
  expect_one_of({"trainer", "loss_scale.mode"}, config.mode(), {"none", "static", "dynamic"});
  check_kind_keys("loss_scale", config, config.mode(), kinds());
  const auto check_number = [](std::string_view path, double value, const Interval& interval) {
    expect_number({"trainer", path}, value, interval);
  };
  if (config.mode() == "none") return;
  check_number("loss_scale.initial", config.initial(), kLossScales);
  if (config.mode() == "static") return;
  check_number("loss_scale.growth", config.growth(), {1, kMaxF32});
  check_number("loss_scale.backoff", config.backoff(), {0, 1, true, false});
  check_number("loss_scale.interval", static_cast<double>(config.interval()),
               {1, 2147483647, true});
  check_number("loss_scale.minimum", config.minimum(), kLossScales);
  check_number("loss_scale.maximum", config.maximum(), {config.minimum(), kMaxF32, true});
}

}  // namespace assay::optim
