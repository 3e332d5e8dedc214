// The canonical form of a resolved recipe and its two digests.
//
// Canonical form: JSON on one line, keys sorted by bytes, enums by name, numbers in their shortest
// round-trip form. Protobuf's own bytes are not canonical across versions, this text is. Fields
// that have their default value are left out, so that a field added to the schema changes the
// digest of those recipes only that set it (sdk/decisions/0004-digests-leave-out-defaults.md).
#pragma once

#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

std::string canonical_json(const google::protobuf::Message& message);

// What decides the run, the rest left out.
v1::Recipe executed_part(const v1::Recipe& recipe);

// SHA-256 over what decides the run: model, data, training, numerics, trials (without count and
// max_count), evaluation, bench, topology, all without the fields that are for people. Runs with
// equal exec digests continue each other.
std::string exec_digest(const v1::Recipe& recipe);

// SHA-256 over what the run is held against: platform, sources, expectations, deviations.
std::string expect_digest(const v1::Recipe& recipe);

}  // namespace reciperun
