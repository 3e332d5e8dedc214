// Double-buffered transfer of batches from host memory to program inputs: while one is computed on,
// the next is transferred. Moves bytes; what they mean is the program's.
//
// For one thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace assay {

// What a feed takes: the arrays of a batch, of fixed sizes.
struct FeedSpec {
  std::vector<size_t> array_bytes;
};

class Feed {
 public:
  static constexpr size_t kMostStaged = 2;

  virtual ~Feed() = default;
  // Takes over one batch, FeedSpec::array_bytes of each array: on return the host's memory may
  // change again, and the transfer goes on beside running programs. kInvalid if kMostStaged wait.
  virtual void stage(std::span<const void* const> arrays) = 0;
  // Batches staged and not delivered.
  virtual size_t staged() const = 0;
  // Puts the oldest staged batch where programs read it, array by array, in order with them: those
  // enqueued before still see what was there, those enqueued later see the batch.
  virtual void deliver(std::span<void* const> targets) = 0;
  // Forgets what is staged.
  virtual void clear() = 0;
};

}  // namespace assay
