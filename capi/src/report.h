// Reports: protobuf messages printed as JSON.
#pragma once

#include <string>

#include "assay/assay.h"

namespace google::protobuf {
class Message;
}

struct assay_report {
  std::string text;
};

namespace assay::capi {

// The caller's handle of a report with this content.
assay_report* new_report(const google::protobuf::Message& message);

}  // namespace assay::capi
