// A row as JSON, and back: what a report.json tells of a run that lies elsewhere.
#pragma once

#include <google/protobuf/struct.pb.h>

#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {

// One object, with all inputs of the row's test.
void write_row(JsonWriter& json, const Row& row, const TableWords& words = {});

// The row of a report.json as far as another run's is held against it: names, values, statistic and
// tolerance. Error kUsage if `object` lacks one of them.
Row read_row(const google::protobuf::Struct& object);

// Members of a JSON object; Error kUsage, naming it, for one that is missing or of another kind.
std::string text_member(const google::protobuf::Struct& object, const std::string& name);
double number_member(const google::protobuf::Struct& object, const std::string& name);
bool flag_member(const google::protobuf::Struct& object, const std::string& name);

}  // namespace reciperun
