// The configurations of trainers and predictors as hosts give them: a struct of options and JSON
// text, which must not say the same thing twice.
#include "capi/src/configuration.h"

#include "capi/src/abi.h"
#include "sdk/base/expect.h"

namespace assay::capi {
namespace {

struct PredictorConfig {
  std::string precision = "fp32";
  bool use_ema = false;
  int64_t max_batch = 1024;
  std::vector<int64_t> image_size;
  std::optional<std::string> suppression;
  std::optional<int64_t> sequence_length, prediction_slots;
  std::vector<std::string> disabled_pass;
  void fields(ConfigFields& f) {
    f("precision", precision, "fp32, tf32, amp-fp16 or amp-bf16");
    f("use_ema", use_ema, "predict with the moving averages of the weights");
    f("max_batch", max_batch, "most rows of a batch");
    f("image_size", image_size, "[rows, columns] of models that take several; theirs if not given")
        .in({1, 1 << 20, true});
    f("suppression", suppression, "of a detector: how finds that overlap are thinned out")
        .one_of({"soft", "hard"});
    f("sequence_length", sequence_length, "tokens of a sequence; the model's if not given")
        .in({1, 1 << 30, true});
    f("prediction_slots", prediction_slots, "masked words of a sequence; the model's if not given")
        .in({1, 1 << 30, true});
    f("disabled_pass", disabled_pass, "rewrites to leave out");
  }
};

// Calls `set` for a value given in the options; zero is "not given".
template <class T, class Set>
void merge(std::string_view key, T option, bool in_json, const Set& set) {
  if (option == T{}) return;
  expect(!in_json, {"", key}, "given in the options and in config_json", "one of the two");
  set(option);
}

// A 0 may stand for what the options say.
template <class T>
bool is_given(T number) {
  return number != kNotGiven<T> && number != 0;
}

}  // namespace

train::TrainerConfig read_trainer_config(const assay_trainer_options* options,
                                         std::string_view json) {
  const auto given = read_struct(options, "options");
  expect(given.reserved == 0, {"", "options.reserved"}, given.reserved, "0");
  train::TrainerConfig config;
  parse_json(json, config, "trainer configuration");
  merge("batch_size", given.batch_size, is_given(config.batch_size),
        [&](int64_t value) { config.batch_size = value; });
  merge("eval_batch_size", given.eval_batch_size, config.eval_batch_size.has_value(),
        [&](int64_t value) { config.eval_batch_size = value; });
  merge("accumulate", given.accumulate, config.accumulate.has_value(),
        [&](int64_t value) { config.accumulate = value; });
  merge("seed", given.seed, config.seed != 0, [&](uint64_t value) { config.seed = value; });
  merge("learning_rate", given.learning_rate, is_given(config.optimizer.learning_rate),
        [&](double value) { config.optimizer.learning_rate = value; });
  merge("precision", given.precision, config.precision.has_value(), [&](int32_t value) {
    expect(value >= ASSAY_PRECISION_FP32 && value <= ASSAY_PRECISION_AMP_BF16, {"", "precision"},
           value, "an ASSAY_PRECISION_* constant");
    config.precision = std::string(assay::to_text(static_cast<Precision>(value)));
  });
  return config;
}

train::PredictorOptions read_predictor_config(std::string_view json) {
  PredictorConfig config;
  parse_json(json, config, "predictor configuration");
  check_config("predictor", "", config);
  return {.precision = parse_precision(config.precision),
          .use_ema = config.use_ema,
          .max_batch = config.max_batch,
          .image_size = config.image_size,
          .suppression = config.suppression.value_or(""),
          .sequence_length = config.sequence_length,
          .prediction_slots = config.prediction_slots,
          .disabled_passes = std::move(config.disabled_pass)};
}

}  // namespace assay::capi
