// Field paths: "training.epochs", "bench.train.batch", "model.hparam.stem",
// "data.train.pipeline.0.op". Keys may contain dots themselves ("expect.thr.g1.single.v"): the
// longest key that fits wins.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace reciperun {

// A field, or one element of a repeated field (`index` >= 0), inside `parent`.
struct Place {
  google::protobuf::Message* parent = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
  int index = -1;
};

// Walks `path` from `root`, creating messages and map entries that are missing. Fails on a name the
// schema lacks or a key that no element has, with the names there are.
Place find_place(google::protobuf::Message& root, std::string_view path);

// Whether the schema allows `path`; keys are not looked up. Returns "" or what is wrong with it.
std::string path_problem(const google::protobuf::Descriptor& root, std::string_view path);

// `path` is `prefix` or lies below it.
bool is_under(std::string_view path, std::string_view prefix);

// The value at a place as one line of recipe text, "" if not set.
std::string value_text(const Place& place);

void clear_place(const Place& place);

}  // namespace reciperun
