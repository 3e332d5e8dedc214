// The arguments of a pipeline's steps, read with messages that name data set, step and argument.
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun::engine {

bool has_stage(const v1::DataRef& data, const std::string& op);

// Of one step; it must outlive the reader. All readings fail with Error kUsage: for an argument
// that is missing, and for one that is not what is asked for.
class StageReader {
 public:
  StageReader(const v1::DataRef& data, const v1::Stage& stage);

  const std::string& text(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t whole(const std::string& name) const;  // 0 to 65,536
  // "0.5" or "[0.5, 1, 2]"; finite.
  std::vector<double> numbers(const std::string& name) const;
  std::vector<double> pair(const std::string& name) const;
  // The side of a square, given as height and width: 1 to 65,536.
  int64_t side(const std::string& name) const;

  // "data 'train': pipeline step 'pad': value '1' is no padding of this engine"
  [[noreturn]] void refuse(const std::string& name, const std::string& problem,
                           const std::string& hint = {}) const;
  [[noreturn]] void refuse_step(const std::string& problem, const std::string& hint = {}) const;

 private:
  int64_t whole(const std::string& name, double value, double least) const;

  const v1::Stage& stage_;
  std::string where_;
};

}  // namespace reciperun::engine
