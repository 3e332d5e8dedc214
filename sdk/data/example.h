// Reading and filling records in the tf.train.Example format (sdk/data/FORMAT.md).
//
// The readers fail with kFormat and name the feature: absent, of another kind, or with another
// number of values than asked for. References live as long as the example, unchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace assay::record {
class Example;  // example.proto
class Feature;
}  // namespace assay::record

namespace assay::data {

using record::Example;

// Replaces `example` by the message in `payload`; a reused message keeps its memory. Of features of
// one name the last counts, as in a map.
void parse_example(std::string_view payload, Example& example);
// The bytes of the message with features in order of their names: equal contents, equal bytes.
void serialize_example(const Example& example, std::string& payload);

const std::string& bytes_feature(const Example& example, const std::string& name);
int64_t int64_feature(const Example& example, const std::string& name);
std::span<const int64_t> int64s_feature(const Example& example, const std::string& name);
std::span<const float> floats_feature(const Example& example, const std::string& name);
bool has_feature(const Example& example, const std::string& name);
// Null if it is not there.
const record::Feature* find_feature(const Example& example, const std::string& name);

void set_bytes_feature(Example& example, const std::string& name, std::string_view value);
void set_bytes_list_feature(Example& example, const std::string& name,
                            std::span<const std::string> values);
void set_int64_feature(Example& example, const std::string& name, int64_t value);
void set_int64s_feature(Example& example, const std::string& name, std::span<const int64_t> values);
void set_floats_feature(Example& example, const std::string& name, std::span<const float> values);

}  // namespace assay::data
