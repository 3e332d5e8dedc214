// Mismatches in words, and guesses what a misspelt name was meant to be.
#include "sdk/base/expect.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "sdk/base/utf8.h"
#include "sdk/base/wildcard.h"

namespace assay {
namespace {

// Insertions, deletions, replacements and exchanges of neighbours that turn one word into the other
// (Damerau and Levenshtein).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), last(row), next(row);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({row[j] + (a[i] != b[j]), next[j] + 1, row[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        next[j + 1] = std::min(next[j + 1], last[j - 1] + 1);
    }
    last.swap(row);
    row.swap(next);
  }
  return row.back();
}

// "lr" of "learning_rate".
bool is_initials(std::string_view letters, std::string_view name) {
  size_t next = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool begins_word = i == 0 || name[i - 1] == '_';
    if (!begins_word) continue;
    if (next == letters.size() || letters[next++] != name[i]) return false;
  }
  return next == letters.size() && next >= 2;
}

// "bf16" of "amp-bf16", "norm" of "clip_norm".
bool is_word_of(std::string_view word, std::string_view name) {
  const auto ends_word = [&](size_t i) {
    return i == name.size() || name[i] == '_' || name[i] == '-';
  };
  const size_t begin = name.find(word);
  if (word.empty() || begin == std::string_view::npos) return false;
  return (begin == 0 || ends_word(begin - 1)) && ends_word(begin + word.size());
}

}  // namespace

void fail_mismatch(Code code, Mismatch mismatch) {
  std::string message =
      cat(mismatch.subject, " is ", mismatch.actual, ", expected ", mismatch.expected);
  if (!mismatch.hint.empty()) message += "; " + mismatch.hint;
  fail(code, std::move(message),
       {.argument = std::move(mismatch.argument),
        .expected = std::move(mismatch.expected),
        .actual = std::move(mismatch.actual),
        .hint = std::move(mismatch.hint)});
}

std::string to_text(const Key& key) {
  return key.of.empty() ? std::string(key.path) : cat(key.of, ": ", key.path);
}

std::string to_text(const Interval& interval) {
  return cat(interval.with_low ? "[" : "(", interval.low, ", ", interval.high,
             interval.with_high ? "]" : ")");
}

bool contains(const Interval& interval, double value) {
  const bool above = interval.with_low ? value >= interval.low : value > interval.low;
  const bool below = interval.with_high ? value <= interval.high : value < interval.high;
  return above && below;
}

void expect_number(const Key& key, double value, const Interval& interval) {
  expect(std::isfinite(value) && contains(interval, value), key, value, "a number in ", interval);
}

void expect_one_of(const Key& key, std::string_view value,
                   std::span<const std::string_view> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  fail_mismatch(Code::kInvalid,
                {to_text(key), std::string(key.path), value.empty() ? "not given" : excerpt(value),
                 enumerate(known, true), suggestion(value, known)});
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string_view candidate : known) {
    const size_t distance = is_initials(name, candidate) ? 0 : edit_distance(name, candidate);
    // A third of the letters may differ, at least one: "sdg" is near "sgd", "silu" not near "relu".
    const size_t most = std::max<size_t>(std::max(name.size(), candidate.size()) / 3, 1);
    // Of equally near names the first wins. One of which no letter would stay is not near.
    if (distance >= least || distance > most || distance >= candidate.size()) continue;
    least = distance;
    best = candidate;
  }
  if (!best.empty()) return best;
  const auto contains = [&](std::string_view candidate) { return is_word_of(name, candidate); };
  return std::ranges::count_if(known, contains) == 1 ? *std::ranges::find_if(known, contains) : "";
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view meant = nearest(name, known);
  return meant.empty() ? "" : cat("did you mean \"", meant, "\"?");
}

std::string suggested_pattern(std::string_view pattern, std::span<const std::string_view> names) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return suggestion(pattern, names);
  const size_t dot = pattern.substr(0, star).rfind('.');
  if (dot == std::string_view::npos) return "";
  const auto parts = std::ranges::count(pattern.substr(0, dot), '.') + 1;
  std::set<std::string> like_it;
  for (const std::string_view name : names) {
    size_t end = 0;
    for (auto left = parts; left > 0 && end != std::string_view::npos; --left)
      end = name.find('.', end == 0 ? 0 : end + 1);
    if (end == std::string_view::npos) continue;
    const std::string candidate = cat(name.substr(0, end), pattern.substr(dot));
    if (wildcard_match(candidate, name)) like_it.insert(candidate);
  }
  const std::vector<std::string_view> known(like_it.begin(), like_it.end());
  return suggestion(pattern, known.empty() ? names : known);
}

void fail_unknown(std::string_view what, std::string_view argument, std::string_view name,
                  std::span<const std::string_view> known) {
  const std::string names = known.empty() ? "none" : enumerate(known);
  const std::string hint = suggestion(name, known);
  fail(Code::kNotFound,
       cat(what, " ", excerpt(name), "; ", hint, hint.empty() ? "" : " ", "there are ",
           known.empty() ? "none" : enumerate(known, false, " and ")),
       {.argument = std::string(argument),
        .expected = names,
        .actual = std::string(name),
        .hint = hint});
}

std::string enumerate(std::span<const std::string_view> names, bool quoted, std::string_view last) {
  const std::string_view mark = quoted ? "\"" : "";
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string_view before = i == 0 ? "" : i + 1 == names.size() ? last : ", ";
    text += cat(before, mark, names[i], mark);
  }
  return text;
}

}  // namespace assay
