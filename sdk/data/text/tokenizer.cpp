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
  // `places`, unless null, receives for each byte of the words the bytes that it comes from.
  WordWriter(bool protect_special, std::string& words, std::vector<ByteRange>* places)
      : protect_special_(protect_special), words_(words), places_(places) {}

  // `at` is where it stands.
  void add(std::string_view character, size_t at) {
    is_ascii_ = is_ascii_ && character.size() == 1;
    word_ += character;
    if (places_ != nullptr) sources_.push_back({at, at + character.size()});
  }

  void end_word() {
    if (word_.empty()) return;
    if (protect_special_ && std::ranges::find(kSpecialPieces, word_) != kSpecialPieces.end()) {
      words_ += word_;
      if (places_ != nullptr) places_->insert(places_->end(), sources_.begin(), sources_.end());
    } else if (is_ascii_) {
      for (size_t i = 0; i < word_.size(); ++i) {
        const char c = word_[i];
        write(static_cast<char32_t>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c), i);
      }
    } else {
      write_folded();
    }
    separate();
    word_.clear();
    sources_.clear();
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
    const std::vector<char32_t> folded = without_case_and_accents(characters_);
    if (places_ != nullptr) sources_ = sources_of_folded(folded.size());
    for (size_t i = 0; i < folded.size(); ++i) write(folded[i], i);
  }

  // A character becomes none, one or several. Where that depends on its neighbours, all of them
  // come from the whole word.
  std::vector<ByteRange> sources_of_folded(size_t count) const {
    std::vector<ByteRange> sources;
    for (size_t i = 0; i < characters_.size(); ++i)
      sources.resize(sources.size() + without_case_and_accents({characters_[i]}).size(),
                     sources_[i]);
    const ByteRange whole{sources_.front().begin, sources_.back().end};
    return sources.size() == count ? sources : std::vector<ByteRange>(count, whole);
  }

  void write(char32_t character, size_t source) {
    const bool alone = character_kind(character) == CharacterKind::kPunctuation;
    if (alone) separate();
    if (character < 128) {
      words_ += static_cast<char>(character);
    } else {
      append_utf8(words_, character);
    }
    if (places_ != nullptr) places_->resize(words_.size(), sources_[source]);
    if (alone) separate();
  }

  void separate() {
    if (!words_.empty() && words_.back() != ' ') words_ += ' ';
    if (places_ != nullptr) places_->resize(words_.size());
  }

  const bool protect_special_;
  std::string& words_;
  std::vector<ByteRange>* places_;
  std::string word_;
  std::vector<ByteRange> sources_;  // of the characters of the word
  bool is_ascii_ = true;
  std::vector<char32_t> characters_;
};

int64_t count_characters(std::string_view utf8) {
  return std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary, TokenizerOptions options)
    : vocabulary_(std::move(vocabulary)), options_(options) {}

void Tokenizer::append_words(std::string_view text, std::string& words) const {
  write_words(text, words, nullptr);
}

void Tokenizer::write_words(std::string_view text, std::string& words,
                            std::vector<ByteRange>* places) const {
  const size_t begin = words.size();
  WordWriter writer(options_.protect_special, words, places);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = utf8_length(rest);
    if (length == 0) {
      words.resize(begin);
      fail(Code::kFormat, cat("the text is not UTF-8 at byte ", text.size() - rest.size(), ": ",
                              excerpt(rest.substr(0, 8))));
    }
    const auto character = rest.substr(0, length);
    const size_t at = text.size() - rest.size();
    rest.remove_prefix(length);
    switch (character_kind(decode_utf8(character, length))) {
      case CharacterKind::kRemoved:
        break;
      case CharacterKind::kBlank:
        writer.end_word();
        break;
      case CharacterKind::kIdeograph:
        writer.end_word();
        writer.add(character, at);
        writer.end_word();
        break;
      case CharacterKind::kWord:
      case CharacterKind::kPunctuation:
        writer.add(character, at);
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
  if (count_characters(word) > options_.longest_word) return unknown();
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

std::vector<PlacedPiece> Tokenizer::pieces(std::string_view text) const {
  std::string words;
  std::vector<ByteRange> places;
  write_words(text, words, &places);
  std::vector<PlacedPiece> placed;
  std::vector<int32_t> ids;  // of a word
  for (size_t begin = 0, end; begin < words.size(); begin = end + 1) {
    end = words.find(' ', begin);
    ids.clear();
    append_pieces(std::string_view(words).substr(begin, end - begin), ids);
    size_t at = begin;
    for (const int32_t id : ids) {
      const bool is_unknown = id == vocabulary_->special().unknown;
      const size_t prefix = at == begin ? 0 : kContinues.size();
      const size_t next = is_unknown ? end : at + vocabulary_->piece(id).size() - prefix;
      placed.push_back({id, {places[at].begin, places[next - 1].end}});
      at = next;
    }
  }
  return placed;
}

}  // namespace assay::data
