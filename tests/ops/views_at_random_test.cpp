// Random graphs of views and of ops that read and write them, compiled as programs are: copies
// placed, memory shared over time, results written in place. What comes out is compared with every
// value computed on its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/verify.h"
#include "sdk/runtime/program.h"
#include "tests/harness/backend_under_test.h"

namespace assay::test {
namespace {

struct Known {
  ValueId id;
  Dims dims;
  std::vector<float> values;  // row-major
};

// Where each element of a box of `part` that begins at `begin` stands in `whole`, row-major.
std::vector<size_t> places(const Dims& part, const Dims& whole, const Dims& begin) {
  std::vector<size_t> at;
  for (int64_t i = 0; i < part.numel(); ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int axis = part.rank() - 1; axis >= 0; --axis) {
      place += (begin[axis] + rest % part[axis]) * step;
      rest /= part[axis];
      step *= whole[axis];
    }
    at.push_back(static_cast<size_t>(place));
  }
  return at;
}

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : engine_(seed) {
    for (int i = 0; i < 3; ++i) add_input();
    for (int i = 0; i < 24; ++i) add_node();
    for (size_t i = 0; i < known_.size(); ++i) {
      if (below(4) == 0 || i + 1 == known_.size()) {
        graph_.outputs().push_back({cat("y", i), known_[i].id});
        wanted_.push_back(i);
      }
    }
  }

  void check() {
    verify(graph_);
    const auto backend = make_backend_under_test(1);
    const VariableTable variables;
    Segments segments(*backend, variables);
    const auto program = compile(graph_, segments);
    verify(program->graph());
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (const size_t i : fed_) {
        const auto& values = known_[i].values;
        backend->write(program->input(cat("x", i)).data, values.data(), values.size() * 4);
      }
      program->run();
      for (const size_t i : wanted_) {
        std::vector<float> got(known_[i].values.size());
        backend->read(got.data(), program->output(cat("y", i)).data, got.size() * 4);
        ASSERT_EQ(got, known_[i].values) << "y" << i << " of\n" << program->plan_text();
      }
    }
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint32_t>(n)); }

  // Mostly something new.
  const Known& any() {
    const auto n = static_cast<int64_t>(known_.size());
    return known_[static_cast<size_t>(below(2) == 0 ? n - 1 - below(std::min<int64_t>(n, 4))
                                                    : below(n))];
  }
  // Another one of these dims, or the same.
  const Known& like(const Known& x) {
    std::vector<const Known*> found;
    for (const Known& k : known_) {
      if (k.dims == x.dims) found.push_back(&k);
    }
    return *found[static_cast<size_t>(below(std::ssize(found)))];
  }

  void add_input() {
    const auto rank = static_cast<int>(2 + below(3));
    std::vector<int64_t> sizes;
    for (int axis = 0; axis < rank; ++axis) sizes.push_back(1 + below(axis + 1 == rank ? 20 : 4));
    add_input(Dims(sizes));
  }
  void add_input(const Dims& dims) {
    Known x{{}, dims, {}};
    for (int64_t i = 0; i < dims.numel(); ++i)
      x.values.push_back(static_cast<float>(below(17)) - 8);
    fed_.push_back(known_.size());
    x.id = graph_.emit1(Input{cat("x", known_.size()), DType::kF32, dims}, {});
    known_.push_back(std::move(x));
  }

  void keep(const Op& op, const std::vector<ValueId>& inputs, std::vector<float> values) {
    const ValueId id = graph_.emit(op, inputs)[0];
    known_.push_back({id, graph_.type(id).dims, std::move(values)});
  }

  void add_node() {
    const Known x = any();
    if (x.dims.numel() > 4096) return add_input();
    switch (below(9)) {
      case 0:
        return add_sum(x, like(x));
      case 1:
        return add_relu(x);
      case 2:
        return add_relu_grad(x, like(x));
      case 3:
        return add_slice(x);
      case 4:
        return add_slice_grad(x);
      case 5:
        return add_transpose(x);
      case 6:
        return add_reshape(x);
      case 7:
        return add_concat(x, like(x));
      default:
        return add_upsampling(x);
    }
  }

  void add_sum(const Known& a, const Known& b) {
    std::vector<float> y = a.values;
    for (size_t i = 0; i < y.size(); ++i) y[i] += b.values[i];
    keep(Pointwise{add_code(), {}}, {a.id, b.id}, std::move(y));
  }
  void add_relu(const Known& x) {
    std::vector<float> y;
    for (const float v : x.values) y.push_back(std::max(v, 0.0f));
    keep(Pointwise{activation_code(ActivationKind::kRelu), {}}, {x.id}, std::move(y));
  }
  void add_relu_grad(const Known& saved, const Known& dy) {
    std::vector<float> dx;
    for (size_t i = 0; i < dy.values.size(); ++i)
      dx.push_back(saved.values[i] > 0 ? dy.values[i] : 0);
    keep(Pointwise{activation_grad_code(ActivationKind::kRelu), {}}, {saved.id, dy.id},
         std::move(dx));
  }
  void add_slice(const Known& x) {
    Dims begin = x.dims, dims = x.dims;
    for (int axis = 0; axis < dims.rank(); ++axis) {
      dims[axis] = 1 + below(x.dims[axis]);
      begin[axis] = below(x.dims[axis] - dims[axis] + 1);
    }
    std::vector<float> y;
    for (const size_t at : places(dims, x.dims, begin)) y.push_back(x.values[at]);
    keep(Slice{begin, dims}, {x.id}, std::move(y));
  }
  void add_slice_grad(const Known& x) {
    Dims begin = x.dims, dims = x.dims;
    for (int axis = 0; axis < dims.rank(); ++axis) {
      begin[axis] = below(2);
      dims[axis] += begin[axis] + below(2);
    }
    std::vector<float> y(static_cast<size_t>(dims.numel()));
    const std::vector<size_t> at = places(x.dims, dims, begin);
    for (size_t i = 0; i < at.size(); ++i) y[at[i]] = x.values[i];
    keep(SliceGrad{begin, dims}, {x.id}, std::move(y));
  }
  void add_transpose(const Known& x) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < x.dims.rank(); ++axis) axes.push_back(axis);
    std::shuffle(axes.begin(), axes.end(), engine_);
    Dims dims = x.dims;
    for (int k = 0; k < dims.rank(); ++k) dims[k] = x.dims[static_cast<int>(axes[k])];
    std::vector<float> y(x.values.size());
    for (size_t i = 0; i < y.size(); ++i) {  // element i of y, its index along each axis
      std::vector<int64_t> index(axes.size());
      auto rest = static_cast<int64_t>(i);
      for (int k = dims.rank() - 1; k >= 0; --k) {
        index[static_cast<size_t>(axes[k])] = rest % dims[k];
        rest /= dims[k];
      }
      int64_t at = 0;
      for (int axis = 0; axis < dims.rank(); ++axis)
        at = at * x.dims[axis] + index[static_cast<size_t>(axis)];
      y[i] = x.values[static_cast<size_t>(at)];
    }
    keep(Transpose{Dims(axes)}, {x.id}, std::move(y));
  }
  // Two axes as one, or an axis as two.
  void add_reshape(const Known& x) {
    std::vector<int64_t> sizes;
    const int64_t at = below(x.dims.rank());
    for (int axis = 0; axis < x.dims.rank(); ++axis) {
      const int64_t size = x.dims[axis];
      if (axis == at && size % 2 == 0 && x.dims.rank() < 5) {
        sizes.push_back(size / 2);
        sizes.push_back(2);
      } else if (axis == at && axis > 0) {
        sizes.back() *= size;
      } else {
        sizes.push_back(size);
      }
    }
    keep(Reshape{Dims(sizes)}, {x.id}, x.values);
  }
  void add_concat(const Known& a, const Known& b) {
    const auto axis = static_cast<int>(below(a.dims.rank()));
    Dims whole = a.dims, begin = a.dims;
    whole[axis] *= 2;
    std::vector<float> y(2 * a.values.size());
    for (const Known* part : {&a, &b}) {
      for (int k = 0; k < begin.rank(); ++k) begin[k] = k == axis && part == &b ? a.dims[axis] : 0;
      const std::vector<size_t> at = places(part->dims, whole, begin);
      for (size_t i = 0; i < at.size(); ++i) y[at[i]] = part->values[i];
    }
    keep(Concat{axis}, {a.id, b.id}, std::move(y));
  }
  // Each pixel doubled, by a transposed convolution of 1x1; then beside what is there already.
  void add_upsampling(const Known& x) {
    if (x.dims.rank() != 4) return add_relu(x);
    const int64_t c = x.dims[3];
    Known w{{}, {c, 1, 1, c}, std::vector<float>(static_cast<size_t>(c * c))};
    for (int64_t k = 0; k < c; ++k) w.values[static_cast<size_t>(k * c + k)] = 2;
    fed_.push_back(known_.size());
    w.id = graph_.emit1(Input{cat("x", known_.size()), DType::kF32, w.dims}, {});
    known_.push_back(w);
    std::vector<float> y;
    for (const float v : x.values) y.push_back(2 * v);
    keep(Conv2dTranspose{{}, x.dims}, {x.id, w.id}, std::move(y));
    const Known upsampled = known_.back();
    add_concat(upsampled, like(upsampled));
  }

  std::mt19937 engine_;
  Graph graph_;
  std::vector<Known> known_;
  std::vector<size_t> fed_, wanted_;  // of known_
};

TEST(Views, OfRandomGraphsHoldWhatTheyShould) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    RandomGraph(seed).check();
    if (testing::Test::HasFatalFailure() || testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace assay::test
