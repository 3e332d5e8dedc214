// Places buffers with known lifetimes in one arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace assay {

struct BufferLifetime {
  size_t bytes = 0;
  int first = 0;  // index of the node that writes it first
  int last = 0;   // index of the last node that touches it; lifetimes that share an index overlap
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // one per buffer, 64-byte aligned
  size_t peak_bytes = 0;        // size of the arena
  size_t sum_bytes = 0;         // what separate buffers would take
  size_t floor_bytes = 0;  // the largest sum of buffers alive at one node: no plan can be smaller
};

// Greedy: one buffer after the other, each at the lowest offset that is free during its whole
// lifetime, in a few dozen orders at most; the smallest arena wins.
ArenaPlan plan_arena(std::span<const BufferLifetime> buffers);

}  // namespace assay
