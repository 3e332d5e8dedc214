// Cross-validation: which records a fold trains on and which it holds out.
#pragma once

#include <cstdint>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun::engine {

struct FoldRecords {
  std::vector<int64_t> train, held_out;  // record numbers, in the order they are used in
};

// Fold `fold` (below folds.k) of `samples` records. splitter "rotate_then_cut": the shuffled list
// rotated right by fold * stride; its first train_count entries train, the others are held out.
// The folds need not be a partition. shuffle_algorithm "mt19937-fisher-yates-legacy": NumPy's
// RandomState(shuffle_seed).shuffle. Error kUsage for others, and for folds that would be empty.
FoldRecords fold_records(const v1::Folds& folds, int64_t samples, uint64_t fold);

// Error kUsage if data of one split are cut into folds in two ways: what one trains on, the other
// could hold out.
void require_disjoint_folds(const v1::DataRef& train, const v1::DataRef& held_out);

// 0 to count - 1 as NumPy's RandomState(seed).shuffle leaves them.
std::vector<int64_t> numpy_shuffled(uint32_t seed, int64_t count);

}  // namespace reciperun::engine
