// Text to the ids of a WordPiece vocabulary, as BERT and ELECTRA read it (uncased): words in lower
// case without accents, each then cut into the longest pieces from the left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/data/text/vocabulary.h"

namespace assay::data {

struct TokenizerOptions {
  // A word that is exactly "[MASK]" or another special piece stays whole; without, it is
  // punctuation and a word, as in BERT's TensorFlow scripts.
  bool protect_special = true;
  // Words of more characters are unknown: 100, and 200 in Google's BERT.
  int64_t longest_word = 100;
};

// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0, end = 0;
};

// A piece and what it stands for in the text; an unknown one for all of its word. Bytes that the
// tokenizer drops, such as marks of accents, may lie between two pieces.
struct PlacedPiece {
  int32_t id;
  ByteRange bytes;
};

// Immutable; any number of threads may use one.
class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary, TokenizerOptions options = {});

  // The ids of `text`, behind those in `ids`. Fails with kFormat where it is not UTF-8, and then
  // leaves `ids` as it was.
  void append(std::string_view text, std::vector<int32_t>& ids) const;
  std::vector<int32_t> ids(std::string_view text) const;
  // The same ids, with their places.
  std::vector<PlacedPiece> pieces(std::string_view text) const;
  // The words that are cut into pieces, each followed by a blank: lower case, punctuation split
  // off. Appends to `words`; fails as append does.
  void append_words(std::string_view text, std::string& words) const;

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const TokenizerOptions& options() const { return options_; }

 private:
  // `places`, unless null, receives for each byte of the words the character that it comes from.
  void write_words(std::string_view text, std::string& words, std::vector<ByteRange>* places) const;
  void append_pieces(std::string_view word, std::vector<int32_t>& ids) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  TokenizerOptions options_;
};

}  // namespace assay::data
