// The devices that train one model together, seen from one of them. Each has a rank, 0 to size - 1,
// and trains in a thread or process of its own; all make the same calls in the same order.
//
// A rank that does not come within the channel's time, has gone, or brought data of another size
// fails the call on every rank that waits for it: kTimeout or kComm, with the ranks at fault. Then
// the channel is of no more use, and every later call fails with the same.
//
// Calls and launches of one channel come one at a time; abort() may come at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/dtype.h"
#include "sdk/graph/queue.h"

namespace assay {

class Channel {
 public:
  virtual ~Channel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // data [n] f32, in place: the sum over the ranks, added in their order, the same bits everywhere.
  // Over a wire of f16 (the other choice is f32) each rank's numbers are rounded before and the
  // sum, of f32, after.
  virtual Launch all_reduce(float* data, int64_t n, DType wire = DType::kF32) = 0;
  // Bytes of rank 0, to the others.
  virtual Launch broadcast(void* data, size_t bytes) = 0;
  // A text of every rank, by rank. Host memory; all have come when it returns.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;
  // Fails as a call would if another rank has given up, as far as that is heard here; waits for
  // none.
  virtual void listen() = 0;
  // Gives up: calls of this rank that wait end with kComm, and then those of the others. Any
  // thread.
  virtual void abort() = 0;
};

// Fails with kComm, naming the rank and both texts, unless every rank says the same of `what`.
void require_agreement(Channel& channel, std::string_view what, std::string_view mine);

}  // namespace assay
