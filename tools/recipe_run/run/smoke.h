// A smoke run: does a recipe train at all, here, on whatever lies in its data folder?
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

// The recipe's changes (as for --set) that leave a few small steps of its first trial on `devices`
// devices of this machine: the schedule stays laid out over the recipe's own length, any number of
// samples will do. Published rows become NOT COMPARABLE by them. Error kUsage for a recipe that
// trains nothing. On the CPU its own precisions stand in for those of GPUs.
std::vector<std::string> smoke_sets(const v1::Recipe& recipe, const std::string& device = "cpu",
                                    uint32_t devices = 1);

}  // namespace reciperun
