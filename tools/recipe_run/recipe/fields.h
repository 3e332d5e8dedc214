// The fields of a recipe by their paths: "training.epochs", "bench.train.batch",
// "model.hparam.stem", "data.train.pipeline.0.op". Keys may contain dots themselves
// ("expect.thr.g1.single.v"): the longest key that fits wins. Fields are found and cleared, laid
// over one another with a note of where each value comes from, and compared.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/recipe/parse.h"
#include "tools/recipe_run/recipe/resolved.pb.h"

namespace reciperun {

using Changes = google::protobuf::RepeatedPtrField<Change>;
Change change_of(const std::string& path, const std::string& from, const std::string& to);

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

struct Origin {
  std::string file;   // or "--set"
  int line = 0;       // from 1; 0 for --set
  std::string value;  // as recipe text
  int column = 0;     // from 1; 0 for --set

  // "file:line:column", or "--set".
  std::string place() const;
};

// For every set path: who set it, the last one counts; earlier ones are what it hides.
using Origins = std::map<std::string, std::vector<Origin>>;

// Lays `parsed` over `target`: scalars replace, messages merge, repeated messages with a key merge
// by key, other repeated fields replace, setting one member of a oneof removes the others.
// `extends` and `clear` are not carried over.
void lay_over(const ParsedFile& parsed, v1::Recipe& target, Origins& origins);

// Makes room for the field at `place`, whose path is `path`: the oneof's other member goes.
void drop_oneof_siblings(const Place& place, const std::string& path, Origins& origins);

// Who set `path` or, failing that, something below it; nullptr if nobody did.
const Origin* find_origin(const Origins& origins, const std::string& path);

// Forgets `path` and everything below it.
void forget(Origins& origins, const std::string& path);

std::string or_unset(const std::string& value);
// "training.epochs 90 → 5".
std::string change_text(const Change& change);
// Of all but the free ones.
std::vector<std::string> change_texts(const Changes& changes);

// The fields that decide what runs (digest.h) and differ, by path.
std::vector<Change> executed_differences(const v1::Recipe& first, const v1::Recipe& second);

}  // namespace reciperun
