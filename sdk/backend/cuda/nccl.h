// NCCL, which is opened when the first channel is made: only who trains on several GPUs needs it.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>

#include "sdk/backend/cuda/kernels/kernels.h"

struct ncclComm;

namespace assay::cuda {

// What is used of NCCL 2.14 or newer, as its nccl.h declares it.
using NcclComm = ncclComm*;
struct NcclId {
  char bytes[128];
};
struct NcclConfig {
  size_t size = sizeof(NcclConfig);  // longer ones of newer versions have their defaults
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;            // calls begin what ncclCommGetAsyncError tells the end of
  int cluster_size = INT_MIN;  // NCCL's choice
};
inline constexpr int kNcclSuccess = 0, kNcclRemoteError = 6, kNcclInProgress = 7;
inline constexpr int kNcclInt8 = 0;

struct Nccl {
  int (*get_version)(int*);
  int (*get_unique_id)(NcclId*);
  int (*comm_init_rank_config)(NcclComm*, int ranks, NcclId, int rank, NcclConfig*);
  int (*comm_get_async_error)(NcclComm, int*);
  int (*comm_finalize)(NcclComm);
  int (*comm_destroy)(NcclComm);
  int (*comm_abort)(NcclComm);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, size_t count, int type, int peer, NcclComm, Stream);
  int (*recv)(void*, size_t count, int type, int peer, NcclComm, Stream);
  const char* (*get_error_string)(int);
  const char* (*get_last_error)(NcclComm);

  // "2.28.9"
  std::string version() const;
  // What a result means, with NCCL's own words on the last error; comm may be null.
  std::string text(int result, NcclComm comm) const;
};

// libnccl.so.2, opened once. Fails with kUnsupported, saying why it cannot be used.
const Nccl& nccl();
Nccl open_nccl(const char* file);

}  // namespace assay::cuda
