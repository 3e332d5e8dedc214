#include "capi/src/configuration.h"

#include "capi/src/abi.h"
#include "sdk/base/expect.h"
#include "sdk/base/proto_json.h"

namespace assay::capi {
namespace {

// Calls `set` for a value given in the options; zero is "not given".
template <class T, class Set>
void merge(std::string_view key, T option, bool in_json, const Set& set) {
  if (option == T{}) return;
  expect(!in_json, {"", key}, "given in the options and in config_json", "one of the two");
  set(option);
}

}  // namespace

train::TrainerConfig read_trainer_config(const assay_trainer_options* options,
                                         std::string_view json) {
  const auto given = read_struct(options, "options");
  expect(given.reserved == 0, {"", "options.reserved"}, given.reserved, "0");
  train::TrainerConfig config;
  parse_json(json, config, "trainer configuration");
  merge("batch_size", given.batch_size, config.batch_size() != 0,
        [&](int64_t value) { config.set_batch_size(value); });
  merge("eval_batch_size", given.eval_batch_size, config.has_eval_batch_size(),
        [&](int64_t value) { config.set_eval_batch_size(value); });
  merge("accumulate", given.accumulate, config.has_accumulate(),
        [&](int64_t value) { config.set_accumulate(value); });
  merge("seed", given.seed, config.seed() != 0, [&](uint64_t value) { config.set_seed(value); });
  merge("learning_rate", given.learning_rate, config.optimizer().learning_rate() != 0,
        [&](double value) { config.mutable_optimizer()->set_learning_rate(value); });
  merge("precision", given.precision, config.has_precision(), [&](int32_t value) {
    expect(value >= ASSAY_PRECISION_FP32 && value <= ASSAY_PRECISION_AMP_BF16, {"", "precision"},
           value, "an ASSAY_PRECISION_* constant");
    config.set_precision(std::string(assay::to_text(static_cast<Precision>(value))));
  });
  return config;
}

train::PredictorOptions read_predictor_config(std::string_view json) {
  PredictorConfig config;
  parse_json(json, config, "predictor configuration");
  train::PredictorOptions options;
  if (config.has_precision()) options.precision = parse_precision(config.precision());
  options.use_ema = config.use_ema();
  if (config.has_max_batch()) options.max_batch = config.max_batch();
  options.disabled_passes.assign(config.disabled_pass().begin(), config.disabled_pass().end());
  return options;
}

}  // namespace assay::capi
