// SgdUpdate, AdamUpdate, LambUpdate, EmaUpdate: one pass over all variables of a group.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "sdk/backend/as_written.h"
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

constexpr int kMaxRoles = 4;

// A run of elements of every role (value, gradient, moments), cut so that runs make even work.
struct Run {
  std::array<float*, kMaxRoles> at{};
  int64_t length = 0;
  int variable = 0;
};

// Where an update's inputs stand: `roles` lists of `count` tensors from input `first` on.
struct Lists {
  int first, roles, count;
  std::vector<int64_t> sizes;  // of each variable, elements

  Lists(const Planner& c, int first_input, int n_roles)
      : first(first_input), roles(n_roles), count((c.n_inputs() - first_input) / n_roles) {
    for (int i = 0; i < count; ++i) sizes.push_back(c.x(first + i).numel());
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t size : sizes) sum += size;
    return sum;
  }
  Run whole(const Binding& b, int variable) const {
    Run run{.length = sizes[variable], .variable = variable};
    for (int role = 0; role < roles; ++role) {
      run.at[role] = static_cast<float*>(b.inputs[first + role * count + variable]);
    }
    return run;
  }
};

bool follows(const Run& next, const Run& run, int roles) {
  for (int role = 0; role < roles; ++role) {
    if (next.at[role] != run.at[role] + run.length) return false;
  }
  return true;
}

void append_cut(std::vector<Run>& runs, const Run& whole, int roles) {
  const Chunks cut{whole.length, kChunkElems};
  for (int64_t i = 0; i < cut.count(); ++i) {
    Run part{.length = cut.length(i), .variable = whole.variable};
    for (int role = 0; role < roles; ++role) part.at[role] = whole.at[role] + cut.begin(i);
    runs.push_back(part);
  }
}

// Variables whose memory is adjacent in every role become one: a model has many tensors of a few
// dozen elements. Elementwise updates give the same bits however they are cut.
std::vector<Run> merged_runs(const Lists& lists, const Binding& b) {
  std::vector<Run> runs;
  Run open = lists.whole(b, 0);
  for (int i = 1; i < lists.count; ++i) {
    const Run next = lists.whole(b, i);
    if (follows(next, open, lists.roles)) {
      open.length += next.length;
      continue;
    }
    append_cut(runs, open, lists.roles);
    open = next;
  }
  append_cut(runs, open, lists.roles);
  return runs;
}

int threads_for(const Planner& c, const Lists& lists) {
  return lists.total() <= kSerialElems ? 1 : c.threads();
}

template <class Body>
void for_runs(int threads, const std::vector<Run>& runs, const Body& body) {
  parallel_for(threads, static_cast<int64_t>(runs.size()), [&](int64_t i) { body(runs[i]); });
}

// The decay rates of an Adam-like optimizer, in f64: an f32 power would keep 4 digits of 1 - b^t.
struct Betas {
  double first, second;
  bool corrected;

  double correction1(int64_t t) const { return correction(first, t); }
  double correction2(int64_t t) const { return correction(second, t); }

 private:
  double correction(double beta, int64_t t) const {
    return corrected ? 1.0 - std::pow(beta, static_cast<double>(t)) : 1.0;
  }
};

AdamStep adam_step(const AdamUpdate& p, const Betas& betas, double rate, float multiplier,
                   int64_t t) {
  const double lr = rate * p.lr_scale;
  const double c1 = betas.correction1(t);
  const double c2 = std::sqrt(betas.correction2(t));
  const bool hat = p.epsilon_form == EpsilonForm::kTensorFlow;
  return {.beta1 = p.beta1,
          .one_minus_beta1 = complement(betas.first),
          .beta2 = p.beta2,
          .one_minus_beta2 = complement(betas.second),
          .multiplier = multiplier,
          .weight_decay = p.decoupled ? 0.0f : p.weight_decay,
          .keep = p.decoupled ? static_cast<float>(1.0 - lr * p.weight_decay) : 1.0f,
          .rate = static_cast<float>(hat ? lr * c2 / c1 : lr / c1),
          .inverse_root = hat ? 1.0f : static_cast<float>(1.0 / c2),
          .epsilon = p.epsilon};
}

LambStep lamb_step(const LambUpdate& p, const Betas& betas, float multiplier, int64_t t) {
  return {.beta1 = p.beta1,
          .one_minus_beta1 = complement(betas.first),
          .beta2 = p.beta2,
          .one_minus_beta2 = complement(betas.second),
          .multiplier = multiplier,
          .weight_decay = p.weight_decay,
          .inverse_bias1 = static_cast<float>(1.0 / betas.correction1(t)),
          .inverse_root = static_cast<float>(1.0 / std::sqrt(betas.correction2(t))),
          .epsilon = p.epsilon};
}

// The scalars every optimizer reads.
struct Control {
  const float *rate, *multiplier, *skip;
  explicit Control(const Binding& b)
      : rate(b.x<float>(0)), multiplier(b.x<float>(1)), skip(b.x<float>(2)) {}
};

}  // namespace

// Roles: value, gradient, momentum, which is null without one.
NodePlan plan(const SgdUpdate& p, const Planner& c) {
  const Lists lists(c, 3, p.momentum == 0 ? 2 : 3);
  NodePlan plan = own_plan("sgd");
  plan.bind = [=, threads = threads_for(c, lists),
               run = kernels().update->sgd](const Binding& b) -> Launch {
    return [=, control = Control(b), runs = merged_runs(lists, b)](Queue&) {
      if (*control.skip != 0.0f) return;
      const SgdStep step{.momentum = p.momentum,
                         .learning_rate = *control.rate * p.lr_scale,
                         .multiplier = *control.multiplier,
                         .weight_decay = p.weight_decay,
                         .nesterov = p.nesterov,
                         .sutskever = p.convention == MomentumConvention::kSutskever};
      for_runs(threads, runs,
               [&](const Run& r) { run(step, r.at[0], r.at[1], r.at[2], r.length); });
    };
  };
  return plan;
}

// Roles: value, gradient, both moments; step [].
NodePlan plan(const AdamUpdate& p, const Planner& c) {
  const Lists lists(c, 4, 4);
  const Betas betas{as_written(p.beta1), as_written(p.beta2), p.bias_correction};
  NodePlan plan = own_plan("adam");
  plan.bind = [=, threads = threads_for(c, lists),
               run = kernels().update->adam](const Binding& b) -> Launch {
    return [=, control = Control(b), t = b.x<int64_t>(3), runs = merged_runs(lists, b)](Queue&) {
      if (*control.skip != 0.0f) return;
      const AdamStep step = adam_step(p, betas, *control.rate, *control.multiplier, *t);
      for_runs(threads, runs,
               [&](const Run& r) { run(step, r.at[0], r.at[1], r.at[2], r.at[3], r.length); });
    };
  };
  return plan;
}

// Roles as Adam's. Three passes: moments and norms by piece, a rate by variable, the update.
NodePlan plan(const LambUpdate& p, const Planner& c) {
  const Lists lists(c, 4, 4);
  const Betas betas{as_written(p.beta1), as_written(p.beta2), p.bias_correction};
  NodePlan plan = own_plan("lamb");
  size_t pieces = 0;
  for (const int64_t size : lists.sizes) {
    pieces += static_cast<size_t>(Chunks{size, kChunkElems}.count());
  }
  plan.scratch_bytes = (2 * pieces + static_cast<size_t>(lists.count)) * sizeof(double);
  plan.bind = [=, threads = threads_for(c, lists), moments = kernels().update->lamb_moments,
               apply = kernels().update->lamb_apply](const Binding& b) -> Launch {
    std::vector<Run> runs;  // never across variables: each has its own norms
    for (int i = 0; i < lists.count; ++i) append_cut(runs, lists.whole(b, i), lists.roles);
    double* squares = static_cast<double*>(b.scratch);  // [piece][p, u]
    double* rates = squares + 2 * pieces;               // [variable]
    return [=, control = Control(b), t = b.x<int64_t>(3)](Queue&) {
      if (*control.skip != 0.0f) return;
      const LambStep step = lamb_step(p, betas, *control.multiplier, *t);
      parallel_for(threads, static_cast<int64_t>(runs.size()), [&](int64_t i) {
        const Run& r = runs[i];
        moments(step, r.at[0], r.at[1], r.at[2], r.at[3], r.length, squares + 2 * i,
                squares + 2 * i + 1);
      });
      size_t piece = 0;
      for (int variable = 0; variable < lists.count; ++variable) {
        double p_squares = 0, u_squares = 0;
        for (; piece < runs.size() && runs[piece].variable == variable; ++piece) {
          p_squares += squares[2 * piece];
          u_squares += squares[2 * piece + 1];
        }
        const bool trusted = p.use_trust_ratio && p_squares > 0 && u_squares > 0;
        const double trust = trusted ? std::sqrt(p_squares / u_squares) : 1.0;
        rates[variable] = trust * static_cast<double>(*control.rate) * p.lr_scale;
      }
      for_runs(threads, runs, [&](const Run& r) {
        apply(step, static_cast<float>(rates[r.variable]), r.at[0], r.at[2], r.at[3], r.length);
      });
    };
  };
  return plan;
}

// Roles: average, value.
NodePlan plan(const EmaUpdate& p, const Planner& c) {
  const Lists lists(c, p.warmup ? 2 : 1, 2);
  NodePlan plan = own_plan("ema");
  plan.bind = [=, threads = threads_for(c, lists), most = as_written(p.decay),
               run = kernels().update->ema](const Binding& b) -> Launch {
    const int64_t* step = p.warmup ? b.x<int64_t>(1) : nullptr;
    return [=, skip = b.x<float>(0), runs = merged_runs(lists, b)](Queue&) {
      if (*skip != 0.0f) return;
      const double decay = step == nullptr ? most : std::min(most, (1.0 + *step) / (10.0 + *step));
      for_runs(threads, runs, [&](const Run& r) {
        run(static_cast<float>(decay), complement(decay), r.at[0], r.at[1], r.length);
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
