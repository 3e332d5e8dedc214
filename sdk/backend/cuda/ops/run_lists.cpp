// Variables of a group as runs of neighbouring memory, in as few launches as their arguments allow.
#include "sdk/backend/cuda/ops/run_lists.h"

namespace assay::cuda {
namespace {

using kernels::Run;
using kernels::RunList;

// Lists are as long as the arguments of one launch may be; pieces are numbered through all of them.
// Blocks of a list are numbered on from those of the lists before.
void append(std::vector<RunList>& lists, const Run& run) {
  if (run.length == 0) return;
  if (lists.empty()) lists.emplace_back();
  if (lists.back().append(run)) return;
  RunList next;
  next.first_piece = lists.back().first_piece + lists.back().blocks;
  next.append(run);
  lists.push_back(next);
}

bool follows(const Run& next, const Run& run, int roles) {
  for (int role = 0; role < roles; ++role) {
    if (next.at[role] != run.at[role] + run.length) return false;
  }
  return true;
}

}  // namespace

Run Variables::run_of(const Binding& b, int variable) const {
  Run run{};
  run.length = sizes[static_cast<size_t>(variable)];
  run.variable = variable;
  for (int role = 0; role < roles; ++role) {
    const int input = first + role * count + variable;
    run.at[role] = static_cast<float*>(b.inputs[static_cast<size_t>(input)]);
  }
  return run;
}

std::vector<RunList> Variables::lists(const Binding& b) const {
  std::vector<RunList> lists;
  for (int i = 0; i < count; ++i) append(lists, run_of(b, i));
  return lists;
}

std::vector<RunList> Variables::merged_lists(const Binding& b) const {
  std::vector<RunList> lists;
  Run open{};
  for (int i = 0; i < count; ++i) {
    const Run next = run_of(b, i);
    if (i > 0 && follows(next, open, roles)) {
      open.length += next.length;
      continue;
    }
    append(lists, open);
    open = next;
  }
  append(lists, open);
  return lists;
}

}  // namespace assay::cuda
