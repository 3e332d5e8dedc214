// Reports about checkpoints, for people.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <string>

namespace assay::tools {

std::string inspection_text(const google::protobuf::Struct& report);
std::string verification_text(const google::protobuf::Struct& report);
std::string comparison_text(const google::protobuf::Struct& report);
std::string conversion_text(const google::protobuf::Struct& report);
std::string export_text(const google::protobuf::Struct& report);

}  // namespace assay::tools
