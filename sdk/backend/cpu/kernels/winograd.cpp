// Winograd's convolution with 3x3 windows in tiles of 4x4 outputs, or 5x5 windows in tiles of 2x2:
// 36 products where direct sums need 144, or 100. Source: Lavin and Gray, arXiv:1509.09308.
//
// A 6x6 piece d of the image, a filter g and the result y are polynomials; each is
// evaluated at six points along both axes, where convolution is a product per point:
//   y = A^T [ (G g G^T) * (B^T d B) ] A,   and for the filter's gradient
//   dg = G^T [ (B^T d B) * (A dy A^T) ] G, summed over tiles.
// The sums over channels or tiles between the transforms are 36 matrix products ("planes").
//
// The points are 0, +-sqrt(1/2), +-sqrt(2) and infinity, the best of a search for 3x3
// (decisions/0005): the standard error is at most twice that of adding up the direct products one
// by one, of 5x5 1.4 times. The usual 0, +-1, +-2 lose twice as much again, and five times as much
// at worst. On the choice of points: Barabasz et al., arXiv:1803.10986.
//
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/products.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int kPoints = 6;

// The positive points and their powers; a * b = 1.
constexpr float kA = 0.70710678f, kA2 = 0.5f, kA3 = 0.35355339f, kA4 = 0.25f;
constexpr float kB = 1.41421356f, kB2 = 2.0f, kB3 = 2.82842712f, kB4 = 4.0f;
// 1 / product of a point's distances to the others.
constexpr float kNa = -2.0f / 3.0f, kNb = 1.0f / 6.0f;

// ---- One axis -----------------------------------------------------------------------------------

struct MapImage {  // B^T
  static constexpr int kIn = kPoints, kOut = kPoints;
  static void apply(const Vec* x, Vec* y) {
    y[0] = x[0] - 2.5f * x[2] + x[4];
    const Vec even_a = x[4] - kB2 * x[2], odd_a = kA * (x[3] - kB2 * x[1]);
    y[1] = even_a + odd_a;
    y[2] = even_a - odd_a;
    const Vec even_b = x[4] - kA2 * x[2], odd_b = kB * (x[3] - kA2 * x[1]);
    y[3] = even_b + odd_b;
    y[4] = even_b - odd_b;
    y[5] = x[1] - 2.5f * x[3] + x[5];
  }
};

// Polynomials of kTaps coefficients, three or five, at the points but for infinity.
template <int kTaps>
struct MapFilter {  // G
  static constexpr int kIn = kTaps, kOut = kPoints;
  static void apply(const Vec* g, Vec* u) {
    Vec even_a = g[0] + kA2 * g[2], odd_a = (kNa * kA) * g[1];
    Vec even_b = g[0] + kB2 * g[2], odd_b = (kNb * kB) * g[1];
    if constexpr (kTaps == 5) {
      even_a += kA4 * g[4], odd_a += (kNa * kA3) * g[3];
      even_b += kB4 * g[4], odd_b += (kNb * kB3) * g[3];
    }
    u[0] = g[0];
    u[1] = kNa * even_a + odd_a;
    u[2] = kNa * even_a - odd_a;
    u[3] = kNb * even_b + odd_b;
    u[4] = kNb * even_b - odd_b;
    u[5] = g[kTaps - 1];
  }
};

struct MapFilterGradient {  // G^T, of three taps
  static constexpr int kIn = kPoints, kOut = 3;
  static void apply(const Vec* u, Vec* g) {
    const Vec even_a = kNa * (u[1] + u[2]), even_b = kNb * (u[3] + u[4]);
    g[0] = u[0] + even_a + even_b;
    g[1] = (kNa * kA) * (u[1] - u[2]) + (kNb * kB) * (u[3] - u[4]);
    g[2] = kA2 * even_a + kB2 * even_b + u[5];
  }
};

template <int kOutputs>
struct MapResult {  // A^T
  static constexpr int kIn = kPoints, kOut = kOutputs;
  static void apply(const Vec* m, Vec* y) {
    const Vec even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const Vec even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = kA * odd_a + kB * odd_b;
    if constexpr (kOutputs == 4) {
      y[2] = kA2 * even_a + kB2 * even_b;
      y[3] = kA3 * odd_a + kB3 * odd_b;
    }
    y[kOutputs - 1] += m[5];
  }
};

struct MapResultGradient {  // A, of four outputs
  static constexpr int kIn = 4, kOut = kPoints;
  static void apply(const Vec* y, Vec* m) {
    m[0] = y[0];
    const Vec even_a = y[0] + kA2 * y[2], odd_a = kA * y[1] + kA3 * y[3];
    m[1] = even_a + odd_a;
    m[2] = even_a - odd_a;
    const Vec even_b = y[0] + kB2 * y[2], odd_b = kB * y[1] + kB3 * y[3];
    m[3] = even_b + odd_b;
    m[4] = even_b - odd_b;
    m[5] = y[3];
  }
};

// ---- Both axes ----------------------------------------------------------------------------------

// Takes element (r, s) from read(r, s) and gives result (p, q) to write(p, q, value).
template <class Map, class Read, class Write>
inline void transform(const Read& read, const Write& write) {
  Vec half[Map::kIn][Map::kOut];
  for (int r = 0; r < Map::kIn; ++r) {
    Vec row[Map::kIn];
    for (int s = 0; s < Map::kIn; ++s) row[s] = read(r, s);
    Map::apply(row, half[r]);
  }
  for (int q = 0; q < Map::kOut; ++q) {
    Vec column[Map::kIn], result[Map::kOut];
    for (int r = 0; r < Map::kIn; ++r) column[r] = half[r][q];
    Map::apply(column, result);
    for (int p = 0; p < Map::kOut; ++p) write(p, q, result[p]);
  }
}

// Where a tile starts in image n; may be outside.
struct Window {
  int64_t n, row, column;
};
Window window_of(const WinogradImage& s, int64_t tile, int64_t outputs) {
  const int64_t per_image = s.tile_rows * s.tile_columns, in_image = tile % per_image;
  return {tile / per_image, in_image / s.tile_columns * outputs - s.pad[0],
          in_image % s.tile_columns * outputs - s.pad[1]};
}
bool is_inside(const WinogradImage& s, const Window& t, int64_t size) {
  return t.row >= 0 && t.column >= 0 && t.row + size <= s.h && t.column + size <= s.w;
}

int64_t place_of(const WinogradPlanes& planes, int64_t row, int64_t channel) {
  return row * planes.row_pitch + channel / kPanel * planes.panel_pitch + channel % kPanel;
}

// Evaluates tiles of an image: planes of tiles and channels.
template <class T, class Map, int kOutputs>
void evaluate(const WinogradImage& s, const void* x, const WinogradPlanes& planes, int64_t begin,
              int64_t end) {
  for (int64_t tile = begin; tile < end; ++tile) {
    const Window t = window_of(s, tile, kOutputs);
    // May point outside the image; is read inside only.
    const int64_t origin = ((t.n * s.h + t.row) * s.w + t.column) * s.c;
    const T* image = static_cast<const T*>(x);
    const bool inside = is_inside(s, t, Map::kIn);
    for (int64_t c = 0; c < s.c; c += kLanes) {
      float* const out = planes.data + place_of(planes, tile - begin, c);
      const auto write = [&](int p, int q, Vec v) {
        store_vec(out + (p * kPoints + q) * planes.plane, v);
      };
      const auto at = [&](int r, int q) {
        return load_vec(image + (origin + (r * s.w + q) * s.c + c));
      };
      if (inside) {
        transform<Map>(at, write);
      } else {
        const auto checked = [&](int r, int q) {
          const int64_t row = t.row + r, column = t.column + q;
          const bool is_pixel = row >= 0 && row < s.h && column >= 0 && column < s.w;
          return is_pixel ? at(r, q) : Vec{};
        };
        transform<Map>(checked, write);
      }
    }
  }
}

// Planes of tiles and channels to y [n][h][w][c], as far as tiles reach into the image.
template <class T, int kOutputs>
void result(const WinogradImage& s, const WinogradPlanes& planes, const WinogradEpilogue& e,
            void* y, int64_t begin, int64_t end) {
  for (int64_t tile = begin; tile < end; ++tile) {
    const Window t = window_of(s, tile, kOutputs);
    const int64_t origin = ((t.n * s.h + t.row) * s.w + t.column) * s.c;
    const int64_t rows = least(kOutputs, s.h - t.row), columns = least(kOutputs, s.w - t.column);
    for (int64_t c = 0; c < s.c; c += kLanes) {
      const Vec bias = e.bias == nullptr ? Vec{} : load_vec(e.bias + c);
      const float* const in = planes.data + place_of(planes, tile - begin, c);
      const auto read = [&](int p, int q) {
        return load_vec(in + (p * kPoints + q) * planes.plane);
      };
      const auto write = [&](int r, int q, Vec v) {
        if (r >= rows || q >= columns) return;
        const int64_t at = origin + (r * s.w + q) * s.c + c;
        v += bias;
        if (e.residual != nullptr) v += load_vec(static_cast<const T*>(e.residual) + at);
        if (e.relu) v = Vec{} > v ? Vec{} : v;
        store_vec(static_cast<T*>(y) + at, v);
      };
      transform<MapResult<kOutputs>>(read, write);
    }
  }
}

// ---- Filters ------------------------------------------------------------------------------------

// A panel of filters [kTaps][kTaps][channel][kPanel] at the points, to u[point][channel][kPanel];
// those beyond the last are zero.
template <int kTaps>
inline void evaluate_panel_row(const float* taps, int64_t stride, float* u, int64_t plane) {
  for (int64_t half = 0; half < kPanel; half += kLanes) {
    transform<MapFilter<kTaps>>(
        [&](int r, int s) { return load_vec(taps + (r * kTaps + s) * stride + half); },
        [&](int p, int q, Vec v) { store_vec(u + (p * kPoints + q) * plane + half, v); });
  }
}

// Forward: columns of the product are filters k, rows of u are their channels c. Filters lie apart,
// channels side by side, so that blocks of kLanes channels are turned on the way.
template <class T, int kTaps>
void filters(const void* weights, int64_t k_count, int64_t c_count, float* u, int64_t begin,
             int64_t end) {
  alignas(64) float taps[kLanes][kTaps * kTaps][kPanel];
  const int64_t panels = (k_count + kPanel - 1) / kPanel;
  const int64_t plane = panels * c_count * kPanel;
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t width = least(kPanel, k_count - panel * kPanel);
    for (int64_t c = 0; c < c_count; c += kLanes) {
      for (int64_t k = 0; k < kPanel; ++k) {
        const T* w =
            static_cast<const T*>(weights) + (panel * kPanel + k) * kTaps * kTaps * c_count + c;
        for (int tap = 0; tap < kTaps * kTaps; ++tap) {
          const Vec v = k < width ? load_vec(w + tap * c_count) : Vec{};
          for (int i = 0; i < kLanes; ++i) taps[i][tap][k] = v[i];
        }
      }
      for (int64_t i = 0; i < kLanes; ++i) {
        evaluate_panel_row<kTaps>(taps[i][0], kPanel, u + (panel * c_count + c + i) * kPanel,
                                  plane);
      }
    }
  }
}

// Gradient of the image: columns are channels c, rows filters k, and the window is turned round.
template <class T, int kTaps>
void filters_turned(const void* weights, int64_t k_count, int64_t c_count, float* u, int64_t begin,
                    int64_t end) {
  alignas(64) float taps[kTaps * kTaps][kPanel];
  const int64_t panels = (c_count + kPanel - 1) / kPanel;
  const int64_t plane = panels * k_count * kPanel;
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t width = least(kPanel, c_count - panel * kPanel);
    for (int64_t k = 0; k < k_count; ++k) {
      const T* w = static_cast<const T*>(weights) + k * kTaps * kTaps * c_count + panel * kPanel;
      for (int tap = 0; tap < kTaps * kTaps; ++tap) {
        for (int64_t half = 0; half < kPanel; half += kLanes) {
          const Vec v = half < width ? load_vec(w + tap * c_count + half) : Vec{};
          store_vec(taps[kTaps * kTaps - 1 - tap] + half, v);
        }
      }
      evaluate_panel_row<kTaps>(taps[0], kPanel, u + (panel * k_count + k) * kPanel, plane);
    }
  }
}

// Planes of filters and channels to dw [k][3][3][c].
template <class T>
void filter_gradient(const WinogradPlanes& planes, void* dw, int64_t c_count, int64_t begin,
                     int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    for (int64_t c = 0; c < c_count; c += kLanes) {
      const float* in = planes.data + place_of(planes, k, c);
      T* out = static_cast<T*>(dw) + k * 9 * c_count + c;
      transform<MapFilterGradient>(
          [&](int p, int q) { return load_vec(in + (p * kPoints + q) * planes.plane); },
          [&](int r, int s, Vec v) { store_vec(out + (r * 3 + s) * c_count, v); });
    }
  }
}

// v [rows][steps] of pitch ldv, u [steps][kPanel], m [rows][kPanel] of pitch ldm.
void plane_product(const float* v, int64_t ldv, int64_t rows, const float* u, int64_t steps,
                   float* m, int64_t ldm) {
  product(v, ldv, rows, u, kPanel, steps, m, ldm);
}

}  // namespace

extern const WinogradKernels kWinograd3, kWinograd5;
const WinogradKernels kWinograd3 = {
    3,
    4,
    kLanes,
    kPanel,
    {evaluate<float, MapImage, 4>, evaluate<Bf16, MapImage, 4>},
    {evaluate<float, MapResultGradient, 4>, evaluate<Bf16, MapResultGradient, 4>},
    {result<float, 4>, result<Bf16, 4>},
    {filters<float, 3>, filters<Bf16, 3>},
    {filters_turned<float, 3>, filters_turned<Bf16, 3>},
    {filter_gradient<float>, filter_gradient<Bf16>},
    plane_product,
    outer_product,
};
const WinogradKernels kWinograd5 = {
    5,
    2,
    kLanes,
    kPanel,
    {evaluate<float, MapImage, 2>},
    {},
    {result<float, 2>},
    {filters<float, 5>},
    {filters_turned<float, 5>},
    {},
    plane_product,
    outer_product,
};

}  // namespace assay::cpu::ASSAY_ISA
