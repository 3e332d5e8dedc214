// Predictors as ONNX files, which other programs run.
#pragma once

#include <string>

#include "sdk/train/predictor.h"

namespace assay::onnx {

inline constexpr int64_t kOpset = 17;

// What was written.
struct ExportReport {
  int64_t nodes = 0;
  uint64_t file_bytes = 0;
};

// Writes what `predictor` computes, in f32 and for any batch size, to a file that appears whole or
// not at all. kUnsupported, naming the op, if the network holds one without a counterpart, or if
// the file would have more than 2 GiB.
ExportReport export_predictor(const train::Predictor& predictor, const std::string& path);

}  // namespace assay::onnx
