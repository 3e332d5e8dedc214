// Checks that tell a program, not only a person, what was found and what was expected.
//
// Their messages read "<subject> is <actual>, expected <expected>; <hint>", and the parts stand in
// ErrorDetail besides, where assay_error_info shows them. Texts are built only on failure.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "sdk/base/error.h"

namespace assay {

// Something that is one thing and must be another.
struct Mismatch {
  std::string subject;   // as the message calls it: "batch tensor 0 (image)"
  std::string argument;  // its name as the caller wrote it: "image", "optimizer.momentum"
  std::string actual;
  std::string expected;
  std::string hint = {};  // what to do, if that is not plain from `expected`
};
[[noreturn]] void fail_mismatch(Code code, Mismatch mismatch);

// A key of a configuration: of what ("trainer"), and its path there ("optimizer.momentum").
struct Key {
  std::string_view of;
  std::string_view path;
};
std::string to_text(const Key& key);  // "trainer: optimizer.momentum"

// Fails with kInvalid unless `ok`: "trainer: batch_size is 0, expected 1 to 4".
template <class Actual, class... Expected>
void expect(bool ok, const Key& key, const Actual& actual, const Expected&... expected) {
  if (!ok) [[unlikely]]
    fail_mismatch(Code::kInvalid,
                  {to_text(key), std::string(key.path), cat(actual), cat(expected...)});
}

// Numbers between two ends, of which the upper one may be excluded.
struct Interval {
  double low, high;
  bool with_high = false;
  bool with_low = true;
};
std::string to_text(const Interval& interval);  // "[0, 1)"

// The largest number of devices that compute in f32.
inline constexpr double kMaxF32 = std::numeric_limits<float>::max();

bool contains(const Interval& interval, double value);  // NaN is in none

// Fails with kInvalid for NaN, infinities and numbers outside.
void expect_number(const Key& key, double value, const Interval& interval);

// Fails with kInvalid unless the text is one of `known`; names the nearest of them.
void expect_one_of(const Key& key, std::string_view value, std::span<const std::string_view> known);
inline void expect_one_of(const Key& key, std::string_view value,
                          std::initializer_list<std::string_view> known) {
  expect_one_of(key, value, std::span(known.begin(), known.size()));
}

// What the writer of `name` may have meant: the entry of `known` that differs in few letters or
// that `name` abbreviates ("lr" for "learning_rate"), or the only one that it is a word of ("bf16"
// of "amp-bf16"). Empty if none comes near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);
// `did you mean "<nearest>"?`, or empty.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);
// The same for a pattern (wildcard.h) that matches none of the names, whose parts are joined by
// dots: for "haed.*" beside "head.weight" it is "head.*".
std::string suggested_pattern(std::string_view pattern, std::span<const std::string_view> names);

// Fails with kNotFound: `<what> "name"; did you mean "nearest"? there are a, b and c`.
[[noreturn]] void fail_unknown(std::string_view what, std::string_view argument,
                               std::string_view name, std::span<const std::string_view> known);

// "a, b or c"; each in quotation marks with `quoted`. `last` stands before the last one.
std::string enumerate(std::span<const std::string_view> names, bool quoted = false,
                      std::string_view last = " or ");

}  // namespace assay
