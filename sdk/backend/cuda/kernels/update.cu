// Gradient norm, optimizers, averages: one pass over all variables of a group in a few launches.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {

bool RunList::append(Run run) {
  if (count == kMostRuns) return false;
  run.first_block = blocks;
  blocks += static_cast<int32_t>(ceil_div(run.length, kRunElems));
  runs[count++] = run;
  return true;
}

namespace {

// The run of this block and the block's part of it.
struct Part {
  int run;
  int64_t begin, end;
};
__device__ Part part_of_block(const RunList& list) {
  const int block = static_cast<int>(blockIdx.x);
  int run = 0;
  while (run + 1 < list.count && list.runs[run + 1].first_block <= block) ++run;
  const int64_t begin = static_cast<int64_t>(block - list.runs[run].first_block) * kRunElems;
  const int64_t length = list.runs[run].length;
  return {run, begin, begin + kRunElems < length ? begin + kRunElems : length};
}

// Calls body(i) for the block's elements, neighbours to neighbouring threads. f32 accesses of a
// warp are whole cache lines already.
template <class Body>
__device__ void for_elements(const Part& part, const Body& body) {
  for (int64_t i = part.begin + threadIdx.x; i < part.end; i += blockDim.x) body(i);
}

// x, y [n]
__global__ void accumulate(float* y, const float* x, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) y[i] += x[i];
}

// f64, so that squares of any f32 stay finite and the sum is not finite only if an element is not.
__global__ void squares_of_parts(RunList list, double* partial) {
  __shared__ double shared[kThreads];
  const Part part = part_of_block(list);
  const float* x = list.runs[part.run].at[0];
  double sum = 0;
  for_elements(part, [&](int64_t i) {
    const double v = static_cast<double>(x[i]);
    sum += v * v;
  });
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[list.first_piece + blockIdx.x] = sum;
}

// Roles: value, gradient.
__global__ void decay_parts(RunList list, DecayArgs args) {
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  const float* p = run.at[0];
  float* g = run.at[1];
  const auto factor = static_cast<float>(args.weight_decay * static_cast<double>(*args.loss_scale) *
                                         args.accumulate);
  for_elements(part, [&](int64_t i) { g[i] = fmaf(factor, p[i], g[i]); });
}

// One block per variable.
__global__ void clip_factors(RunList list, ClipArgs args) {
  __shared__ double shared[kThreads];
  const Run& run = list.runs[blockIdx.x];
  const double* partial = args.partial + list.first_piece + run.first_block;
  const int64_t pieces = (run.length + kRunElems - 1) / kRunElems;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < pieces; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  const double most = args.clip_norm * static_cast<double>(*args.loss_scale) * args.accumulate;
  const double factor = most / sqrt(sum);
  args.factors[run.variable] = isfinite(sum) && factor < 1 ? factor : 1.0;
}

__global__ void scale_parts(RunList list, const double* factors) {
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  const auto factor = static_cast<float>(factors[run.variable]);
  if (factor == 1.0f) return;
  for_elements(part, [&](int64_t i) { run.at[0][i] *= factor; });
}

__global__ void finish_norm(GradientNormArgs args) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < args.pieces; i += blockDim.x) sum += args.partial[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  const double unscale = 1.0 / (static_cast<double>(*args.loss_scale) * args.accumulate);
  const double length = sqrt(sum) * unscale;
  const bool clipped = args.clip_norm > 0 && length > args.clip_norm;
  const auto multiplier = static_cast<float>(unscale * (clipped ? args.clip_norm / length : 1.0));
  const auto norm = static_cast<float>(length);
  const bool finite = isfinite(norm) && isfinite(multiplier);
  *args.norm = norm;
  *args.multiplier = finite ? multiplier : 0.0f;
  *args.skip = finite ? 0.0f : 1.0f;
}

__global__ void count(int64_t* step, const float* skip) {
  if (*skip == 0.0f) ++*step;
}

__global__ void update_scale(LossScaleArgs args) {
  if (*args.skip != 0.0f) {
    const float lower = *args.scale * args.backoff;
    *args.scale = lower > args.minimum ? lower : args.minimum;
    *args.good = 0;
  } else if (++*args.good >= args.interval) {
    const float higher = *args.scale * args.growth;
    *args.scale = higher < args.maximum ? higher : args.maximum;
    *args.good = 0;
  }
}

// Roles: value, gradient, momentum.
__global__ void sgd_parts(RunList list, Control control, SgdConstants c) {
  if (*control.skip != 0.0f) return;
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  float *p = run.at[0], *m = run.at[2];
  const float* g = run.at[1];
  const float rate = *control.rate * c.lr_scale, multiplier = *control.multiplier;
  for_elements(part, [&](int64_t i) {
    const float gradient = fmaf(c.weight_decay, p[i], g[i] * multiplier);
    if (!c.has_moment) {
      p[i] = fmaf(-rate, gradient, p[i]);
      return;
    }
    const float scaled = c.sutskever ? -rate * gradient : gradient;
    const float moved = fmaf(c.momentum, m[i], scaled);
    const float direction = c.nesterov ? fmaf(c.momentum, moved, scaled) : moved;
    m[i] = moved;
    p[i] = c.sutskever ? p[i] + direction : fmaf(-rate, direction, p[i]);
  });
}

// What all elements of a step share, computed by one thread of each block.
struct AdamStep {
  float keep;           // p is multiplied by it first
  float rate;           // bias correction of the numerator folded in
  float inverse_root;   // factor of sqrt(v)
  float inverse_bias1;  // LAMB keeps it apart
};
__device__ AdamStep adam_step(const Control& control, const AdamConstants& c) {
  const double t = static_cast<double>(*control.step);
  const double lr = static_cast<double>(*control.rate) * static_cast<double>(c.lr_scale);
  const double c1 = c.corrected ? 1.0 - pow(c.beta1, t) : 1.0;
  const double c2 = c.corrected ? sqrt(1.0 - pow(c.beta2, t)) : 1.0;
  return {c.decoupled ? static_cast<float>(1.0 - lr * static_cast<double>(c.weight_decay)) : 1.0f,
          static_cast<float>(c.hat ? lr * c2 / c1 : lr / c1),
          c.hat ? 1.0f : static_cast<float>(1.0 / c2), static_cast<float>(1.0 / c1)};
}

// The step, in every thread.
__device__ AdamStep shared_step(const Control& control, const AdamConstants& c, AdamStep* shared) {
  if (threadIdx.x == 0) *shared = adam_step(control, c);
  __syncthreads();
  return *shared;
}

// Moves both moments of element i.
struct Moments {
  float m, v;
};
__device__ Moments move_moments(const Run& run, const AdamConstants& c, int64_t i, float gradient) {
  float &m = run.at[2][i], &v = run.at[3][i];
  m = fmaf(static_cast<float>(c.beta1), m, c.one_minus_beta1 * gradient);
  v = fmaf(static_cast<float>(c.beta2), v, c.one_minus_beta2 * gradient * gradient);
  return {m, v};
}

// Roles: value, gradient, both moments.
__global__ void adam_parts(RunList list, Control control, AdamConstants c) {
  __shared__ AdamStep shared[1];
  if (*control.skip != 0.0f) return;  // all threads or none
  const AdamStep step = shared_step(control, c, shared);
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  const float multiplier = *control.multiplier, decay = c.decoupled ? 0.0f : c.weight_decay;
  for_elements(part, [&](int64_t i) {
    float& p = run.at[0][i];
    const Moments moved = move_moments(run, c, i, fmaf(decay, p, run.at[1][i] * multiplier));
    const float denominator = fmaf(sqrtf(moved.v), step.inverse_root, c.epsilon);
    p = fmaf(-step.rate, moved.m / denominator, p * step.keep);
  });
}

__device__ float lamb_direction(const AdamStep& step, const AdamConstants& c, float p,
                                const Moments& moved) {
  const float denominator = fmaf(sqrtf(moved.v), step.inverse_root, c.epsilon);
  return fmaf(c.weight_decay, p, moved.m * step.inverse_bias1 / denominator);
}

// squares[piece] = {sum of p^2, sum of u^2}
__global__ void lamb_moments_parts(RunList list, Control control, AdamConstants c,
                                   double* squares) {
  __shared__ AdamStep shared_once[1];
  __shared__ double shared[kThreads];
  if (*control.skip != 0.0f) return;
  const AdamStep step = shared_step(control, c, shared_once);
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  const float multiplier = *control.multiplier;
  double pp = 0, uu = 0;
  for_elements(part, [&](int64_t i) {
    const float value = run.at[0][i];
    const Moments moved = move_moments(run, c, i, run.at[1][i] * multiplier);
    const double u = static_cast<double>(lamb_direction(step, c, value, moved));
    const double p = static_cast<double>(value);
    pp += p * p;
    uu += u * u;
  });
  pp = block_sum(pp, shared);
  uu = block_sum(uu, shared);
  if (threadIdx.x != 0) return;
  const int64_t piece = list.first_piece + static_cast<int64_t>(blockIdx.x);
  squares[2 * piece] = pp;
  squares[2 * piece + 1] = uu;
}

// One block per variable.
__global__ void lamb_rates_of_variables(RunList list, Control control, AdamConstants c,
                                        bool use_trust_ratio, const double* squares,
                                        double* rates) {
  __shared__ double shared[kThreads];
  if (*control.skip != 0.0f) return;
  const Run& run = list.runs[blockIdx.x];
  const int64_t first = list.first_piece + static_cast<int64_t>(run.first_block);
  const int64_t pieces = (run.length + kRunElems - 1) / kRunElems;
  double pp = 0, uu = 0;
  for (int64_t i = threadIdx.x; i < pieces; i += blockDim.x) {
    pp += squares[2 * (first + i)];
    uu += squares[2 * (first + i) + 1];
  }
  pp = block_sum(pp, shared);
  uu = block_sum(uu, shared);
  if (threadIdx.x != 0) return;
  const bool trusted = use_trust_ratio && pp > 0 && uu > 0;
  const double lr = static_cast<double>(*control.rate) * static_cast<double>(c.lr_scale);
  rates[run.variable] = (trusted ? sqrt(pp / uu) : 1.0) * lr;
}

// rates [variables]; u is computed again from the moments that lamb_moments left.
__global__ void lamb_apply_parts(RunList list, Control control, AdamConstants c,
                                 const double* rates) {
  __shared__ AdamStep shared[1];
  if (*control.skip != 0.0f) return;
  const AdamStep step = shared_step(control, c, shared);
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  const float rate = static_cast<float>(rates[run.variable]);
  for_elements(part, [&](int64_t i) {
    float& p = run.at[0][i];
    p = fmaf(-rate, lamb_direction(step, c, p, {run.at[2][i], run.at[3][i]}), p);
  });
}

// Roles: average, value.
__global__ void ema_parts(RunList list, const float* skip, const int64_t* step, double most) {
  if (*skip != 0.0f) return;
  double decay = most;
  if (step != nullptr) {
    const double t = static_cast<double>(*step);
    const double early = (1.0 + t) / (10.0 + t);
    decay = early < most ? early : most;
  }
  const auto keep = static_cast<float>(decay), rest = static_cast<float>(1.0 - decay);
  const Part part = part_of_block(list);
  const Run& run = list.runs[part.run];
  for_elements(part,
               [&](int64_t i) { run.at[0][i] = fmaf(keep, run.at[0][i], rest * run.at[1][i]); });
}

template <class... P, class... A>
void launch_parts(Stream stream, const RunList& list, void (*kernel)(RunList, P...),
                  A... arguments) {
  if (list.blocks > 0)
    launch(stream, static_cast<unsigned>(list.blocks), kThreads, kernel, list, arguments...);
}

}  // namespace

void add_to(Stream stream, float* y, const float* x, int64_t n) {
  if (n > 0) launch(stream, blocks_for(n), kThreads, accumulate, y, x, n);
}

void sum_squares(Stream stream, const RunList& list, double* partial) {
  launch_parts(stream, list, squares_of_parts, partial);
}

void decay(Stream stream, const RunList& list, const DecayArgs& args) {
  launch_parts(stream, list, decay_parts, args);
}

void clip(Stream stream, const RunList& list, const ClipArgs& args) {
  if (list.count == 0) return;
  launch(stream, static_cast<unsigned>(list.count), kThreads, clip_factors, list, args);
  launch_parts(stream, list, scale_parts, static_cast<const double*>(args.factors));
}

void gradient_norm(Stream stream, const GradientNormArgs& args) {
  launch(stream, 1, kThreads, finish_norm, args);
}

void count_step(Stream stream, int64_t* step, const float* skip) {
  launch(stream, 1, 1, count, step, skip);
}

void loss_scale_update(Stream stream, const LossScaleArgs& args) {
  launch(stream, 1, 1, update_scale, args);
}

void sgd(Stream stream, const RunList& list, const Control& control,
         const SgdConstants& constants) {
  launch_parts(stream, list, sgd_parts, control, constants);
}

void adam(Stream stream, const RunList& list, const Control& control,
          const AdamConstants& constants) {
  launch_parts(stream, list, adam_parts, control, constants);
}

void lamb_moments(Stream stream, const RunList& list, const Control& control,
                  const AdamConstants& constants, double* squares) {
  launch_parts(stream, list, lamb_moments_parts, control, constants, squares);
}

void lamb_rates(Stream stream, const RunList& list, const Control& control,
                const AdamConstants& constants, bool use_trust_ratio, const double* squares,
                double* rates) {
  if (list.count == 0) return;
  launch(stream, static_cast<unsigned>(list.count), kThreads, lamb_rates_of_variables, list,
         control, constants, use_trust_ratio, squares, rates);
}

void lamb_apply(Stream stream, const RunList& list, const Control& control,
                const AdamConstants& constants, const double* rates) {
  launch_parts(stream, list, lamb_apply_parts, control, constants, rates);
}

void ema(Stream stream, const RunList& list, const float* skip, const int64_t* step, double decay) {
  launch_parts(stream, list, ema_parts, skip, step, decay);
}

}  // namespace assay::cuda::kernels
