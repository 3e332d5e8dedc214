// Opens the library, finds its functions and says in words what its results mean.
#include "sdk/backend/cuda/nccl.h"

#include <dlfcn.h>

#include "sdk/base/error.h"

namespace assay::cuda {
namespace {

constexpr int kOldest = 21400;  // the first whose calls need not wait for other ranks

template <class T>
void find(void* library, const char* file, const char* name, T& to) {
  void* const symbol = dlsym(library, name);
  require(symbol != nullptr, Code::kUnsupported, file, " has no ", name,
          "; NCCL 2.14 or newer is needed");
  to = reinterpret_cast<T>(symbol);
}

std::string version_text(int version) {
  return cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace

// Never closed: its threads run as long as the process does.
Nccl open_nccl(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    fail(Code::kUnsupported, cat("NCCL cannot be used: ", why),
         {.hint = "install NCCL 2 (libnccl2, or the wheel nvidia-nccl), or put its folder into "
                  "LD_LIBRARY_PATH"});
  }
  Nccl nccl{};
  find(library, file, "ncclGetVersion", nccl.get_version);
  find(library, file, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, file, "ncclCommInitRankConfig", nccl.comm_init_rank_config);
  find(library, file, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  find(library, file, "ncclCommFinalize", nccl.comm_finalize);
  find(library, file, "ncclCommDestroy", nccl.comm_destroy);
  find(library, file, "ncclCommAbort", nccl.comm_abort);
  find(library, file, "ncclGroupStart", nccl.group_start);
  find(library, file, "ncclGroupEnd", nccl.group_end);
  find(library, file, "ncclSend", nccl.send);
  find(library, file, "ncclRecv", nccl.recv);
  find(library, file, "ncclGetErrorString", nccl.get_error_string);
  find(library, file, "ncclGetLastError", nccl.get_last_error);
  int version = 0;
  nccl.get_version(&version);
  require(version >= kOldest, Code::kUnsupported, file, " is NCCL ", version_text(version),
          "; 2.14 or newer is needed");
  return nccl;
}

const Nccl& nccl() {
  static const Nccl kOpened = open_nccl("libnccl.so.2");
  return kOpened;
}

std::string Nccl::version() const {
  int version = 0;
  get_version(&version);
  return version_text(version);
}

std::string Nccl::text(int result, NcclComm comm) const {
  const char* const last = get_last_error(comm);
  const std::string_view more = last == nullptr ? "" : last;
  return cat("NCCL: ", std::string_view(get_error_string(result)), " (", result, ")",
             more.empty() ? "" : ", ", more);
}

}  // namespace assay::cuda
