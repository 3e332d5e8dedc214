// Settings that may come from a struct or from JSON text, but not from both.
#pragma once

#include "assay/assay.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer_config.h"

namespace assay::capi {

// The checked configuration; `of` names it in messages.
template <class Config>
Config parsed(std::string_view json, std::string_view of) {
  Config config;
  parse_json(json, config, of);
  check_config(of, "", config);
  return config;
}

train::TrainerConfig read_trainer_config(const assay_trainer_options* options,
                                         std::string_view json);
train::PredictorOptions read_predictor_config(std::string_view json);

}  // namespace assay::capi
