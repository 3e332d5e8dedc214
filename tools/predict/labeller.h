// A model that labels pictures: opened from a checkpoint, described, and run.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <map>
#include <string>
#include <vector>

#include "tools/common/abi.h"
#include "tools/common/boxes.h"
#include "tools/predict/prepare.h"

namespace assay::tools {

// Which model, what computes it, and which of its outputs holds the scores; empty: "logits", or the
// only one.
struct ModelChoice {
  std::string checkpoint, output, device = "cpu";
  int threads = 0;
};

enum class Answer { kClasses, kMask, kBoxes };

// A model with its weights, and what it takes and gives.
class Labeller {
 public:
  // `content` is the report of the checkpoint. A `detector_size` (see Preparation) that the model
  // cannot have is wrong usage if it is the user's.
  Labeller(const ModelChoice& choice, const google::protobuf::Struct& content,
           const std::vector<int>& detector_size, bool size_is_users);

  Answer answer() const {
    if (finds_) return Answer::kBoxes;
    return output().size() == 3 ? Answer::kMask : Answer::kClasses;
  }
  SampleShape input() const { return {input_[0], input_[1], input_[2]}; }
  // Rows and columns of what is labelled, then classes; of a classifier the classes alone.
  const std::vector<int>& output() const { return outputs_[scores_].shape; }

  // Scores of the classes, of every pixel if it labels pixels.
  std::vector<float> scores(std::vector<float>& sample);
  // Whether scores are probabilities, not logits.
  bool gives_probabilities() const { return outputs_[scores_].is_probabilities; }

  DetectorOutput boxes(std::vector<float>& sample);

 private:
  struct Output {
    std::string name;
    std::vector<int> shape;
    bool is_probabilities = false;
    bool may_label() const { return shape.size() == 1 || shape.size() == 3; }
  };

  void describe(const std::string& name, const std::map<std::string, std::string>& kinds,
                const std::string& chosen);
  void choose_scores(const std::string& chosen, const std::string& names);
  std::vector<Tensor> run(std::vector<float>& sample, size_t count);
  template <class T>
  std::vector<T> read(const std::vector<Tensor>& out, size_t i) const;

  Context context_;
  Model model_;
  Predictor predictor_;
  Slot slot_;
  std::vector<int> input_;
  std::vector<Output> outputs_;
  size_t scores_ = 0;   // which of them labels
  bool finds_ = false;  // objects
};

}  // namespace assay::tools
