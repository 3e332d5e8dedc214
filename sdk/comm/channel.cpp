#include "sdk/comm/channel.h"

#include "sdk/base/error.h"

namespace assay {

void require_agreement(Channel& channel, std::string_view what, std::string_view mine) {
  const std::vector<std::string> all = channel.gather(mine);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail(Code::kComm,
         cat("rank ", rank, " has another ", what, " than rank 0: ", all[rank], ", not ", all[0]),
         {.argument = std::string(what),
          .expected = all[0],
          .actual = all[rank],
          .hint = "start every rank with the same program, configuration and data"});
  }
}

}  // namespace assay
