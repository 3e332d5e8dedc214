// The engine's objects stand in libassay and in the plug-in: each says here what it was built from.
#include "header_digest.h"
#include "sdk/backend/cuda/plugin.h"
#include "sdk/base/version.h"

namespace assay::cuda {

// The size is for containers that check themselves, which no header of ours shows.
std::string fingerprint() {
  return cat(kLibraryVersion, " ", __VERSION__, " headers ", kHeaderDigest, " ", sizeof(Graph));
}

}  // namespace assay::cuda
