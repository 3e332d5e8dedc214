// NumPy's legacy shuffle, so that a published seed gives the published folds, and the cuts.
#include "tools/recipe_run/assay/folds.h"

#include <fmt/core.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "tools/recipe_run/util/error.h"

namespace reciperun::engine {

std::vector<int64_t> numpy_shuffled(uint32_t seed, int64_t count) {
  std::vector<int64_t> list(static_cast<size_t>(count));
  std::iota(list.begin(), list.end(), 0);
  std::mt19937 generator(seed);
  for (auto last = static_cast<uint32_t>(count) - 1; last >= 1 && count > 1; --last) {
    uint32_t mask = last;  // all ones below the highest bit
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    uint32_t other = 0;
    do {
      other = static_cast<uint32_t>(generator()) & mask;
    } while (other > last);
    std::swap(list[last], list[other]);
  }
  return list;
}

FoldRecords fold_records(const v1::Folds& folds, int64_t samples, uint64_t fold) {
  require(folds.splitter() == "rotate_then_cut",
          "data.folds.splitter '" + folds.splitter() + "' is not offered by this engine",
          "rotate_then_cut");
  require(folds.shuffle_algorithm() == "mt19937-fisher-yates-legacy",
          "data.folds.shuffle_algorithm '" + folds.shuffle_algorithm() +
              "' is not offered by this engine",
          "mt19937-fisher-yates-legacy");
  require(folds.shuffle_seed() <= std::numeric_limits<uint32_t>::max(),
          "data.folds.shuffle_seed must be below 2^32");
  require(fold < folds.k(),
          fmt::format("fold {} was asked for, data.folds.k is {}", fold, folds.k()));
  const int64_t train = folds.train_count();
  require(train > 0 && train < samples,
          fmt::format("data.folds.train_count is {} of {} records: one part of each fold would be "
                      "empty",
                      train, samples));
  std::vector<int64_t> list = numpy_shuffled(static_cast<uint32_t>(folds.shuffle_seed()), samples);
  const auto turn = static_cast<int64_t>(fold * folds.stride() % static_cast<uint64_t>(samples));
  std::rotate(list.begin(), list.end() - turn, list.end());
  return {{list.begin(), list.begin() + train}, {list.begin() + train, list.end()}};
}

void require_disjoint_folds(const v1::DataRef& train, const v1::DataRef& held_out) {
  if (train.lock() != held_out.lock() || train.split() != held_out.split()) return;
  const bool alike =
      train.has_folds() == held_out.has_folds() &&
      google::protobuf::util::MessageDifferencer::Equals(train.folds(), held_out.folds());
  require(alike,
          "data." + train.id() + ".folds and data." + held_out.id() +
              ".folds differ: records that are trained on would be evaluated on",
          "change both alike");
}

}  // namespace reciperun::engine
