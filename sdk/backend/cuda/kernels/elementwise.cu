// One pass over memory; each thread moves packs of 16 bytes.
#include "sdk/backend/cuda/kernels/epilogue.h"

namespace assay::cuda::kernels {
namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Activate {
  int kind;
  __device__ float operator()(float x) const { return activate(kind, x); }
};
struct Differentiate {
  int kind;
  __device__ float operator()(float saved, float dy) const {
    return differentiate(kind, saved, dy);
  }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Elements left from `begin` on, as far as a pack of N reaches.
template <int N>
__device__ int left(int64_t n, int64_t begin) {
  return n - begin < N ? static_cast<int>(n - begin) : N;
}

// Packs of the larger type's 16 bytes.
template <class From, class To, class F>
__global__ void map(const From* x, To* y, int64_t n, bool whole, F f) {
  constexpr int N = kPack<From> < kPack<To> ? kPack<To> : kPack<From>;
  const int64_t step = total_threads() * N;
  for (int64_t i = global_thread() * N; i < n; i += step) {
    float v[N];
    load_pack<N>(x + i, left<N>(n, i), whole, v);
    for (int k = 0; k < N; ++k) v[k] = f(v[k]);
    store_pack<N>(y + i, left<N>(n, i), whole, v);
  }
}

template <class T, class F>
__global__ void map2(const T* a, const T* b, T* y, int64_t n, bool whole, F f) {
  constexpr int N = kPack<T>;
  const int64_t step = total_threads() * N;
  for (int64_t i = global_thread() * N; i < n; i += step) {
    float u[N], v[N];
    load_pack<N>(a + i, left<N>(n, i), whole, u);
    load_pack<N>(b + i, left<N>(n, i), whole, v);
    for (int k = 0; k < N; ++k) u[k] = f(u[k], v[k]);
    store_pack<N>(y + i, left<N>(n, i), whole, u);
  }
}

template <class From, class To, class F>
void run_map(Stream stream, const void* x, void* y, int64_t n, F f) {
  constexpr int N = kPack<From> < kPack<To> ? kPack<To> : kPack<From>;
  if (n == 0) return;
  launch(stream, blocks_for(ceil_div(n, N)), kThreads, map<From, To, F>,
         static_cast<const From*>(x), static_cast<To*>(y), n, on_16_bytes(x, y), f);
}

template <class F>
void run_map2(Stream stream, Element element, const void* a, const void* b, void* y, int64_t n,
              F f) {
  if (n == 0) return;
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(ceil_div(n, kPack<T>)), kThreads, map2<T, F>,
           static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), n,
           on_16_bytes(a, b, y), f);
  });
}

__global__ void fill_value(float* y, float value, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) y[i] = value;
}

// Ten rounds of Philox4x32; see sdk/base/philox.h.
__device__ void philox(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53u) * c[0];
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57u) * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<uint32_t>(a);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

template <class T>
__global__ void drop(DropoutArgs args, const int64_t* step, const T* x, T* y, int64_t n,
                     bool whole) {
  constexpr int N = kPack<T>;  // 4 or 8: one or two counters
  const uint64_t now = static_cast<uint64_t>(*step);
  const int64_t stride = total_threads() * N;
  for (int64_t i = global_thread() * N; i < n; i += stride) {
    float v[N];
    load_pack<N>(x + i, left<N>(n, i), whole, v);
    for (int part = 0; part < N / 4; ++part) {
      const uint64_t counter = static_cast<uint64_t>(i / 4 + part);
      uint32_t words[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                           static_cast<uint32_t>(now), static_cast<uint32_t>(now >> 32)};
      philox(words, args.key[0], args.key[1]);
      for (int k = 0; k < 4; ++k) {
        float& value = v[4 * part + k];
        value = words[k] >= args.drop_below ? value * args.scale : 0.0f;
      }
    }
    store_pack<N>(y + i, left<N>(n, i), whole, v);
  }
}

// Packs of rows that lie at a distance; the last pack of a row may be short.
template <class T>
__global__ void differentiate_rows(int kind, const T* saved, const T* dy, T* dx, RowsAt at,
                                   bool whole) {
  constexpr int N = kPack<T>;
  const int64_t packs = (at.channels + N - 1) / N;
  for (int64_t i = global_thread(); i < at.rows * packs; i += total_threads()) {
    const int64_t row = i / packs, first = i % packs * N;
    const int n = left<N>(at.channels, first);
    float u[N], v[N];
    load_pack<N>(saved + row * at.saved_pitch + first, n, whole, u);
    load_pack<N>(dy + row * at.dy_pitch + first, n, whole, v);
    for (int k = 0; k < N; ++k) v[k] = differentiate(kind, u[k], v[k]);
    store_pack<N>(dx + row * at.channels + first, n, whole, v);
  }
}

// A row's packs go to neighbouring threads; the last pack of a row may be short.
template <class X, class Y>
__global__ void add_epilogue(EpilogueArgs args, bool whole) {
  constexpr int N = kPack<X> < kPack<Y> ? kPack<Y> : kPack<X>;
  const int64_t packs = (args.channels + N - 1) / N;
  for (int64_t i = global_thread(); i < args.rows * packs; i += total_threads()) {
    const int64_t row = i / packs, first = i % packs * N;
    const int n = left<N>(args.channels, first);
    float v[N];
    load_pack<N>(static_cast<const X*>(args.x) + row * args.channels + first, n, whole, v);
    finish<Y>(args, row, first, n, whole, v);
  }
}

}  // namespace

void cast(Stream stream, Element from, Element to, const void* x, void* y, int64_t n) {
  dispatch(from, [&]<class From>(From) {
    dispatch(to, [&]<class To>(To) { run_map<From, To>(stream, x, y, n, Same{}); });
  });
}

void activation(Stream stream, Element element, int kind, const void* x, void* y, int64_t n) {
  dispatch(element, [&]<class T>(T) { run_map<T, T>(stream, x, y, n, Activate{kind}); });
}

void activation_grad(Stream stream, Element element, int kind, const void* saved, const void* dy,
                     void* dx, int64_t n) {
  run_map2(stream, element, saved, dy, dx, n, Differentiate{kind});
}

void activation_grad_of_rows(Stream stream, Element element, int kind, const void* saved,
                             const void* dy, void* dx, const RowsAt& at) {
  if (at.rows * at.channels == 0) return;
  dispatch(element, [&]<class T>(T) {
    constexpr int N = kPack<T>;
    const bool whole = at.channels % N == 0 && at.saved_pitch % N == 0 && at.dy_pitch % N == 0 &&
                       on_16_bytes(saved, dy, dx);
    launch(stream, blocks_for(at.rows * ceil_div(at.channels, N)), kThreads, differentiate_rows<T>,
           kind, static_cast<const T*>(saved), static_cast<const T*>(dy), static_cast<T*>(dx), at,
           whole);
  });
}

void add(Stream stream, Element element, const void* a, const void* b, void* y, int64_t n) {
  run_map2(stream, element, a, b, y, n, Sum{});
}

void fill(Stream stream, float* y, float value, int64_t n) {
  if (n > 0) launch(stream, blocks_for(n), kThreads, fill_value, y, value, n);
}

void dropout(Stream stream, Element element, const DropoutArgs& args, const int64_t* step,
             const void* x, void* y, int64_t n) {
  if (n == 0) return;
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(ceil_div(n, kPack<T>)), kThreads, drop<T>, args, step,
           static_cast<const T*>(x), static_cast<T*>(y), n, on_16_bytes(x, y));
  });
}

void epilogue(Stream stream, Element x, Element y, const EpilogueArgs& args) {
  if (args.rows * args.channels == 0) return;
  dispatch(x, [&]<class X>(X) {
    dispatch(y, [&]<class Y>(Y) {
      constexpr int N = kPack<X> < kPack<Y> ? kPack<Y> : kPack<X>;
      const bool whole = whole_rows<N>(args) && on_16_bytes(args.x);
      const int64_t work = args.rows * ceil_div(args.channels, N);
      launch(stream, blocks_for(work), kThreads, add_epilogue<X, Y>, args, whole);
    });
  });
}

}  // namespace assay::cuda::kernels
