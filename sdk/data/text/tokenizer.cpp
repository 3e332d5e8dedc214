// Two stages. Words: characters are removed, made blanks or kept, in one pass over the bytes; most
// words are ASCII and need no tables of Unicode. Pieces: greedy look-ups, the longest first.
#include "sdk/data/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/utf8.h"
#include "sdk/data/text/unicode.h"

namespace assay::data {
namespace {

// Collects the characters between two blanks and writes them as words of the vocabulary's kind.
class WordWriter {
 public:
  WordWriter(bool protect_special, std::string& words)
      : protect_special_(protect_special), words_(words) {}

  void add(std::string_view character) {
    is_ascii_ = is_ascii_ && character.size() == 1;
    word_ += character;
  }

  void end_word() {
    if (word_.empty()) return;
    if (protect_special_ && std::ranges::find(kSpecialPieces, word_) != kSpecialPieces.end()) {
      words_ += word_;
    } else if (is_ascii_) {
      for (const char c : word_)
        write(static_cast<char32_t>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
    } else {
      write_folded();
    }
    separate();
    word_.clear();
    is_ascii_ = true;
  }

 private:
  void write_folded() {
    characters_.clear();
    for (std::string_view rest = word_; !rest.empty();) {
      const size_t length = utf8_length(rest);
      characters_.push_back(decode_utf8(rest, length));
      rest.remove_prefix(length);
    }
    for (const char32_t c : without_case_and_accents(characters_)) write(c);
  }

  void write(char32_t character) {
    const bool alone = character_kind(character) == CharacterKind::kPunctuation;
    if (alone) separate();
    if (character < 128) {
      words_ += static_cast<char>(character);
    } else {
      append_utf8(words_, character);
    }
    if (alone) separate();
  }

  void separate() {
    if (!words_.empty() && words_.back() != ' ') words_ += ' ';
  }

  const bool protect_special_;
  std::string& words_;
  std::string word_;
  bool is_ascii_ = true;
  std::vector<char32_t> characters_;
};

int64_t characters_of(std::string_view utf8) {
  return std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary, TokenizerOptions options)
    : vocabulary_(std::move(vocabulary)), options_(options) {}

void Tokenizer::append_words(std::string_view text, std::string& words) const {
  const size_t begin = words.size();
  WordWriter writer(options_.protect_special, words);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = utf8_length(rest);
    if (length == 0) {
      words.resize(begin);
      fail(Code::kFormat, cat("the text is not UTF-8 at byte ", text.size() - rest.size(), ": ",
                              excerpt(rest.substr(0, 8))));
    }
    const auto character = rest.substr(0, length);
    rest.remove_prefix(length);
    switch (character_kind(decode_utf8(character, length))) {
      case CharacterKind::kRemoved:
        break;
      case CharacterKind::kBlank:
        writer.end_word();
        break;
      case CharacterKind::kIdeograph:
        writer.end_word();
        writer.add(character);
        writer.end_word();
        break;
      case CharacterKind::kWord:
      case CharacterKind::kPunctuation:
        writer.add(character);
        break;
    }
  }
  writer.end_word();
}

void Tokenizer::append_pieces(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t begin = ids.size();
  const auto unknown = [&] {
    ids.resize(begin);
    ids.push_back(vocabulary_->special().unknown);
  };
  if (characters_of(word) > options_.longest_word) return unknown();
  for (std::string_view rest = word; !rest.empty();) {
    const auto& index =
        rest.size() == word.size() ? vocabulary_->beginnings() : vocabulary_->continuations();
    size_t length = std::min(rest.size(), vocabulary_->longest());
    auto piece = index.find(rest.substr(0, length));
    while (piece == index.end() && length > 1) piece = index.find(rest.substr(0, --length));
    if (piece == index.end()) return unknown();
    ids.push_back(piece->second);
    rest.remove_prefix(length);
  }
}

void Tokenizer::append(std::string_view text, std::vector<int32_t>& ids) const {
  std::string words;
  append_words(text, words);
  for (std::string_view rest = words; !rest.empty();) {
    const size_t end = rest.find(' ');
    append_pieces(rest.substr(0, end), ids);
    rest.remove_prefix(end + 1);
  }
}

std::vector<int32_t> Tokenizer::ids(std::string_view text) const {
  std::vector<int32_t> ids;
  append(text, ids);
  return ids;
}

}  // namespace assay::data
