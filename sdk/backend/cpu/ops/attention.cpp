// Attention and its gradient: every head of every sequence alone, so results do not depend on
// threads. A thread has work space of its own and takes heads in turn: all threads get as much of a
// long sequence.
#include <cstring>

#include "sdk/backend/cpu/ops/dropout.h"
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// The tokens that sequences own (sdk/graph/ops.h): of b those from `begin` to `end`; nobody owns
// those in between, nor those after the last.
struct Bounds {
  int64_t begin, end;
};
void find_bounds(const int32_t* start, const int32_t* length, int64_t sequences, int64_t longest,
                 int64_t tokens, Bounds* bounds) {
  int64_t owned = 0;
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t first = start[b], count = std::clamp<int64_t>(length[b], 0, longest);
    const int64_t begin = std::clamp(first, owned, tokens);
    const int64_t end = std::clamp(first + count, begin, tokens);
    bounds[b] = {begin, end};
    owned = end;
  }
  bounds[sequences] = {tokens, tokens};
}

template <class Op>
AttentionShape shape_of(const Op& p, const Planner& c) {
  const Dims& qkv = c.x(0).dims;
  return {.tokens = qkv[0],
          .heads = p.heads,
          .size = qkv[1] / 3 / p.heads,
          .longest = p.longest,
          .scale = p.scale,
          .dropout = nullptr};
}

// The kernels for data of a type, and what a plan is called that uses them.
struct Chosen {
  const AttentionKernels& kernels;
  NodePlan plan;
};
Chosen choose(const ValueType& data) {
  const AttentionKernels* const tiles = data.dtype == DType::kBf16 ? tile_attention() : nullptr;
  if (tiles == nullptr) return {*kernels().attention, own_plan("attention")};
  NodePlan plan;
  plan.kernel = "own:attention:amx";
  return {*tiles, plan};
}

// A plan for all heads of all sequences.
struct Heads {
  AttentionShape shape;
  int64_t sequences;
  int threads;
  int64_t work_floats;  // of a thread
  bool drops = false;
  DropoutRange dropout{};

  template <class Op>
  Heads(const Op& p, const Planner& c, int64_t work)
      : shape(shape_of(p, c)),
        sequences(c.x(1).numel()),
        threads(c.threads()),
        work_floats(round_up(work, 16)),
        drops(p.rate > 0) {
    if (drops) dropout = dropout_range(p);
  }
  size_t scratch_bytes() const {
    return static_cast<size_t>(threads * work_floats) * sizeof(float) +
           static_cast<size_t>(sequences + 1) * sizeof(Bounds);
  }

  // What changes from step to step, and the memory of the launches.
  struct Addresses {
    const int32_t *start, *length;
    const int64_t* step;  // null: nothing is dropped
    void* scratch;
  };
  Addresses addresses(const Binding& b, int step_input) const {
    return {b.x<int32_t>(1), b.x<int32_t>(2), drops ? b.x<int64_t>(step_input) : nullptr,
            b.scratch};
  }

  // run(shape, head, begin, end, work) of tokens that a sequence owns, clear(head, begin, end) of
  // those in between.
  template <class Run, class Clear>
  void for_all(const Addresses& at, const Run& run, const Clear& clear) const {
    auto* work = static_cast<float*>(at.scratch);
    auto* bounds = reinterpret_cast<Bounds*>(work + threads * work_floats);
    find_bounds(at.start, at.length, sequences, shape.longest, shape.tokens, bounds);
    DropoutRange range = dropout;
    AttentionShape now = shape;
    if (drops) {
      range.step = static_cast<uint64_t>(*at.step);
      now.dropout = &range;
    }
    parallel_for(threads, threads, [&](int64_t thread) {
      for (int64_t i = thread; i < (sequences + 1) * shape.heads; i += threads) {
        const int64_t sequence = i / shape.heads, head = i % shape.heads;
        const auto [begin, end] = bounds[sequence];
        clear(head, sequence == 0 ? 0 : bounds[sequence - 1].end, begin);
        if (begin < end) run(now, head, begin, end, work + thread * work_floats);
      }
    });
  }
};

// Zeros in the columns of one head: x [tokens, parts, heads, size], elements of `bytes`.
void clear_tokens(void* x, size_t bytes, const AttentionShape& s, int64_t parts, int64_t head,
                  int64_t begin, int64_t end) {
  for (int64_t row = begin * parts; row < end * parts; ++row)
    std::memset(at(x, (row * s.heads + head) * s.size, bytes), 0,
                static_cast<size_t>(s.size) * bytes);
}

}  // namespace

// qkv [T,3,heads,D], start, length [B], context [T,heads,D], logsumexp [T,heads], step [].
NodePlan plan(const Attention& p, const Planner& c) {
  auto [k, plan] = choose(c.x(0));
  const Heads heads(p, c, k.forward_work(shape_of(p, c).size, p.longest));
  plan.scratch_bytes = heads.scratch_bytes();
  plan.bind = [heads, kernel = k.forward[element_of(c.x(0))],
               bytes = dtype_size(c.x(0).dtype)](const Binding& b) -> Launch {
    const AttentionArgs args{heads.shape, b.x<void>(0), b.y<void>(0), b.y<float>(1)};
    return [=, addresses = heads.addresses(b, 3)](Queue&) {
      const auto run = [&](const AttentionShape& now, int64_t head, int64_t begin, int64_t end,
                           float* work) {
        AttentionArgs mine = args;
        mine.shape = now;
        kernel(mine, head, begin, end, work);
      };
      heads.for_all(addresses, run, [&](int64_t head, int64_t begin, int64_t end) {
        clear_tokens(args.context, bytes, args.shape, 1, head, begin, end);
        for (int64_t token = begin; token < end; ++token)
          args.logsumexp[token * args.shape.heads + head] = 0;
      });
    };
  };
  return plan;
}

// qkv, dqkv [T,3,heads,D], start, length [B], context, dcontext [T,heads,D], logsumexp [T,heads],
// step [].
NodePlan plan(const AttentionGrad& p, const Planner& c) {
  auto [k, plan] = choose(c.x(0));
  const Heads heads(p, c, k.backward_work(shape_of(p, c).size, p.longest));
  plan.scratch_bytes = heads.scratch_bytes();
  plan.in_place = {{0, 0}};
  plan.bind = [heads, kernel = k.backward[element_of(c.x(0))],
               bytes = dtype_size(c.x(0).dtype)](const Binding& b) -> Launch {
    const AttentionGradArgs args{heads.shape,  b.x<void>(0),  b.x<void>(3),
                                 b.x<void>(5), b.x<float>(4), b.y<void>(0)};
    return [=, addresses = heads.addresses(b, 6)](Queue&) {
      const auto run = [&](const AttentionShape& now, int64_t head, int64_t begin, int64_t end,
                           float* work) {
        AttentionGradArgs mine = args;
        mine.shape = now;
        kernel(mine, head, begin, end, work);
      };
      heads.for_all(addresses, run, [&](int64_t head, int64_t begin, int64_t end) {
        clear_tokens(args.dqkv, bytes, args.shape, 3, head, begin, end);
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
