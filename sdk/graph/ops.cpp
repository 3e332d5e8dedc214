#include "sdk/graph/ops.h"

#include <utility>

namespace assay {

#define ASSAY_CONVERT(Name) \
  Op::Op(Name op) : detail::OpVariant(std::in_place_type<Name>, std::move(op)) {}
ASSAY_OPS(ASSAY_CONVERT)
#undef ASSAY_CONVERT

Op::Op() = default;
Op::Op(const Op&) = default;
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(const Op&) = default;
Op& Op::operator=(Op&&) noexcept = default;
Op::~Op() = default;

}  // namespace assay
