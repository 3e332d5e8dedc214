// CPython's generator is the Mersenne Twister of std::mt19937 with another way of seeding; shuffle
// goes from the last element to the second.
#include "datasets/python_random.h"

#include <bit>
#include <numeric>
#include <random>
#include <utility>

namespace assay::datasets {
namespace {

// Fills the Mersenne Twister's state as init_by_array of Matsumoto and Nishimura (2002) does with
// an array of one word, which is how CPython seeds from a small integer.
struct InitByArray {
  using result_type = uint32_t;
  uint32_t seed;

  template <class Iterator>
  void generate(Iterator begin, Iterator end) const {
    const auto words = end - begin;
    uint32_t previous = begin[0] = 19650218;
    for (int64_t i = 1; i < words; ++i) previous = begin[i] = mixed(previous, 1812433253, i);
    int64_t i = 1;
    const auto advance = [&] {
      if (++i < words) return;
      begin[0] = begin[words - 1];
      i = 1;
    };
    for (int64_t k = 0; k < words; ++k, advance()) {
      begin[i] = (begin[i] ^ scrambled(begin[i - 1], 1664525)) + seed;
    }
    for (int64_t k = 1; k < words; ++k, advance()) {
      begin[i] = (begin[i] ^ scrambled(begin[i - 1], 1566083941)) - static_cast<uint32_t>(i);
    }
    begin[0] = 0x80000000;
  }

 private:
  static uint32_t scrambled(uint32_t word, uint32_t factor) {
    return (word ^ (word >> 30)) * factor;
  }
  static uint32_t mixed(uint32_t word, uint32_t factor, int64_t i) {
    return scrambled(word, factor) + static_cast<uint32_t>(i);
  }
};

// Uniform below `bound`: as many leading bits as bound has, until they are below it.
uint32_t below(std::mt19937& twister, uint32_t bound) {
  const int drop = std::countl_zero(bound);
  uint32_t bits = 0;
  do {
    bits = static_cast<uint32_t>(twister()) >> drop;
  } while (bits >= bound);
  return bits;
}

}  // namespace

std::vector<int64_t> python_shuffled(uint32_t seed, int64_t count) {
  InitByArray state{seed};
  std::mt19937 twister(state);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (auto last = static_cast<uint32_t>(count); last > 1; --last) {
    std::swap(order[last - 1], order[below(twister, last)]);
  }
  return order;
}

}  // namespace assay::datasets
