// Values in and out of protobuf messages by the name of a field, so that a struct that lists its
// fields once needs no line per field for each message it goes through.
#pragma once

#include <google/protobuf/message.h>

#include <concepts>
#include <string>

namespace assay::checkpoint {

// The message must have the field, singular and of the value's type.
template <class T>
void set_field(google::protobuf::Message& message, const char* name, const T& value) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  const auto* reflection = message.GetReflection();
  if constexpr (std::same_as<T, std::string>) {
    reflection->SetString(&message, field, value);
  } else if constexpr (std::same_as<T, double>) {
    reflection->SetDouble(&message, field, value);
  } else if constexpr (std::same_as<T, int64_t>) {
    reflection->SetInt64(&message, field, value);
  } else {
    static_assert(std::same_as<T, uint64_t>);
    reflection->SetUInt64(&message, field, value);
  }
}

template <class T>
void get_field(const google::protobuf::Message& message, const char* name, T& value) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  const auto* reflection = message.GetReflection();
  if constexpr (std::same_as<T, std::string>) {
    value = reflection->GetString(message, field);
  } else if constexpr (std::same_as<T, double>) {
    value = reflection->GetDouble(message, field);
  } else if constexpr (std::same_as<T, int64_t>) {
    value = reflection->GetInt64(message, field);
  } else {
    static_assert(std::same_as<T, uint64_t>);
    value = reflection->GetUInt64(message, field);
  }
}

}  // namespace assay::checkpoint
