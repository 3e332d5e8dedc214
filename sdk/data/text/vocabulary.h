// The pieces of a WordPiece vocabulary: one a line, the first with id 0; "##" begins those that
// continue a word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace assay::data {

inline constexpr std::string_view kContinues = "##";  // begins a piece that continues a word

// What sequences are made of besides words. Every vocabulary has them.
struct SpecialIds {
  int32_t padding, unknown, classification, separator, mask;
};
inline constexpr std::array<std::string_view, 5> kSpecialPieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                                "[MASK]"};

// Immutable; shared by tokenizers of any thread.
class Vocabulary {
 public:
  // The contents of a vocabulary file. Fails with kFormat and the line: a piece that is empty,
  // twice there, holds a blank or is not UTF-8; lines that end in CR LF; a special piece missing.
  static std::shared_ptr<const Vocabulary> parse(std::string text);
  static std::shared_ptr<const Vocabulary> read(const std::string& path);

  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
  // As it stands in the file, with its "##"; `id` is in [0, size()).
  std::string_view piece(int32_t id) const { return pieces_[static_cast<size_t>(id)]; }
  std::optional<int32_t> find(std::string_view piece) const;
  const SpecialIds& special() const { return special_; }
  // The file's bytes.
  const std::string& text() const { return text_; }

  // Of the pieces that begin a word, or of those that continue one, without "##".
  using Index = std::unordered_map<std::string_view, int32_t>;
  const Index& beginnings() const { return beginnings_; }
  const Index& continuations() const { return continuations_; }
  // The bytes of the longest piece.
  size_t longest() const { return longest_; }

 private:
  explicit Vocabulary(std::string text);
  void add_line(std::string_view line);

  const std::string text_;  // which the views below look into
  std::vector<std::string_view> pieces_;
  Index beginnings_, continuations_;
  size_t longest_ = 0;
  SpecialIds special_{};
};

}  // namespace assay::data
