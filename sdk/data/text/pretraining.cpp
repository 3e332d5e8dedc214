// BERT's pairs and static masks (arXiv:1810.04805, appendix A.1), ELECTRA's pairs
// (arXiv:2003.10555): rules of the published scripts, one function each.
#include "sdk/data/text/pretraining.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "sdk/base/error.h"

namespace assay::data {
namespace {

// [low, high].
int64_t between(int64_t low, int64_t high, PhiloxStream& random) {
  return low + random.below(static_cast<uint32_t>(high - low + 1));
}

template <class T>
void shuffle(std::vector<T>& items, PhiloxStream& random) {
  for (size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[random.below(static_cast<uint32_t>(i))]);
}

void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

TokenSequence joined(const std::vector<int32_t>& first, const std::vector<int32_t>& second,
                     const SpecialIds& special) {
  TokenSequence sequence;
  sequence.ids = {special.classification};
  append(sequence.ids, first);
  sequence.ids.push_back(special.separator);
  sequence.first_size = static_cast<int64_t>(sequence.ids.size());
  if (second.empty()) return sequence;
  append(sequence.ids, second);
  sequence.ids.push_back(special.separator);
  return sequence;
}

// ---- BERT ----

class BertBuilder {
 public:
  BertBuilder(const Documents& documents, const Vocabulary& vocabulary, const BertOptions& options,
              PhiloxStream& random)
      : documents_(documents), vocabulary_(vocabulary), options_(options), random_(random) {}

  void add_document(size_t number, std::vector<MaskedSequence>& instances) {
    const Document& document = documents_[number];
    target_ = draw_target();
    size_t begin = 0;  // of the sentences collected: [begin, i]
    int64_t size = 0;
    for (size_t i = 0; i < document.size(); ++i) {
      size += static_cast<int64_t>(document[i].size());
      if (i + 1 < document.size() && size < target_) continue;
      const size_t used =
          add_pair(number, std::span(document).subspan(begin, i + 1 - begin), instances);
      begin += used;
      i = begin - 1;  // sentences that were put back come again
      size = 0;
    }
  }

 private:
  int64_t max_pieces() const { return options_.sequence_length - 3; }

  int64_t draw_target() {
    return random_.bernoulli(options_.short_fraction) ? between(2, max_pieces(), random_)
                                                      : max_pieces();
  }

  // Returns how many of the sentences it used.
  size_t add_pair(size_t number, std::span<const Sentence> sentences,
                  std::vector<MaskedSequence>& instances) {
    size_t first_end = 1;
    if (sentences.size() >= 2)
      first_end =
          static_cast<size_t>(between(1, static_cast<int64_t>(sentences.size()) - 1, random_));
    std::vector<int32_t> first, second;
    for (const Sentence& sentence : sentences.first(first_end)) append(first, sentence);
    const bool random_next = sentences.size() == 1 || random_.bernoulli(0.5f);
    bool is_random = false;
    size_t used = sentences.size();
    if (random_next) {
      is_random =
          append_from_elsewhere(number, target_ - static_cast<int64_t>(first.size()), second);
      used = first_end;
    } else {
      for (const Sentence& sentence : sentences.subspan(first_end)) append(second, sentence);
    }
    truncate(first, second);
    if (!second.empty())
      instances.push_back(masked(joined(first, second, vocabulary_.special()), is_random));
    return used;
  }

  // Sentences of another document from a random one on. False if ten tries met only this one: the
  // file may have no other.
  bool append_from_elsewhere(size_t number, int64_t wanted, std::vector<int32_t>& second) {
    size_t other = number;
    for (int i = 0; i < 10 && other == number; ++i)
      other = random_.below(static_cast<uint32_t>(documents_.size()));
    const Document& document = documents_[other];
    const size_t start = random_.below(static_cast<uint32_t>(document.size()));
    for (size_t i = start;
         i < document.size() && static_cast<int64_t>(second.size()) < std::max<int64_t>(wanted, 1);
         ++i)
      append(second, document[i]);
    return other != number;
  }

  // One piece at a time from the longer side, at its front or back.
  void truncate(std::vector<int32_t>& first, std::vector<int32_t>& second) {
    struct Rest {
      std::vector<int32_t>& ids;
      size_t begin, end;
      size_t size() const { return end - begin; }
    } a{first, 0, first.size()}, b{second, 0, second.size()};
    while (static_cast<int64_t>(a.size() + b.size()) > max_pieces()) {
      Rest& longer = a.size() > b.size() ? a : b;
      random_.bernoulli(0.5f) ? ++longer.begin : --longer.end;
    }
    for (Rest* rest : {&a, &b}) {
      rest->ids.resize(rest->end);
      rest->ids.erase(rest->ids.begin(), rest->ids.begin() + static_cast<int64_t>(rest->begin));
    }
  }

  MaskedSequence masked(TokenSequence sequence, bool random_next) {
    const SpecialIds& special = vocabulary_.special();
    std::vector<int32_t> candidates;
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      if (sequence.ids[i] != special.classification && sequence.ids[i] != special.separator)
        candidates.push_back(static_cast<int32_t>(i));
    }
    shuffle(candidates, random_);
    candidates.resize(std::min(candidates.size(), predictions(sequence.ids.size())));
    std::ranges::sort(candidates);
    MaskedSequence instance{std::move(sequence), std::move(candidates), {}, random_next};
    for (const int32_t position : instance.positions) {
      int32_t& id = instance.sequence.ids[static_cast<size_t>(position)];
      instance.labels.push_back(id);
      id = shown_instead_of(id);
    }
    return instance;
  }

  // A fraction of all pieces, [CLS] and [SEP] too; halves to the even number.
  size_t predictions(size_t size) const {
    const double wanted = std::nearbyint(static_cast<double>(size) * options_.masked_fraction);
    return static_cast<size_t>(
        std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, options_.prediction_slots));
  }

  int32_t shown_instead_of(int32_t id) {
    if (random_.bernoulli(0.8f)) return vocabulary_.special().mask;
    if (random_.bernoulli(0.5f)) return id;
    return static_cast<int32_t>(random_.below(static_cast<uint32_t>(vocabulary_.size())));
  }

  const Documents& documents_;
  const Vocabulary& vocabulary_;
  const BertOptions& options_;
  PhiloxStream& random_;
  int64_t target_ = 0;  // pieces that the pairs of the document under way aim at
};

// ---- ELECTRA ----

class ElectraBuilder {
 public:
  ElectraBuilder(const Vocabulary& vocabulary, int64_t sequence_length, PhiloxStream random,
                 std::vector<TokenSequence>& sequences)
      : vocabulary_(vocabulary),
        sequence_length_(sequence_length),
        target_(sequence_length),
        random_(random),
        sequences_(sequences) {}

  void add(const Sentence& sentence) {
    sentences_.push_back(&sentence);
    size_ += static_cast<int64_t>(sentence.size());
    if (size_ >= target_) emit();
  }

  void emit() {
    if (sentences_.empty()) return;
    constexpr int64_t kSingleSegment = 100'000;
    const int64_t first_target = random_.bernoulli(0.1f) ? kSingleSegment : (target_ - 3) / 2;
    std::vector<int32_t> first, second;
    for (const Sentence* sentence : sentences_) {
      const auto size = static_cast<int64_t>(first.size());
      const bool fits = size + static_cast<int64_t>(sentence->size()) < first_target;
      const bool to_first = first.empty() || fits ||
                            (second.empty() && size < first_target && random_.bernoulli(0.5f));
      append(to_first ? first : second, *sentence);
    }
    const auto cut = [](std::vector<int32_t>& segment, int64_t most) {
      if (static_cast<int64_t>(segment.size()) > most) segment.resize(static_cast<size_t>(most));
    };
    cut(first, sequence_length_ - 2);
    cut(second, std::max<int64_t>(0, sequence_length_ - static_cast<int64_t>(first.size()) - 3));
    sequences_.push_back(joined(first, second, vocabulary_.special()));
    sentences_.clear();
    size_ = 0;
    target_ = random_.bernoulli(0.05f) ? between(5, sequence_length_, random_) : sequence_length_;
  }

 private:
  const Vocabulary& vocabulary_;
  const int64_t sequence_length_;
  int64_t target_;
  int64_t size_ = 0;  // pieces of the sentences that wait
  PhiloxStream random_;
  std::vector<const Sentence*> sentences_;
  std::vector<TokenSequence>& sequences_;
};

// ---- Lines to sentences ----

// Takes the first of `endings` that `text` begins with off it.
bool skip_any(std::string_view& text, std::span<const std::string_view> endings) {
  for (const auto ending : endings) {
    if (!text.starts_with(ending)) continue;
    text.remove_prefix(ending.size());
    return true;
  }
  return false;
}

bool ends_in_abbreviation(std::string_view sentence) {
  static constexpr std::string_view kAbbreviations[] = {
      "Mr",  "Mrs", "Ms",  "Dr",     "St",    "Prof", "Jr",  "Sr",  "Rev",
      "Hon", "Gen", "Col", "Capt",   "Lieut", "Lt",   "Sgt", "Maj", "No",
      "vs",  "cf",  "Mt",  "Messrs", "Mme",   "Mlle", "i.e", "e.g"};
  const size_t blank = sentence.find_last_of(" (\"");
  const auto word = sentence.substr(blank == std::string_view::npos ? 0 : blank + 1);
  const bool initial = word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z';
  return initial || std::ranges::find(kAbbreviations, word) != std::end(kAbbreviations);
}

// Whether a sentence can begin so.
bool begins_sentence(std::string_view text) {
  static constexpr std::string_view kOpening[] = {"\"", "'", "(", "[", "\u201c", "\u2018"};
  if (text.empty()) return false;
  const char c = text[0];
  return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || skip_any(text, kOpening);
}

// The first sentence of a paragraph, which it is taken off.
std::string_view take_sentence(std::string_view& paragraph) {
  static constexpr std::string_view kClosing[] = {"\"", "'", ")", "]", "\u201d", "\u2019"};
  for (size_t at = paragraph.find_first_of(".?!"); at != std::string_view::npos;
       at = paragraph.find_first_of(".?!", at + 1)) {
    std::string_view rest = paragraph.substr(at + 1);
    while (skip_any(rest, kClosing)) {
    }
    if (!rest.starts_with(' ') || !begins_sentence(rest.substr(1))) continue;
    if (paragraph[at] == '.' && ends_in_abbreviation(paragraph.substr(0, at))) continue;
    const auto sentence = paragraph.substr(0, paragraph.size() - rest.size());
    paragraph = rest.substr(1);
    return sentence;
  }
  return std::exchange(paragraph, {});
}

void check_length(int64_t sequence_length) {
  if (sequence_length < 5 || sequence_length > 512)
    fail(Code::kInvalid,
         cat("sequences of ", sequence_length, " pieces; models have positions for 5 to 512"));
}

}  // namespace

Documents read_documents(std::string_view text, Lines lines, const Tokenizer& tokenizer,
                         int64_t first_line) {
  Documents documents;
  Document document;
  const auto end_document = [&] {
    if (!document.empty()) documents.push_back(std::exchange(document, {}));
  };
  for (int64_t number = first_line; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) end_document();
    try {
      while (!line.empty()) {
        Sentence ids = tokenizer.ids(lines == Lines::kSentences ? std::exchange(line, {})
                                                                : take_sentence(line));
        if (!ids.empty()) document.push_back(std::move(ids));
      }
    } catch (const Error& error) {
      throw error.with_context(cat("line ", number));
    }
  }
  end_document();
  return documents;
}

std::vector<MaskedSequence> bert_instances(const Documents& documents, const Vocabulary& vocabulary,
                                           const BertOptions& options, PhiloxStream random) {
  check_length(options.sequence_length);
  std::vector<MaskedSequence> instances;
  BertBuilder builder(documents, vocabulary, options, random);
  for (int64_t pass = 0; pass < options.duplicates; ++pass)
    for (size_t number = 0; number < documents.size(); ++number)
      builder.add_document(number, instances);
  shuffle(instances, random);
  return instances;
}

std::vector<TokenSequence> electra_sequences(const Documents& documents,
                                             const Vocabulary& vocabulary, int64_t sequence_length,
                                             PhiloxStream random) {
  check_length(sequence_length);
  std::vector<TokenSequence> sequences;
  ElectraBuilder builder(vocabulary, sequence_length, random, sequences);
  for (const Document& document : documents) {
    for (const Sentence& sentence : document) builder.add(sentence);
    builder.emit();
  }
  return sequences;
}

}  // namespace assay::data
