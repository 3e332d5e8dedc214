// The variables of an update as lists that travel in the arguments of kernels.
#pragma once

#include <vector>

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// Where an update's inputs stand: `roles` lists of `count` tensors from input `first` on.
struct Variables {
  int first, roles, count;
  std::vector<int64_t> sizes;  // of each variable, elements

  Variables(const Planner& c, int first_input, int n_roles)
      : first(first_input), roles(n_roles), count((c.n_inputs() - first_input) / n_roles) {
    for (int i = 0; i < count; ++i) sizes.push_back(c.x(first + i).numel());
  }

  // Blocks of all variables, each cut by itself.
  int64_t pieces() const {
    int64_t sum = 0;
    for (const int64_t size : sizes) {
      sum += (size + kernels::kRunElems - 1) / kernels::kRunElems;
    }
    return sum;
  }

  // One run per variable.
  std::vector<kernels::RunList> lists(const Binding& b) const;
  // Variables whose memory is adjacent in every role become one run. Elementwise updates give the
  // same bits however they are cut.
  std::vector<kernels::RunList> merged_lists(const Binding& b) const;

 private:
  kernels::Run run_of(const Binding& b, int variable) const;
};

}  // namespace assay::cuda
