// Reports become text when they are made.
#include "capi/src/report.h"

#include <google/protobuf/message.h>

#include "capi/src/abi.h"
#include "sdk/base/proto_json.h"

namespace assay::capi {

assay_report* new_report(const google::protobuf::Message& message) {
  return new assay_report{to_json(message)};
}

}  // namespace assay::capi

using namespace assay::capi;

assay_str assay_report_text(const assay_report* r) {
  return r == nullptr ? assay_str{nullptr, 0} : to_str(r->text);
}

void assay_report_free(assay_report* r) { delete r; }
