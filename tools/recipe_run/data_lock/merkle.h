// Merkle roots: one digest for a set of digests.
#pragma once

#include <string>
#include <vector>

namespace reciperun {

// Of `leaves` in the given order, as hexadecimal text. A leaf is hashed behind a byte 0, a pair of
// nodes behind a byte 1, so that neither can pass for the other; the last node of an odd level goes
// up alone (RFC 6962). No leaves: the digest of nothing.
std::string merkle_root(const std::vector<std::string>& leaves);

}  // namespace reciperun
