// Winograd's convolutions: how tiles are shared out, what stands in scratch, and where it pays.
// kernels/winograd.cpp has the arithmetic and the layout of planes and filters.
#include "sdk/backend/cpu/ops/winograd.h"

#include "sdk/backend/cpu/onednn.h"
#include "sdk/backend/cpu/ops/channel_sums.h"

namespace assay::cpu {
namespace {

using Kernel = const WinogradKernels&;

constexpr int64_t kPoints = 36;
constexpr int64_t kTilesAtOnce = 4;  // evaluated by one thread at a time

// Of filters [K,R,S,C].
Kernel kernel_of(const Dims& w) { return *kernels().winograd[w[1] == 5 ? 1 : 0]; }

int64_t tiles_of(const Dims& result, Kernel k) {
  return result[0] * quotient_up(result[1], k.outputs) * quotient_up(result[2], k.outputs);
}
int64_t panels_of(int64_t columns) { return quotient_up(columns, kernels().winograd[0]->panel); }

// Of sums over channels: [36][rows][columns]. Rows are padded to whole panels, and to a distance
// that is no power of two, which would send them to a few sets of the cache.
struct Planes {
  int64_t rows, row, panel;
  Planes(int64_t n, int64_t columns, Kernel k)
      : rows(n), row(panels_of(columns) * k.panel + k.lanes), panel(k.panel) {}

  int64_t plane() const { return rows * row; }
  size_t elems() const { return static_cast<size_t>(kPoints * plane()); }
  WinogradPlanes at(float* data, int64_t first) const {
    return {data + first * row, plane(), row, panel};
  }
};

// Of sums over tiles: [36][panel of columns][rows][panel], which are read one panel at a time.
// Behind each plane a line is left, to the same end.
struct PanelPlanes {
  static constexpr int64_t kLine = 16;  // elements
  int64_t rows, panels, panel;
  PanelPlanes(int64_t n, int64_t columns, Kernel k)
      : rows(n), panels(panels_of(columns)), panel(k.panel) {}

  int64_t plane() const { return panels * rows * panel + kLine; }
  size_t elems() const { return static_cast<size_t>(kPoints * plane()); }
  WinogradPlanes at(float* data, int64_t first) const {
    return {data + first * panel, plane(), panel, rows * panel};
  }
  float* panel_at(float* data, int64_t point, int64_t i, int64_t first) const {
    return data + point * plane() + (i * rows + first) * panel;
  }
};

// `d` cut into the tiles of `result`.
WinogradImage image_of(const Dims& d, const Dims& result, int64_t pad_rows, int64_t pad_columns,
                       Kernel k) {
  return {.h = d[1],
          .w = d[2],
          .c = d[3],
          .tile_rows = quotient_up(result[1], k.outputs),
          .tile_columns = quotient_up(result[2], k.outputs),
          .pad = {pad_rows, pad_columns}};
}

// Tiles in `count` even blocks; results do not depend on how many.
Chunks even_blocks(int64_t tiles, int64_t count) { return {tiles, quotient_up(tiles, count)}; }

// ---- Sums over channels: y = x * w, and dx = dy * turned w --------------------------------------

// Filters of few channels stay in the L2 cache, and the planes of a block should, too; many are
// streamed from further away, once per block. Many blocks go side by side, an equal number on each
// thread; few tiles are worked on by all threads at once.
constexpr int64_t kFewTiles = 192;
Chunks sum_blocks(int64_t tiles, int64_t channels, int threads) {
  constexpr int64_t kFewChannels = 128, kSmallBlock = 24, kLargeBlock = 96;
  const int64_t most = channels <= kFewChannels ? kSmallBlock : kLargeBlock;
  if (tiles <= kFewTiles) return even_blocks(tiles, 1);
  return even_blocks(tiles, round_up(quotient_up(tiles, most), threads));
}

struct Sum {
  const WinogradKernels* kernel;
  WinogradImage in, out;
  Chunks blocks;
  Planes v, m;  // of a block, before and after the products
  int in_type, out_type;
  bool relu = false;
  int threads;

  Sum(Kernel k, const ValueType& x, const ValueType& y, int64_t pad_rows, int64_t pad_columns,
      int n)
      : kernel(&k),
        in(image_of(x.dims, y.dims, pad_rows, pad_columns, k)),
        out(image_of(y.dims, y.dims, 0, 0, k)),
        blocks(sum_blocks(tiles_of(y.dims, k), std::max(in.c, out.c), n)),
        v(blocks.size, in.c, k),
        m(blocks.size, out.c, k),
        in_type(element_of(x)),
        out_type(element_of(y)),
        threads(n) {}

  bool side_by_side() const { return blocks.count() > 1; }
  int64_t copies() const { return side_by_side() ? threads : 1; }
};

// x [N,H,W,C], w [K,R,R,C], bias [K], residual and y [N,P,Q,K]; of a gradient dy, w and dx.
struct SumPointers {
  const void *x = nullptr, *w = nullptr, *residual = nullptr;
  const float* bias = nullptr;
  void* y = nullptr;
};

struct SumScratch {
  float *v, *m, *u;
  size_t bytes;
};
SumScratch sum_scratch(const Sum& s, size_t filter_elems, void* base) {
  ScratchLayout scratch(base);
  SumScratch r{};
  r.v = scratch.take<float>(static_cast<size_t>(s.copies()) * s.v.elems());
  r.m = scratch.take<float>(static_cast<size_t>(s.copies()) * s.m.elems());
  r.u = scratch.take<float>(filter_elems);
  r.bytes = scratch.bytes();
  return r;
}

// Tiles of one block: v [36][tiles][C] times u [36][C][K], in panels, is m [36][tiles][K].
void run_block(const Sum& s, const SumPointers& p, const float* u, float* v, float* m,
               int64_t block, int threads) {
  const int64_t first = s.blocks.begin(block), count = s.blocks.length(block);
  const Chunks tiles{count, kTilesAtOnce};
  parallel_for(threads, tiles.count(), [&](int64_t i) {
    s.kernel->image[s.in_type](s.in, p.x, s.v.at(v, tiles.begin(i)), first + tiles.begin(i),
                               first + tiles.end(i));
  });
  const int64_t panel = s.kernel->panel, panels = panels_of(s.out.c);
  parallel_for(threads, kPoints * panels, [&](int64_t i) {
    s.kernel->product(v + i / panels * s.v.plane(), s.v.row, count, u + i * panel * s.in.c, s.in.c,
                      m + i / panels * s.m.plane() + i % panels * panel, s.m.row);
  });
  const WinogradEpilogue epilogue{p.bias, p.residual, s.relu};
  parallel_for(threads, tiles.count(), [&](int64_t i) {
    s.kernel->result[s.out_type](s.out, s.m.at(m, tiles.begin(i)), epilogue, p.y,
                                 first + tiles.begin(i), first + tiles.end(i));
  });
}

void run_sum(const Sum& s, const SumPointers& p, const float* u, const SumScratch& scratch) {
  const int64_t count = s.blocks.count();
  if (!s.side_by_side()) return run_block(s, p, u, scratch.v, scratch.m, 0, s.threads);
  parallel_for(s.threads, s.threads, [&](int64_t worker) {
    float* v = scratch.v + worker * static_cast<int64_t>(s.v.elems());
    float* m = scratch.m + worker * static_cast<int64_t>(s.m.elems());
    for (int64_t i = worker * count / s.threads; i < (worker + 1) * count / s.threads; ++i)
      run_block(s, p, u, v, m, i, 1);
  });
}

// Evaluates filters w [k][taps][taps][c] in panels of `columns`, which are k or, turned, c.
struct FilterTransform {
  const WinogradKernels* kernel;
  int type;
  bool turned;
  int64_t k, c;
  int threads;

  int64_t columns() const { return turned ? c : k; }
  std::string form() const {
    return cat("winograd ", kernel->taps, kernel->outputs, turned ? " turned" : "");
  }

  size_t elems() const {
    return static_cast<size_t>(kPoints * panels_of(columns()) * kernel->panel * (turned ? k : c));
  }
  void operator()(const void* w, float* u) const {
    const auto run = turned ? kernel->filters_turned[type] : kernel->filters[type];
    parallel_for(threads, panels_of(columns()), [&](int64_t i) { run(w, k, c, u, i, i + 1); });
  }
};

// "winograd_4x4": the size of a tile.
NodePlan named_plan(Kernel k) { return own_plan(cat("winograd_", k.outputs, "x", k.outputs)); }

using Bind = std::function<SumPointers(const Binding&)>;

// `pointers` gives the addresses of a binding. Constant filters are transformed once.
NodePlan plan_sum(const Sum& s, const FilterTransform& filters, const Bind& pointers) {
  NodePlan plan = named_plan(*s.kernel);
  plan.scratch_bytes = sum_scratch(s, filters.elems(), nullptr).bytes;
  plan.prepare.input = 1;
  plan.prepare.bytes = filters.elems() * sizeof(float);
  plan.prepare.scratch_bytes = sum_scratch(s, 0, nullptr).bytes;
  plan.prepare.form = filters.form();
  plan.prepare.bind = [=](const Binding& b) -> Launch {
    return [=, w = b.x<void>(1), u = static_cast<float*>(b.prepared)](Queue&) { filters(w, u); };
  };
  plan.bind = [=](const Binding& b) -> Launch {
    const size_t unprepared = b.prepared == nullptr ? filters.elems() : 0;
    const SumScratch scratch = sum_scratch(s, unprepared, b.scratch);
    return [=, p = pointers(b), ready = static_cast<const float*>(b.prepared)](Queue&) {
      if (ready == nullptr) filters(p.w, scratch.u);
      run_sum(s, p, ready == nullptr ? scratch.u : ready, scratch);
    };
  };
  return plan;
}

// ---- Sums over tiles: dw from x and dy ----------------------------------------------------------

struct FilterGradient {
  const WinogradKernels* kernel;
  WinogradImage x, dy;
  Chunks blocks;
  PanelPlanes v, d;  // of a block: x, dy
  PanelPlanes du;    // rows are filters, columns channels
  int x_type, dw_type;
  int threads;
};

// As many tiles as planes of 8 MB hold: more stay in no cache, fewer make threads wait more often.
Chunks gradient_blocks(int64_t tiles, int64_t channels) {
  constexpr int64_t kBytes = int64_t{8} << 20, kLeast = 64;
  const int64_t fitting = kBytes / (kPoints * channels * static_cast<int64_t>(sizeof(float)));
  return even_blocks(tiles, quotient_up(tiles, std::max(kLeast, fitting)));
}

struct GradientScratch {
  float *v, *d, *du;
  size_t bytes;
};
GradientScratch gradient_scratch(const FilterGradient& g, void* base) {
  ScratchLayout scratch(base);
  GradientScratch s{};
  s.v = scratch.take<float>(g.v.elems());
  s.d = scratch.take<float>(g.d.elems());
  s.du = scratch.take<float>(g.du.elems());
  s.bytes = scratch.bytes();
  return s;
}

// So many tiles of a panel of x and one of dy stay in the first-level cache.
constexpr int64_t kTilesOfPanels = 192;

// Adds the products of one block to du.
void add_block(const FilterGradient& g, const void* x, const void* dy, const GradientScratch& s,
               int64_t block) {
  const int64_t first = g.blocks.begin(block), count = g.blocks.length(block);
  const Chunks tiles{count, kTilesAtOnce};
  parallel_for(g.threads, tiles.count(), [&](int64_t i) {
    const int64_t begin = first + tiles.begin(i), end = first + tiles.end(i);
    g.kernel->image[g.x_type](g.x, x, g.v.at(s.v, tiles.begin(i)), begin, end);
    g.kernel->result_gradient[g.x_type](g.dy, dy, g.d.at(s.d, tiles.begin(i)), begin, end);
  });
  const Chunks steps = even_blocks(count, quotient_up(count, kTilesOfPanels));
  parallel_for(g.threads, kPoints * g.v.panels, [&](int64_t i) {
    const int64_t point = i / g.v.panels, column = i % g.v.panels;
    for (int64_t step = 0; step < steps.count(); ++step) {
      const int64_t begin = steps.begin(step);
      for (int64_t row = 0; row < g.d.panels; ++row) {
        const int64_t filter = row * g.d.panel;
        g.kernel->outer_product(
            g.d.panel_at(s.d, point, row, begin), g.d.panel, std::min(g.d.panel, g.dy.c - filter),
            g.v.panel_at(s.v, point, column, begin), g.v.panel, steps.length(step),
            block > 0 || step > 0, g.du.panel_at(s.du, point, column, filter), g.du.panel);
      }
    }
  });
}

void run_gradient(const FilterGradient& g, const void* x, const void* dy, void* dw,
                  const GradientScratch& s) {
  for (int64_t i = 0; i < g.blocks.count(); ++i) add_block(g, x, dy, s, i);
  const Chunks filters{g.dy.c, 4};
  parallel_for(g.threads, filters.count(), [&](int64_t i) {
    g.kernel->filter_gradient[g.dw_type](g.du.at(s.du, 0), dw, g.x.c, filters.begin(i),
                                         filters.end(i));
  });
}

// ---- Where it pays ------------------------------------------------------------------------------

bool is_possible(const ConvGeometry& g, const Dims& w, DType dtype) {
  constexpr std::array<int64_t, 2> kOne{1, 1};
  const int64_t lanes = kernel_of(w).lanes;
  const bool is_3x3 = w[1] == 3 && w[2] == 3;
  const bool is_5x5 = w[1] == 5 && w[2] == 5 && dtype == DType::kF32;
  return g.groups == 1 && g.stride == kOne && g.dilation == kOne && (is_3x3 || is_5x5) &&
         w[0] % lanes == 0 && w[3] % lanes == 0 &&
         std::max(g.pad_begin[0], g.pad_begin[1]) < w[1] && !has_tiles(dtype);
}

// decisions/0005 has the measurements. `from_memory`: tiles that make up for reading transformed
// filters, four times larger than the filters, where they do not fit into caches.
bool pays(const Dims& w, const Dims& result, int64_t from_memory) {
  constexpr int64_t kLeastLanes = 8, kLeastChannels = 32, kLeastTiles = 16;
  constexpr int64_t kCachedFilters = 65536;
  const bool fits_cache = w[0] * w[3] <= kCachedFilters;
  return kernel_of(w).lanes >= kLeastLanes && std::min(w[0], w[3]) >= kLeastChannels &&
         tiles_of(result, kernel_of(w)) >= (fits_cache ? kLeastTiles : from_memory);
}

// oneDNN's bf16 kernels, where it has any, are twice as fast as its f32 ones; these are not.
int64_t least_tiles_of_sum(DType dtype) {
  return dtype == DType::kBf16 && !has_avx2_alone() ? 96 : 32;
}
constexpr int64_t kLeastTilesOfGradient = 32;

}  // namespace

bool prefers_winograd(const Conv2d& p, const Planner& c) {
  const bool simple =
      p.activation == ActivationKind::kNone || p.activation == ActivationKind::kRelu;
  return simple && is_possible(p.geometry, c.x(1).dims, c.x(0).dtype) &&
         pays(c.x(1).dims, c.y().dims, least_tiles_of_sum(c.x(0).dtype));
}

bool prefers_winograd(const Conv2dGradData& p, const Planner& c) {
  return is_possible(p.geometry, c.x(1).dims, c.x(0).dtype) &&
         pays(c.x(1).dims, p.x_dims, least_tiles_of_sum(c.x(0).dtype));
}

bool prefers_winograd(const Conv2dGradWeight& p, const Planner& c) {
  return p.w_dims[1] == 3 && is_possible(p.geometry, p.w_dims, c.x(0).dtype) &&
         pays(p.w_dims, c.x(1).dims, kLeastTilesOfGradient);
}

NodePlan plan_winograd(const Conv2d& p, const Planner& c) {
  const Dims& w = c.x(1).dims;
  Kernel k = kernel_of(w);
  Sum sum(k, c.x(0), c.y(), p.geometry.pad_begin[0], p.geometry.pad_begin[1], c.threads());
  sum.relu = p.activation == ActivationKind::kRelu;
  const FilterTransform filters{&k, element_of(c.x(1)), false, w[0], w[3], c.threads()};
  const int residual = p.residual_input();
  NodePlan plan = plan_sum(sum, filters, [=](const Binding& b) {
    return SumPointers{.x = b.x<void>(0),
                       .w = b.x<void>(1),
                       .residual = p.has_residual ? b.x<void>(residual) : nullptr,
                       .bias = p.has_bias ? b.x<float>(2) : nullptr,
                       .y = b.y<void>()};
  });
  if (p.has_residual) plan.in_place = {{0, residual}};
  return plan;
}

// The gradient is the convolution of dy with the window turned round, whose padding is the rest of
// its reach, taps - 1 - pad.
NodePlan plan_winograd(const Conv2dGradData& p, const Planner& c) {
  const Dims& w = c.x(1).dims;
  Kernel k = kernel_of(w);
  const auto& pad = p.geometry.pad_begin;
  const Sum sum(k, c.x(0), {c.y().dtype, p.x_dims}, k.taps - 1 - pad[0], k.taps - 1 - pad[1],
                c.threads());
  const FilterTransform filters{&k, element_of(c.x(1)), true, w[0], w[3], c.threads()};
  return plan_sum(sum, filters, [](const Binding& b) {
    return SumPointers{.x = b.x<void>(0), .w = b.x<void>(1), .y = b.y<void>()};
  });
}

NodePlan plan_winograd(const Conv2dGradWeight& p, const Planner& c) {
  const Dims &x = c.x(0).dims, &dy = c.x(1).dims;
  Kernel k = kernel_of(p.w_dims);
  const Chunks blocks = gradient_blocks(tiles_of(dy, k), x[3] + dy[3]);
  const auto& pad = p.geometry.pad_begin;
  const FilterGradient g{.kernel = &k,
                         .x = image_of(x, dy, pad[0], pad[1], k),
                         .dy = image_of(dy, dy, 0, 0, k),
                         .blocks = blocks,
                         .v = {blocks.size, x[3], k},
                         .d = {blocks.size, dy[3], k},
                         .du = {dy[3], x[3], k},
                         .x_type = element_of(c.x(0)),
                         .dw_type = element_of(c.y()),
                         .threads = c.threads()};
  NodePlan plan = named_plan(k);
  plan.scratch_bytes = gradient_scratch(g, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), dy = b.x<void>(1), dw = b.y<void>(),
            s = gradient_scratch(g, b.scratch)](Queue&) { run_gradient(g, x, dy, dw, s); };
  };
  return p.has_bias ? with_bias_gradient(std::move(plan), c) : plan;
}

}  // namespace assay::cpu
