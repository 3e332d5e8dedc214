// Records of sequences: written padded as the published scripts pad them, read into dense i32
// arrays, each value checked before a kernel takes it for an index.
#include "sdk/data/text/token_records.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

constexpr const char kIds[] = "input_ids", kMask[] = "input_mask", kTypes[] = "segment_ids",
                     kPositions[] = "masked_lm_positions", kLabels[] = "masked_lm_ids",
                     kWeights[] = "masked_lm_weights", kNext[] = "next_sentence_labels",
                     kUnique[] = "unique_ids", kStart[] = "start_positions",
                     kEnd[] = "end_positions", kImpossible[] = "is_impossible";

// `values`, then `filling` up to `size`.
std::vector<int64_t> padded(std::span<const int32_t> values, int64_t size, int64_t filling) {
  require(static_cast<int64_t>(values.size()) <= size, Code::kInternal, values.size(),
          " values for a record of ", size);
  std::vector<int64_t> row(static_cast<size_t>(size), filling);
  std::ranges::copy(values, row.begin());
  return row;
}

void set_tokens(Example& example, std::span<const int32_t> ids, int64_t first_size,
                const TokenShape& shape) {
  set_int64s_feature(example, kIds, padded(ids, shape.length, shape.padding));
  std::vector<int64_t> row(static_cast<size_t>(shape.length), 0);
  const auto size = static_cast<int64_t>(ids.size());
  std::fill_n(row.begin(), size, 1);
  set_int64s_feature(example, kMask, row);
  std::fill_n(row.begin(), std::min(first_size, size), 0);
  set_int64s_feature(example, kTypes, row);
}

}  // namespace

void write_sequence(const TokenSequence& sequence, const TokenShape& shape, std::string& payload) {
  Example example;
  set_tokens(example, sequence.ids, sequence.first_size, shape);
  serialize_example(example, payload);
}

void write_masked_pair(const MaskedSequence& pair, const TokenShape& shape, std::string& payload) {
  Example example;
  set_tokens(example, pair.sequence.ids, pair.sequence.first_size, shape);
  set_int64s_feature(example, kPositions, padded(pair.positions, shape.slots, 0));
  set_int64s_feature(example, kLabels, padded(pair.labels, shape.slots, 0));
  std::vector<float> weights(static_cast<size_t>(shape.slots), 0);
  std::fill_n(weights.begin(), pair.positions.size(), 1.0f);
  set_floats_feature(example, kWeights, weights);
  set_int64_feature(example, kNext, pair.random_next ? 1 : 0);
  serialize_example(example, payload);
}

void write_window(const Window& window, int64_t number, std::optional<PieceSpan> answer,
                  const TokenShape& shape, std::string& payload) {
  Example example;
  set_int64_feature(example, kUnique, number);
  set_tokens(example, window.ids, window.context_position, shape);
  if (answer) {
    set_int64_feature(example, kStart, answer->first);
    set_int64_feature(example, kEnd, answer->last);
    set_int64_feature(example, kImpossible, answer->last == 0 ? 1 : 0);
  }
  serialize_example(example, payload);
}

namespace {

int64_t checked(int64_t value, int64_t low, int64_t high, const char* feature) {
  require(value >= low && value < high, Code::kFormat, "feature \"", feature, "\" holds ", value,
          ", expected ", low, " to ", high - 1);
  return value;
}

// Prepared samples are the arrays one after the other: nothing is random, finish copies.
class TokenMaker : public SampleMaker {
 public:
  TokenMaker(TokenRecords records, const TokenShape& shape, std::vector<ArraySpec> arrays)
      : records_(records), shape_(shape), arrays_(std::move(arrays)) {}

  void prepare(std::string_view record, std::string& prepared) override {
    parse_example(record, example_);
    values_.clear();
    const int64_t length = add_tokens();
    if (records_ == TokenRecords::kMaskedPairs) add_masked(length);
    if (records_ == TokenRecords::kWindows) add_answer(length);
    prepared.assign(reinterpret_cast<const char*>(values_.data()),
                    values_.size() * sizeof(int32_t));
  }

  void finish(std::string_view prepared, PhiloxStream&,
              std::span<std::byte* const> arrays) override {
    for (size_t k = 0; k < arrays_.size(); ++k) {
      const size_t bytes = arrays_[k].sample_bytes();
      std::memcpy(arrays[k], prepared.data(), bytes);
      prepared.remove_prefix(bytes);
    }
  }

 private:
  void add(int64_t value) { values_.push_back(static_cast<int32_t>(value)); }

  std::span<const int64_t> row(const char* name, int64_t size) const {
    const auto values = int64s_feature(example_, name);
    require(static_cast<int64_t>(values.size()) == size, Code::kFormat, "feature \"", name,
            "\" holds ", values.size(), " values, expected ", size,
            "; the record was made for another length");
    return values;
  }

  int64_t add_tokens() {
    const auto mask = row(kMask, shape_.length);
    const auto length = static_cast<int64_t>(std::ranges::count(mask, 1));
    require(length > 0 &&
                std::ranges::count(mask.first(static_cast<size_t>(length)), 1) == length &&
                std::ranges::count(mask, 0) == shape_.length - length,
            Code::kFormat, "feature \"", kMask,
            "\" is no row of ones followed by zeros; sequences are padded at their end");
    const auto used = [&](int64_t i, int64_t value) { return i < length ? value : 0; };
    const auto ids = row(kIds, shape_.length), types = row(kTypes, shape_.length);
    for (int64_t i = 0; i < shape_.length; ++i) {
      const int64_t id = ids[static_cast<size_t>(i)];
      require(id >= 0 && id < shape_.vocabulary, Code::kFormat, "feature \"", kIds, "\" holds ", id,
              ", the vocabulary has ", shape_.vocabulary,
              " pieces; the record was made with another one");
      add(i < length ? id : shape_.padding);
    }
    for (int64_t i = 0; i < shape_.length; ++i)
      add(used(i, checked(types[static_cast<size_t>(i)], 0, 2, kTypes)));
    add(length);
    return length;
  }

  void add_masked(int64_t length) {
    const auto positions = row(kPositions, shape_.slots), labels = row(kLabels, shape_.slots);
    const auto weights = floats_feature(example_, kWeights);
    require(static_cast<int64_t>(weights.size()) == shape_.slots, Code::kFormat, "feature \"",
            kWeights, "\" holds ", weights.size(), " values, expected ", shape_.slots);
    for (size_t i = 0; i < positions.size(); ++i)
      add(weights[i] == 0 ? 0 : checked(positions[i], 0, length, kPositions));
    for (size_t i = 0; i < labels.size(); ++i)
      add(weights[i] == 0 ? -1 : checked(labels[i], 0, shape_.vocabulary, kLabels));
    add(checked(int64_feature(example_, kNext), 0, 2, kNext));
  }

  // Scripts for v1.1 do not write is_impossible: there a window without its answer points to [CLS].
  void add_answer(int64_t length) {
    if (!has_feature(example_, kStart)) return add(-1), add(-1), add(-1);
    const int64_t start = checked(int64_feature(example_, kStart), 0, length, kStart);
    const int64_t end = checked(int64_feature(example_, kEnd), start, length, kEnd);
    add(start), add(end);
    add(has_feature(example_, kImpossible)
            ? checked(int64_feature(example_, kImpossible), 0, 2, kImpossible)
            : int64_t{end == 0});
  }

  const TokenRecords records_;
  const TokenShape shape_;
  const std::vector<ArraySpec> arrays_;
  Example example_;
  std::vector<int32_t> values_;
};

std::vector<ArraySpec> arrays_of(TokenRecords records, const TokenShape& shape) {
  constexpr DType kType = DType::kI32;
  const Dims tokens{shape.length}, slots{shape.slots}, one{};
  std::vector<ArraySpec> arrays{
      {kIds, kType, tokens, shape.padding}, {kTypes, kType, tokens, 0}, {"length", kType, one, 0}};
  const auto label = [&](const char* name, const Dims& dims) {
    arrays.push_back({name, kType, dims, -1});
  };
  if (records == TokenRecords::kMaskedPairs) {
    arrays.push_back({kPositions, kType, slots, 0});
    label(kLabels, slots), label(kNext, one);
  }
  if (records == TokenRecords::kWindows) {
    label(kStart, one), label(kEnd, one), label(kImpossible, one);
  }
  return arrays;
}

}  // namespace

Transform make_token_transform(TokenRecords records, const TokenShape& shape) {
  Transform transform;
  transform.arrays = arrays_of(records, shape);
  transform.make_worker = [=, arrays = transform.arrays] {
    return std::make_unique<TokenMaker>(records, shape, arrays);
  };
  return transform;
}

}  // namespace assay::data
