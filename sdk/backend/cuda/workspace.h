// Workspaces of NVIDIA's libraries within the scratch memory of a plan.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::cuda {

inline constexpr size_t kScratchAlignment = 64;     // what the runtime gives every plan
inline constexpr size_t kWorkspaceAlignment = 256;  // what the libraries want

// Bytes of scratch memory that hold an aligned workspace of so many; none for none.
constexpr size_t with_room_to_align(size_t bytes) {
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - kScratchAlignment;
}

// Where the workspace begins.
inline void* aligned_workspace(void* scratch) {
  const auto address = reinterpret_cast<uintptr_t>(scratch);
  return reinterpret_cast<void*>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                 kWorkspaceAlignment);
}

}  // namespace assay::cuda
