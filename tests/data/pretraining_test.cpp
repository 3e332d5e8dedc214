// Sequences for pre-training: each rule of the published scripts, on documents whose pieces say
// where they come from.
#include "sdk/data/text/pretraining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "sdk/base/error.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

constexpr int32_t kFirstPiece = 5;  // behind the special ones
constexpr int32_t kCls = 2, kSep = 3, kMask = 4;

std::shared_ptr<const Vocabulary> numbered(int pieces) {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < pieces; ++i) text += cat("p", i, "\n");
  return Vocabulary::parse(text);
}

// Every piece occurs once: document d has ids 1000 d + kFirstPiece + 0, 1, 2, ...
Documents documents_of(int count, int sentences, uint64_t seed) {
  PhiloxStream random(seed, 1);
  Documents documents;
  for (int d = 0; d < count; ++d) {
    Document& document = documents.emplace_back();
    int32_t next = 1000 * d + kFirstPiece;
    for (int s = 0; s < sentences; ++s) {
      Sentence& sentence = document.emplace_back();
      for (uint32_t n = 1 + random.below(30); n > 0; --n) sentence.push_back(next++);
    }
  }
  return documents;
}
int document_of(int32_t id) { return (id - kFirstPiece) / 1000; }

// As it was before words were masked.
std::vector<int32_t> unmasked(const MaskedSequence& instance) {
  std::vector<int32_t> ids = instance.sequence.ids;
  for (size_t i = 0; i < instance.positions.size(); ++i)
    ids[instance.positions[i]] = instance.labels[i];
  return ids;
}

struct Segments {
  std::vector<int32_t> first, second;
};
Segments segments_of(const std::vector<int32_t>& ids, int64_t first_size) {
  EXPECT_EQ(ids.front(), kCls);
  EXPECT_EQ(ids[first_size - 1], kSep);
  Segments segments{{ids.begin() + 1, ids.begin() + first_size - 1}, {}};
  if (first_size == static_cast<int64_t>(ids.size())) return segments;
  EXPECT_EQ(ids.back(), kSep);
  segments.second.assign(ids.begin() + first_size, ids.end() - 1);
  return segments;
}

class BertInstances : public testing::Test {
 protected:
  static constexpr int kDocuments = 30;
  Documents documents_ = documents_of(kDocuments, 30, 7);
  std::shared_ptr<const Vocabulary> vocabulary_ = numbered(1000 * kDocuments);
  std::vector<MaskedSequence> instances_ =
      bert_instances(documents_, *vocabulary_, {.sequence_length = 128}, PhiloxStream(3, 2));
};

TEST_F(BertInstances, ArePairsOfWhichTheSecondFollowsOrIsRandom) {
  int random_next = 0, shortened = 0;
  for (const auto& instance : instances_) {
    const auto ids = unmasked(instance);
    EXPECT_LE(ids.size(), 128u);
    const auto [first, second] = segments_of(ids, instance.sequence.first_size);
    ASSERT_FALSE(first.empty());
    ASSERT_FALSE(second.empty());
    for (const auto& segment : {first, second})
      for (size_t i = 1; i < segment.size(); ++i) EXPECT_EQ(segment[i], segment[i - 1] + 1);
    const bool same = document_of(first[0]) == document_of(second[0]);
    EXPECT_EQ(same, !instance.random_next);
    EXPECT_TRUE(!same || second[0] > first.back());
    random_next += instance.random_next;
    shortened += ids.size() < 80;
  }
  const auto n = static_cast<double>(instances_.size());
  EXPECT_GT(n, 500);
  EXPECT_NEAR(random_next / n, 0.5, 0.08);  // above a half: chunks of one sentence
  EXPECT_GT(shortened / n, 0.05);
}

TEST_F(BertInstances, MaskAFractionOfAllPieces) {
  double mask = 0, same = 0, other = 0, total = 0;
  std::set<int32_t> random_ids;
  for (const auto& instance : instances_) {
    const auto size = static_cast<double>(instance.sequence.ids.size());
    EXPECT_EQ(instance.positions.size(), std::clamp(std::nearbyint(size * 0.15), 1.0, 20.0))
        << size;
    EXPECT_EQ(instance.labels.size(), instance.positions.size());
    EXPECT_TRUE(std::ranges::is_sorted(instance.positions, std::less_equal<>()));
    for (size_t i = 0; i < instance.positions.size(); ++i) {
      const int32_t shown = instance.sequence.ids[instance.positions[i]];
      EXPECT_GE(instance.labels[i], kFirstPiece);
      ++total;
      if (shown == kMask)
        ++mask;
      else if (shown == instance.labels[i])
        ++same;
      else
        ++other, random_ids.insert(shown);
    }
  }
  const auto near = [&](double count, double p) {
    EXPECT_NEAR(count / total, p, 4 * std::sqrt(p * (1 - p) / total)) << p;
  };
  near(mask, 0.8), near(same, 0.1), near(other, 0.1);
  EXPECT_GT(random_ids.size(), 0.9 * other);
}

TEST_F(BertInstances, CountHalvesToTheEvenNumber) {
  // Sequences of 30: 4.5 is 4; of 10: 1.5 is 2.
  for (const auto& [size, expected] : {std::pair{30, 4u}, {10, 2u}, {5, 1u}}) {
    Documents two{{Sentence(200, 7)}, {Sentence(200, 8)}};
    const auto instances = bert_instances(
        two, *vocabulary_, {.sequence_length = size, .short_fraction = 0}, PhiloxStream(1, 1));
    ASSERT_FALSE(instances.empty());
    EXPECT_EQ(instances[0].sequence.ids.size(), static_cast<size_t>(size));
    EXPECT_EQ(instances[0].positions.size(), expected);
  }
}

TEST_F(BertInstances, PutSentencesBackThatARandomNextDisplaced) {
  for (int d = 0; d < kDocuments; ++d) {
    std::set<int32_t> seen;
    for (const auto& instance : instances_)
      for (const int32_t id : unmasked(instance))
        if (id >= kFirstPiece && document_of(id) == d) seen.insert(id);
    size_t pieces = 0;
    for (const Sentence& sentence : documents_[d]) pieces += sentence.size();
    EXPECT_GT(seen.size(), 0.97 * pieces);  // truncation drops some, five passes fewer
  }
}

TEST_F(BertInstances, OfOneDocumentHaveNoRandomNext) {
  const Documents one{documents_[0]};
  for (const auto& instance : bert_instances(one, *vocabulary_, {}, PhiloxStream(3, 2)))
    EXPECT_FALSE(instance.random_next);
  const Documents single{{{7}}};
  EXPECT_EQ(bert_instances(single, *vocabulary_, {}, PhiloxStream(3, 2)).size(), 5u);
  EXPECT_TRUE(bert_instances({}, *vocabulary_, {}, PhiloxStream(3, 2)).empty());
}

TEST_F(BertInstances, DependOnTheSeedAlone) {
  const auto ids_of = [&](uint64_t seed) {
    std::vector<std::vector<int32_t>> all;
    for (const auto& i :
         bert_instances(documents_, *vocabulary_, {.duplicates = 1}, PhiloxStream(seed, 2)))
      all.push_back(i.sequence.ids);
    return all;
  };
  EXPECT_EQ(ids_of(3), ids_of(3));
  EXPECT_NE(ids_of(3), ids_of(4));
  EXPECT_EQ(error_of([&] {
              bert_instances(documents_, *vocabulary_, {.sequence_length = 1024},
                             PhiloxStream(3, 2));
            }).code(),
            Code::kInvalid);
}

TEST(ElectraSequences, FollowTheDocuments) {
  const auto vocabulary = numbered(30'000);
  const auto documents = documents_of(30, 50, 9);
  const auto sequences = electra_sequences(documents, *vocabulary, 128, PhiloxStream(1, 1));
  int single = 0, full = 0;
  int last_document = 0;
  for (const auto& sequence : sequences) {
    EXPECT_LE(sequence.ids.size(), 128u);
    const auto [first, second] = segments_of(sequence.ids, sequence.first_size);
    single += second.empty();
    full += sequence.ids.size() >= 100;
    EXPECT_GE(document_of(first[0]), last_document);
    last_document = document_of(first[0]);
    for (const int32_t id : second) EXPECT_EQ(document_of(id), last_document);
  }
  const auto n = static_cast<double>(sequences.size());
  EXPECT_GT(n, 100);
  EXPECT_GT(single / n, 0.06);  // a tenth, and what sentences leave no room for
  EXPECT_LT(single / n, 0.25);
  EXPECT_GT(full / n, 0.75);
}

// Sentences of one piece fill a target exactly, so that lengths show it: one in twenty is drawn
// from 5 to 128, and one sequence in ten has a single segment.
TEST(ElectraSequences, HaveShortTargetsAndSingleSegments) {
  const auto vocabulary = numbered(10);
  const Documents documents{Document(500'000, Sentence{kFirstPiece})};
  auto sequences = electra_sequences(documents, *vocabulary, 128, PhiloxStream(1, 1));
  sequences.pop_back();  // what was left for it was less than its target
  int single = 0;
  std::vector<int64_t> targets;  // of the short ones
  for (const auto& sequence : sequences) {
    const auto size = static_cast<int64_t>(sequence.ids.size());
    const bool is_single = sequence.first_size == size;
    single += is_single;
    if (size >= 127) continue;
    targets.push_back(size - (is_single ? 2 : 3));
    const int64_t half = (targets.back() - 3) / 2;
    if (!is_single) {
      EXPECT_THAT(sequence.first_size - 2,
                  AllOf(Ge(std::max<int64_t>(1, half - 1)), Le(std::max<int64_t>(1, half))));
    }
  }
  const auto n = static_cast<double>(sequences.size()), few = static_cast<double>(targets.size());
  EXPECT_GT(n, 3900);
  EXPECT_NEAR(single / n, 0.1, 0.015);
  EXPECT_NEAR(few / n, 0.05 * 119 / 124, 0.01);
  EXPECT_THAT(targets, Each(AllOf(Ge(5), Le(124))));
  const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / few;
  EXPECT_NEAR(mean, (5 + 123.5) / 2, 3 * 34.4 / std::sqrt(few));  // all are as likely
}

TEST(ElectraSequences, OfADocumentOfOneSentence) {
  const auto vocabulary = numbered(10);
  const auto sequences = electra_sequences({{{5, 6}}, {{7}}}, *vocabulary, 16, PhiloxStream(1, 1));
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_THAT(sequences[0].ids, ElementsAre(kCls, 5, 6, kSep));
  EXPECT_THAT(sequences[1].ids, ElementsAre(kCls, 7, kSep));
}

TEST(ElectraSequences, DropWhatOverflows) {
  const auto vocabulary = numbered(1000);
  const Documents documents{{Sentence(300, 7), {8}}};
  const auto sequences = electra_sequences(documents, *vocabulary, 16, PhiloxStream(1, 1));
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_EQ(sequences[0].ids.size(), 16u);
  EXPECT_THAT(sequences[1].ids, ElementsAre(kCls, 8, kSep));
}

class ReadDocuments : public testing::Test {
 protected:
  std::vector<std::vector<std::string>> read(std::string_view text, Lines lines) {
    std::vector<std::vector<std::string>> all;
    for (const Document& document : read_documents(text, lines, tokenizer_)) {
      all.emplace_back();
      for (const Sentence& sentence : document) {
        std::string& words = all.back().emplace_back();
        for (const int32_t id : sentence) words += tokenizer_.vocabulary().piece(id);
      }
    }
    return all;
  }
  Tokenizer tokenizer_{
      Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nmr\n.\n!\n?"
                        "\n\"\n1\n\xE2\x80\x9C\n\xE2\x80\x9D\n")};
};

TEST_F(ReadDocuments, OneSentenceALine) {
  EXPECT_THAT(read("A b. C.\nb\n\n \n\xCC\x81\nc\n\xCC\x81\n\n", Lines::kSentences),
              ElementsAre(ElementsAre("ab.c.", "b"), ElementsAre("c")));
  EXPECT_TRUE(read("", Lines::kSentences).empty());
  EXPECT_THAT(read("a", Lines::kSentences), ElementsAre(ElementsAre("a")));
  EXPECT_THAT(error_of([&] { read("a\n\xFF", Lines::kSentences); }).message(), HasSubstr("line 2"));
}

TEST_F(ReadDocuments, ParagraphsAreCutIntoSentences) {
  EXPECT_THAT(read("A b. C! b? 1 a. b c", Lines::kParagraphs),
              ElementsAre(ElementsAre("ab.", "c!b?", "1a.bc")));
  EXPECT_THAT(read("\xE2\x80\x9C"
                   "A.\xE2\x80\x9D 1 c. Mr. B a. B. A c.",
                   Lines::kParagraphs),
              ElementsAre(ElementsAre("\xE2\x80\x9C"
                                      "a.\xE2\x80\x9D",
                                      "1c.", "mr.ba.", "b.ac.")));
}

}  // namespace
}  // namespace assay::data
