// Rows and places of tokens, attention, probabilities and the best of a row.
#include <algorithm>

#include "sdk/train/onnx/converter.h"

namespace assay::onnx {
namespace {

// What a node of the type gives; null if another does.
template <class T>
const T* made_by(const Converter& c, ValueId value) {
  return std::get_if<T>(&c.graph().producer(value).op);
}

// Whether `index` can only be one of `rows`. Where it is not known rows are looked up with care.
bool are_rows(const Converter& c, ValueId index, int64_t rows) {
  const std::vector<ValueId>& inputs = c.graph().producer(index).inputs;
  const auto last_of = [](const Arange& places) {
    return (std::min(places.count, places.period) - 1) * places.step;
  };
  if (made_by<Reshape>(c, index) != nullptr) return are_rows(c, inputs[0], rows);
  if (made_by<Concat>(c, index) != nullptr)
    return std::ranges::all_of(inputs, [&](ValueId part) { return are_rows(c, part, rows); });
  if (const auto* places = made_by<Arange>(c, index)) return last_of(*places) < rows;
  if (made_by<OffsetIndex>(c, index) != nullptr) {
    const auto* start = made_by<Arange>(c, inputs[1]);
    return start != nullptr && are_rows(c, inputs[0], rows - last_of(*start));
  }
  if (const auto* input = made_by<Input>(c, index)) {
    const auto range = c.range_of(input->name);
    return range && range->low >= 0 && range->high <= rows;
  }
  return false;
}

std::string zero(Converter& c) { return c.writer().number(0); }

// Rows of `table`; zeros for an index that is none.
std::string rows_with_care(Converter& c, ValueId table, const std::string& index32) {
  GraphWriter& w = c.writer();
  const std::string index = c.cast(index32, DType::kI64);
  const Size size = c.sizes(table)[0];
  const std::string count = size.times_batch ? c.emit("Mul", {c.batch(), w.integer(size.number)})
                                             : w.integer(size.number);
  const std::string is_row = c.emit(
      "And", {c.emit("GreaterOrEqual", {index, w.integer(0)}), c.emit("Less", {index, count})});
  const std::string safe = c.emit("Where", {is_row, index, w.integer(0)});
  return c.emit("Where", {c.emit("Unsqueeze", {is_row, w.integers({1})}),
                          c.emit("Gather", {c.plain(table), safe}), zero(c)});
}

}  // namespace

void convert(const Softmax& op, Converter& c) {
  c.set_plain(
      c.y(), c.emit(op.log ? "LogSoftmax" : "Softmax", {c.plain(c.x(0))}, {{"axis", int64_t{-1}}}));
}

void convert(const TopK& op, Converter& c) {
  const Names best = c.writer().emit("TopK", {c.plain(c.x(0)), c.writer().integers({op.k})},
                                     {{"axis", int64_t{-1}}}, 2);
  c.set_plain(c.y(0), best[0]);
  c.set_plain(c.y(1), c.cast(best[1], DType::kI32));
}

// Here the count depends on the batch; else it would be a constant.
void convert(const Arange& op, Converter& c) {
  const Size count = c.sizes(c.y())[0];
  if (op.step != c.larger<Arange>().step || !count.times_batch) c.refuse("has uneven steps");
  GraphWriter& w = c.writer();
  std::string places = c.emit(
      "Range", {w.integer(0), c.emit("Mul", {c.batch(), w.integer(count.number)}), w.integer(1)});
  if (op.period < op.count) {
    if (op.period != c.larger<Arange>().period) c.refuse("has a period that grows with the batch");
    places = c.emit("Mod", {places, w.integer(op.period)});
  }
  if (op.step != 1) places = c.emit("Mul", {places, w.integer(op.step)});
  c.set_plain(c.y(), c.cast(places, DType::kI32));
}

void convert(const OffsetIndex&, Converter& c) {
  const int64_t sequences = c.dims(c.x(1))[0], of_each = c.dims(c.x(0)).numel() / sequences;
  const std::string index = c.reshaped(c.plain(c.x(0)), std::array{Size{1, true}, Size{of_each}});
  const std::string start = c.emit("Unsqueeze", {c.plain(c.x(1)), c.writer().integers({1})});
  const std::string none = c.cast(c.writer().integer(-1), DType::kI32);
  const std::string is_none = c.emit("Less", {index, c.cast(c.writer().integer(0), DType::kI32)});
  const std::string place = c.emit("Where", {is_none, none, c.emit("Add", {index, start})});
  c.set_plain(c.y(), c.reshaped(place, c.sizes(c.y())));
}

void convert(const GatherRows&, Converter& c) {
  const int tables = c.inputs() / 2;
  std::string sum;
  for (int i = 0; i < tables; ++i) {
    const ValueId table = c.x(i), index = c.x(tables + i);
    const std::string rows = are_rows(c, index, c.dims(table)[0])
                                 ? c.emit("Gather", {c.plain(table), c.plain(index)})
                                 : rows_with_care(c, table, c.plain(index));
    sum = i == 0 ? rows : c.emit("Add", {sum, rows});
  }
  c.set_plain(c.y(), sum);
}

// Of padded sequences: packed ones are for training.
void convert(const Attention& op, Converter& c) {
  const ValueId qkv = c.x(0);
  const Dims& dims = c.dims(qkv);
  const int64_t batch = c.dims(c.x(2))[0], longest = op.longest, heads = op.heads;
  const auto* start = made_by<Arange>(c, c.x(1));
  if (op.rate != 0 || start == nullptr || start->step != longest || start->period < start->count ||
      dims[0] != batch * longest)
    c.refuse("has sequences of other places than one behind the other");
  GraphWriter& w = c.writer();
  const int64_t width = dims[1] / 3;
  const std::string apart = c.reshaped(
      c.plain(qkv),
      std::array{Size{1, true}, Size{longest}, Size{3}, Size{heads}, Size{width / heads}});
  // [3,N,heads,L,D], keys [N,heads,D,L].
  const std::string by_head =
      c.emit("Transpose", {apart}, {{"perm", std::vector<int64_t>{2, 0, 3, 1, 4}}});
  const auto part = [&](int64_t i) {
    return c.emit("Gather", {by_head, w.integer(i)}, {{"axis", int64_t{0}}});
  };
  const std::string keys =
      c.emit("Transpose", {part(1)}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const std::string scores = c.emit("Mul", {c.emit("MatMul", {part(0), keys}), w.number(op.scale)});
  std::vector<int64_t> places(static_cast<size_t>(longest));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  const std::string length =
      c.emit("Unsqueeze", {c.cast(c.plain(c.x(2)), DType::kI64), w.integers({1})});
  const std::string is_token = c.emit("Less", {w.integers(places), length});  // [N,L]
  const std::string open = c.emit("Unsqueeze", {is_token, w.integers({1, 2})});
  const std::string weights = c.emit("Softmax", {c.emit("Where", {open, scores, w.number(-3e38f)})},
                                     {{"axis", int64_t{-1}}});
  const std::string context = c.emit("Transpose", {c.emit("MatMul", {weights, part(2)})},
                                     {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const std::string rows = c.reshaped(context, std::array{Size{1, true}, Size{width}});
  const std::string is_row = c.reshaped(is_token, std::array{Size{1, true}, Size{1}});
  c.set_plain(c.y(), c.emit("Where", {is_row, rows, zero(c)}));
}

}  // namespace assay::onnx
