// Sums are cut into a part for each rank, which gets it from all others, adds it up in order of
// rank and sends it to them: every byte goes over the wire twice, however many ranks there are.
#include "sdk/comm/host_channel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "sdk/base/error.h"
#include "sdk/base/float16.h"
#include "sdk/comm/parts.h"

namespace assay {
namespace {

template <class Number>
void add(float* to, const Number* other, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += static_cast<float>(other[i]);
}

}  // namespace

// Everything that one sum of f32 or f16 needs, made when it is planned. Adds in f32.
template <class Number>
class HostChannel::Sum {
 public:
  Sum(HostChannel& channel, Number* data, int64_t n)
      : channel_(channel), to_(ranks()), from_(ranks()) {
    const auto part = [&](int rank) {
      const int64_t begin = begin_of_part(n, rank, channel_.size());
      return std::span(data + begin,
                       static_cast<size_t>(begin_of_part(n, rank + 1, channel_.size()) - begin));
    };
    mine_ = part(channel_.rank());
    channel_.received_.resize(std::max(channel_.received_.size(), ranks() * mine_.size_bytes()));
    for (size_t r = 0; r < ranks(); ++r) parts_.push_back(part(static_cast<int>(r)));
  }

  void run() {
    each_other([&](size_t r) {
      to_[r] = std::as_bytes(parts_[r]), from_[r] = std::as_writable_bytes(copy(r));
    });
    channel_.exchange(to_, from_);
    add_up();
    each_other([&](size_t r) {
      to_[r] = std::as_bytes(mine_), from_[r] = std::as_writable_bytes(parts_[r]);
    });
    channel_.exchange(to_, from_);
  }

 private:
  size_t ranks() const { return static_cast<size_t>(channel_.size()); }
  // This rank's part, as rank r has it.
  std::span<Number> copy(size_t r) {
    return {reinterpret_cast<Number*>(channel_.received_.data()) + r * mine_.size(), mine_.size()};
  }
  template <class Body>
  void each_other(const Body& body) {
    for (size_t r = 0; r < ranks(); ++r) {
      if (static_cast<int>(r) != channel_.rank()) body(r);
    }
  }

  void add_up() {
    std::array<float, 1024> sum;
    for (size_t begin = 0; begin < mine_.size(); begin += sum.size()) {
      const size_t n = std::min(sum.size(), mine_.size() - begin);
      for (size_t r = 0; r < ranks(); ++r) {
        const bool own = static_cast<int>(r) == channel_.rank();
        const Number* values = (own ? mine_.data() : copy(r).data()) + begin;
        if (r == 0)
          std::transform(values, values + n, sum.begin(), to_float);
        else
          add(sum.data(), values, static_cast<int64_t>(n));
      }
      std::transform(sum.begin(), sum.begin() + n, mine_.data() + begin,
                     [](float value) { return Number(value); });
    }
  }
  static float to_float(Number value) { return static_cast<float>(value); }

  HostChannel& channel_;
  std::vector<std::span<Number>> parts_;  // of the data, by the rank that adds them up
  std::span<Number> mine_;
  std::vector<Sent> to_;
  std::vector<Received> from_;
};

// Of f32 numbers that travel as f16.
class HostChannel::RoundedSum {
 public:
  RoundedSum(HostChannel& channel, float* data, int64_t n)
      : data_(data), rounded_(static_cast<size_t>(n)), sum_(channel, rounded_.data(), n) {}

  void run() {
    for (size_t i = 0; i < rounded_.size(); ++i) rounded_[i] = Float16(data_[i]);
    sum_.run();
    for (size_t i = 0; i < rounded_.size(); ++i) data_[i] = static_cast<float>(rounded_[i]);
  }

 private:
  float* data_;
  std::vector<Float16> rounded_;
  Sum<Float16> sum_;
};

Launch HostChannel::all_reduce(float* data, int64_t n, DType wire) {
  if (wire == DType::kF16)
    return [sum = std::make_shared<RoundedSum>(*this, data, n)](Queue&) { sum->run(); };
  return [sum = std::make_shared<Sum<float>>(*this, data, n)](Queue&) { sum->run(); };
}

Launch HostChannel::broadcast(void* data, size_t bytes) {
  return [this, memory = std::span(static_cast<std::byte*>(data), bytes)](Queue&) {
    std::vector<Sent> to(static_cast<size_t>(size_));
    std::vector<Received> from(static_cast<size_t>(size_));
    if (rank_ == 0)
      std::fill(to.begin() + 1, to.end(), Sent(memory));
    else
      from[0] = memory;
    exchange(to, from);
  };
}

std::vector<std::string> HostChannel::gather(std::string_view mine) {
  const auto ranks = static_cast<size_t>(size_), own = static_cast<size_t>(rank_);
  std::vector<Sent> to(ranks);
  std::vector<Received> from(ranks);
  const uint64_t length = mine.size();
  std::vector<uint64_t> lengths(ranks, length);
  for (size_t r = 0; r < ranks; ++r) {
    if (r == own) continue;
    to[r] = std::as_bytes(std::span(&length, 1));
    from[r] = std::as_writable_bytes(std::span(&lengths[r], 1));
  }
  exchange(to, from);
  std::vector<std::string> texts(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    texts[r].resize(lengths[r]);
    if (r == own) continue;
    to[r] = std::as_bytes(std::span(mine));
    from[r] = std::as_writable_bytes(std::span(texts[r]));
  }
  exchange(to, from);
  texts[own] = mine;
  return texts;
}

std::string ranks_text(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += cat(i == 0 ? "" : ", ", ranks[i]);
  return text;
}

}  // namespace assay
