// A vocabulary file, checked line by line: an id that moved by one would be another language.
#include "sdk/data/text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/utf8.h"

namespace assay::data {
namespace {

[[noreturn]] void fail_line(size_t line, std::string_view problem) {
  fail(Code::kFormat, cat("vocabulary, line ", line, ": ", problem));
}

void check_piece(std::string_view piece, size_t line) {
  if (piece.empty()) fail_line(line, "it is empty, a piece was expected");
  if (piece.ends_with('\r'))
    fail_line(line, "it ends in CR LF; lines of a vocabulary end in LF alone");
  if (!is_utf8(piece)) fail_line(line, cat(excerpt(piece), " is not UTF-8"));
  if (piece.find_first_of(" \t") != std::string_view::npos)
    fail_line(line, cat(excerpt(piece), " holds a blank, which no piece of a word can"));
}

}  // namespace

Vocabulary::Vocabulary(std::string text) : text_(std::move(text)) {
  std::string_view rest = text_;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    add_line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto special = [&](size_t k) {
    const auto id = find(kSpecialPieces[k]);
    if (!id) {
      fail(Code::kFormat, cat("vocabulary: it has no ", kSpecialPieces[k], " among its ",
                              pieces_.size(), " pieces"));
    }
    return *id;
  };
  special_ = {special(0), special(1), special(2), special(3), special(4)};
}

void Vocabulary::add_line(std::string_view line) {
  check_piece(line, pieces_.size() + 1);
  const bool continues = line.size() > kContinues.size() && line.starts_with(kContinues);
  Index& index = continues ? continuations_ : beginnings_;
  const auto piece = continues ? line.substr(kContinues.size()) : line;
  const auto [entry, added] = index.emplace(piece, size());
  if (!added) {
    fail_line(pieces_.size() + 1,
              cat(excerpt(line), " stands in line ", entry->second + 1, " already"));
  }
  pieces_.push_back(line);
  longest_ = std::max(longest_, piece.size());
}

std::shared_ptr<const Vocabulary> Vocabulary::parse(std::string text) {
  return std::shared_ptr<const Vocabulary>(new Vocabulary(std::move(text)));
}

std::shared_ptr<const Vocabulary> Vocabulary::read(const std::string& path) {
  std::string text = read_file(path);
  try {
    return parse(std::move(text));
  } catch (const Error& error) {
    throw error.with_context(path);
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view piece) const {
  const bool continues = piece.size() > kContinues.size() && piece.starts_with(kContinues);
  const Index& index = continues ? continuations_ : beginnings_;
  const auto entry = index.find(continues ? piece.substr(kContinues.size()) : piece);
  return entry == index.end() ? std::nullopt : std::optional(entry->second);
}

}  // namespace assay::data
