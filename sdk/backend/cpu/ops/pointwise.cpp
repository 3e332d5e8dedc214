// A function is planned into an interpreter: where the operands of each step stand (a source in
// memory, or a block in f32), and how sources get into blocks. Running it is a loop over blocks, in
// each over the steps, each one call of a vectorised kernel.
#include "sdk/backend/cpu/ops/pointwise.h"

#include "sdk/graph/elementwise.h"
#include "sdk/ops/broadcast.h"

namespace assay::cpu {
namespace {

using Kind = PointwiseOperand::Kind;

// Blocks of a task: one for each step, source and number, of at least kLeastBlock elements in f32,
// longer if they are few. Up to kBlockElems in all they stay in the first-level cache.
constexpr int kMostNumbers = 24;
constexpr int64_t kLeastBlock = 256, kMostBlock = 2048, kBlockElems = 8192;
constexpr int64_t kMostElems =
    (kMostPointwiseSteps + kMostPointwiseInputs + kMostNumbers) * kLeastBlock;
static_assert(kMostElems >= kBlockElems);

// Elements of a source: those that kernels know, and integers, which become f32 on their way in.
constexpr int kElementI32 = 2;
int source_element(const ValueType& type) {
  return type.dtype == DType::kI32 ? kElementI32 : element_of(type);
}
void from_integers(const void* x, void* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<float*>(y)[i] = static_cast<float>(static_cast<const int32_t*>(x)[i]);
}

// Where the elements of a source lie on the way through y.
struct Walk {
  std::vector<CommonAxis> axes;  // `first` is the distance in the source, 0 where it is repeated

  Walk(const PointwiseSource& x, const Dims& y)
      : axes(common_axes(y, repeated_layout(x.layout, x.type.dims, y), dense_layout(y))) {}
  bool is_dense() const { return axes.empty() || (axes.size() == 1 && axes[0].first == 1); }
  // After how many elements of y the input begins anew: 0 if only at the end of y.
  int64_t period() const {
    if (axes.empty() || axes.back().first != 0) return 0;
    int64_t elems = 1;
    for (size_t i = 0; i + 1 < axes.size(); ++i) elems *= axes[i].size;
    return elems;
  }

  // For elements [begin, begin + n) of y, in f32.
  void fetch(const void* x, int element, int64_t begin, int64_t n, float* to) const {
    const auto convert =
        element == kElementI32 ? from_integers : kernels().elementwise->cast[element][kElementF32];
    const size_t size = element == kElementBf16 ? 2 : 4;
    while (n > 0) {
      int64_t rest = begin, from = 0, run = 1;
      for (size_t i = 0; i < axes.size(); ++i) {
        const int64_t index = rest % axes[i].size;
        rest /= axes[i].size;
        from += index * axes[i].first;
        if (i == 0) run = axes[i].size - index;
      }
      run = std::min(run, n);
      const int64_t stride = axes.empty() ? 0 : axes[0].first;
      if (stride == 1) {
        convert(at(x, from, size), to, run);
      } else if (stride == 0) {
        convert(at(x, from, size), to, 1);
        std::fill_n(to, run, *to);
      } else {
        for (int64_t i = 0; i < run; ++i) convert(at(x, from + i * stride, size), to + i, 1);
      }
      begin += run, n -= run, to += run;
    }
  }
};

// How a source gets into the steps.
enum class Entry {
  kUnread,   // only its dims count
  kDirect,   // read where it stands
  kConvert,  // dense integers, or bf16 that a step wants in f32
  kOnce,     // repeated after a few elements: the same in every block
  kWalk
};

// An operand of a step: an input, or a block of the task.
struct Place {
  bool is_input;
  int index;
};

}  // namespace

class PointwiseFunction::Interpreter {
 public:
  Interpreter(const PointwiseCode& code, const std::vector<PointwiseSource>& sources,
              const ValueType& y, std::string_view scope)
      : code_(code), out_(element_of(y)) {
    for (const PointwiseSource& source : sources) walks_.emplace_back(source, y.dims);
    for (const PointwiseSource& source : sources) elements_.push_back(source_element(source.type));
    for (size_t i = 0; i < sources.size(); ++i) entries_.push_back(entry_of(static_cast<int>(i)));
    for (const PointwiseStep& step : code_.steps) {
      for (int k = 0; k < pointwise_operands(step.fn); ++k)
        places_.push_back(place_of(step.operands[static_cast<size_t>(k)]));
    }
    require(numbers_.size() <= kMostNumbers, Code::kUnsupported, "pointwise at ", scope,
            ": more than ", kMostNumbers, " different numbers");
    choose_block();
    // The kernel of kSelect stores the type of its operands, which are f32 here: a pass of its own
    // rounds the result.
    const PointwiseFn last = code_.steps.back().fn;
    stores_apart_ = last == PointwiseFn::kSelect && out_ == kElementBf16 && !ends_in_bf16_select();
  }

  int64_t block_elems() const { return block_; }

  // Elements [begin, end) of y from x, by source; begin is a multiple of block_elems() where a
  // source is repeated.
  void run(std::span<const void* const> x, void* y, int64_t begin, int64_t end) const {
    alignas(64) float blocks[kMostElems];
    for (size_t i = 0; i < numbers_.size(); ++i)
      std::fill_n(block(blocks, number_block(i)), block_, numbers_[i]);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i] == Entry::kOnce)
        walks_[i].fetch(x[i], elements_[i], 0, std::min(block_, end),
                        block(blocks, input_block(i)));
    }
    // One step of inputs that stand there already needs no blocks.
    const bool whole = code_.steps.size() == 1 && !stores_apart_ && reads_in_place();
    const int64_t length = whole ? end - begin : block_;
    for (int64_t at_elem = begin; at_elem < end; at_elem += length)
      run_block(x, y, at_elem, std::min(length, end - at_elem), blocks);
  }

 private:
  // Blocks of the steps come first.
  size_t input_block(size_t i) const { return code_.steps.size() + i; }
  size_t number_block(size_t i) const { return input_block(walks_.size()) + i; }
  float* block(float* blocks, size_t i) const { return blocks + static_cast<int64_t>(i) * block_; }

  // Whether a step takes input i in f32 only.
  bool wants_f32(int i) const {
    const PointwiseOperand input = PointwiseOperand::input(i);
    for (const PointwiseStep& step : code_.steps) {
      for (int k = 0; k < pointwise_operands(step.fn); ++k) {
        if (step.operands[static_cast<size_t>(k)] != input) continue;
        if (step.fn == PointwiseFn::kMulAdd) return true;
        if (step.fn == PointwiseFn::kSelect && !(ends_in_bf16_select() && (k == 0 || k == 3)))
          return true;
      }
    }
    return false;
  }
  // The gradient of relu and its like: select(x, number, number, x) of dense bf16 tensors.
  bool ends_in_bf16_select() const {
    if (code_.steps.size() != 1 || out_ != kElementBf16) return false;
    const PointwiseStep& step = code_.steps[0];
    const auto is_dense_bf16 = [&](const PointwiseOperand& operand) {
      const auto i = static_cast<size_t>(operand.index);
      return operand.kind == Kind::kInput && elements_[i] == kElementBf16 && walks_[i].is_dense();
    };
    return step.fn == PointwiseFn::kSelect && is_dense_bf16(step.operands[0]) &&
           is_dense_bf16(step.operands[3]) && step.operands[1].kind == Kind::kNumber &&
           step.operands[2].kind == Kind::kNumber;
  }

  Entry entry_of(int i) const {
    const auto index = static_cast<size_t>(i);
    const Walk& walk = walks_[index];
    if (!code_.reads(PointwiseOperand::input(i))) return Entry::kUnread;
    if (walk.is_dense()) {
      const int element = elements_[index];
      const bool converts = element == kElementI32 || (element == kElementBf16 && wants_f32(i));
      return converts ? Entry::kConvert : Entry::kDirect;
    }
    const int64_t period = walk.period();
    return period > 0 && period <= kLeastBlock ? Entry::kOnce : Entry::kWalk;
  }

  // A multiple of every period: periods are products of trailing axes, so the largest is one.
  void choose_block() {
    int64_t period = 1;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i] == Entry::kOnce) period = std::max(period, walks_[i].period());
    }
    const auto n_blocks = static_cast<int64_t>(number_block(numbers_.size()));
    const int64_t size = std::clamp(kBlockElems / n_blocks, kLeastBlock, kMostBlock);
    block_ = size / period * period;
  }

  Place place_of(const PointwiseOperand& operand) {
    if (operand.kind == Kind::kStep) return {false, operand.index};
    if (operand.kind == Kind::kInput) {
      const auto i = static_cast<size_t>(operand.index);
      if (entries_[i] == Entry::kDirect) return {true, operand.index};
      return {false, static_cast<int>(input_block(i))};
    }
    const auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](float number) {
      return std::bit_cast<uint32_t>(number) == std::bit_cast<uint32_t>(operand.number);
    });
    const auto i = static_cast<size_t>(found - numbers_.begin());
    if (found == numbers_.end()) numbers_.push_back(operand.number);
    return {false, static_cast<int>(number_block(i))};
  }

  bool reads_in_place() const {
    return std::all_of(places_.begin(), places_.end(), [](const Place& p) { return p.is_input; });
  }

  void run_block(std::span<const void* const> x, void* y, int64_t begin, int64_t n,
                 float* blocks) const {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i] == Entry::kConvert || entries_[i] == Entry::kWalk)
        walks_[i].fetch(x[i], elements_[i], begin, n, block(blocks, input_block(i)));
    }
    void* const out = at(y, begin, out_ == kElementF32 ? 4 : 2);
    const auto run_step = kernels().pointwise->step;
    const Place* place = places_.data();
    for (size_t s = 0; s < code_.steps.size(); ++s) {
      PointwiseRange operands[4];
      const PointwiseFn fn = code_.steps[s].fn;
      for (int k = 0; k < pointwise_operands(fn); ++k, ++place)
        operands[k] = range_of(*place, x, begin, blocks);
      const bool is_last = s + 1 == code_.steps.size() && !stores_apart_;
      run_step(fn, operands,
               is_last ? PointwiseRange{out, static_cast<Element>(out_)}
                       : PointwiseRange{block(blocks, s), kElementF32},
               n);
    }
    if (stores_apart_)
      kernels().elementwise->cast[kElementF32][kElementBf16](block(blocks, code_.steps.size() - 1),
                                                             out, n);
  }

  PointwiseRange range_of(const Place& place, std::span<const void* const> x, int64_t begin,
                          float* blocks) const {
    const auto i = static_cast<size_t>(place.index);
    if (!place.is_input) return {block(blocks, i), kElementF32};
    const int element = elements_[i];
    const void* data = at(x[i], begin, element == kElementF32 ? 4 : 2);
    return {const_cast<void*>(data), static_cast<Element>(element)};
  }

  PointwiseCode code_;
  int out_;
  int64_t block_ = kLeastBlock;
  bool stores_apart_ = false;
  std::vector<Walk> walks_;    // by source
  std::vector<int> elements_;  // likewise
  std::vector<Entry> entries_;
  std::vector<float> numbers_;
  std::vector<Place> places_;  // of all operands of all steps
};

namespace {

// Tasks begin at whole blocks.
Chunks tasks_of(int64_t n, int64_t block) {
  if (n <= kSerialElems) return chunks_of(n);
  return {n, round_up(kChunkElems, block)};
}

}  // namespace

PointwiseFunction::PointwiseFunction(const PointwiseCode& code,
                                     const std::vector<PointwiseSource>& sources,
                                     const ValueType& y, std::string_view scope)
    : interpreter_(std::make_shared<Interpreter>(code, sources, y, scope)),
      tasks_(tasks_of(y.numel(), interpreter_->block_elems())) {}

void PointwiseFunction::run(int threads, std::span<const void* const> x, void* y) const {
  parallel_for(threads, tasks_.count(),
               [&](int64_t i) { interpreter_->run(x, y, tasks_.begin(i), tasks_.end(i)); });
}

void PointwiseFunction::run_part(std::span<const void* const> x, void* y, int64_t begin,
                                 int64_t end) const {
  interpreter_->run(x, y, begin, end);
}

NodePlan with_activation_behind(NodePlan plan, ActivationKind kind, const Planner& c) {
  plan.kernel += " own:pointwise";
  for (InPlace& pair : plan.in_place) pair.output = 1;
  const PointwiseFunction activate(activation_code(kind), {c.y(1)}, c.y(), c.scope());
  plan.bind = [=, bind = std::move(plan.bind), threads = c.threads()](const Binding& b) -> Launch {
    Binding own = b;
    own.outputs = b.outputs.subspan(1);
    return [=, compute = bind(own), pre = b.y<void>(1), y = b.y<void>()](Queue& q) {
      compute(q);
      const void* const x[] = {pre};
      activate.run(threads, x, y);
    };
  };
  return plan;
}

// Sources wherever they lie.
NodePlan plan(const Pointwise& p, const Planner& c) {
  std::vector<PointwiseSource> sources;
  sources.reserve(static_cast<size_t>(c.n_inputs()));
  for (int i = 0; i < c.n_inputs(); ++i) sources.emplace_back(c.x(i), c.x_layout(i));
  NodePlan plan = own_plan("pointwise");
  plan.bind = [=, function = PointwiseFunction(p.code, sources, c.y(), c.scope()),
               threads = c.threads()](const Binding& b) -> Launch {
    const std::vector<const void*> x(b.inputs.begin(), b.inputs.end());
    return [=, y = b.y<void>()](Queue&) { function.run(threads, x, y); };
  };
  return plan;
}

NodePlan plan(const Casts&, const Planner& c) {
  std::vector<PointwiseFunction> functions;
  for (int i = 0; i < c.n_inputs(); ++i)
    functions.emplace_back(cast_code(), std::vector<PointwiseSource>{c.x(i)}, c.y(i), c.scope());
  NodePlan plan = own_plan("casts");
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    const std::vector<const void*> x(b.inputs.begin(), b.inputs.end());
    const std::vector<void*> y(b.outputs.begin(), b.outputs.end());
    return [=](Queue&) {
      for (size_t i = 0; i < functions.size(); ++i)
        functions[i].run(threads, std::span(&x[i], 1), y[i]);
    };
  };
  return plan;
}

}  // namespace assay::cpu
