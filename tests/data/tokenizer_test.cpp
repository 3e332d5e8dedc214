// The tokenizer against an implementation on Python's Unicode tables and against `tokenizers`
// (tests/fixtures/text/make_text.py); with the whole vocabulary and corpus where they lie in
// ../shared/data.
#include "sdk/data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <fstream>

#include "sdk/base/error.h"
#include "sdk/base/sha256.h"
#include "tests/data/squad_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFixtures = ASSAY_SOURCE_DIR "/tests/fixtures/text/";
const std::string kCorpus = test::sample_data() + "/text-corpus/";

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(line + separator);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// The rows of a file of tests/fixtures/text; the first column, a JSON string, decoded.
std::vector<std::vector<std::string>> rows(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(kFixtures + name);
  for (std::string line; std::getline(file, line);) {
    auto columns = split(line, '\t');
    rapidjson::Document text;
    text.Parse(columns[0].c_str());
    columns[0].assign(text.GetString(), text.GetStringLength());
    rows.push_back(columns);
  }
  EXPECT_FALSE(rows.empty()) << name;
  return rows;
}

std::string pieces_of(const Tokenizer& tokenizer, const std::string& text) {
  std::string pieces;
  for (const int32_t id : tokenizer.ids(text)) {
    if (!pieces.empty()) pieces += ' ';
    pieces += tokenizer.vocabulary().piece(id);
  }
  return pieces;
}

std::string words_of(const Tokenizer& tokenizer, const std::string& text) {
  std::string words;
  tokenizer.append_words(text, words);
  if (!words.empty()) words.pop_back();
  return words;
}

TEST(Tokenizer, PiecesOfTheWorkedExamples) {
  const Tokenizer tokenizer(Vocabulary::read(kFixtures + "vocabulary.txt"));
  for (const auto& row : rows("pieces.tsv"))
    EXPECT_EQ(pieces_of(tokenizer, row[0]), row[1]) << row[0];
}

// "piece=bytes" of each piece.
std::vector<std::string> placed(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> all;
  for (const PlacedPiece& piece : tokenizer.pieces(text)) {
    const auto [begin, end] = piece.bytes;
    all.push_back(
        cat(tokenizer.vocabulary().piece(piece.id), "=", text.substr(begin, end - begin)));
  }
  return all;
}

TEST(Tokenizer, PiecesKnowTheirPlaces) {
  std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char* piece : {"una", "##ffa", "##ble", "hello", "cafe", ".", ",", "##s", "i", "ss"})
    pieces += cat(piece, "\n");
  const Tokenizer tokenizer(Vocabulary::parse(pieces));
  EXPECT_THAT(placed(tokenizer, " Unaffable,\n\xe4\xba\xba Hello."),
              ElementsAre("una=Una", "##ffa=ffa", "##ble=ble", ",=,", "[UNK]=\xe4\xba\xba",
                          "hello=Hello", ".=."));
  // Accents are part of no piece where they stand alone, and of their letter where they do not.
  EXPECT_THAT(placed(tokenizer, "caf\u00e9s cafe\u0301s [MASK] [mask]"),
              ElementsAre("cafe=caf\u00e9", "##s=s", "cafe=cafe", "##s=s", "[MASK]=[MASK]",
                          "[UNK]=[", "[UNK]=mask", "[UNK]=]"));
  // One character that becomes two, and what is removed in between.
  EXPECT_THAT(placed(tokenizer, "\u0130 he\u00adllo"),
              ElementsAre("i=\u0130", "hello=he\u00adllo"));
  EXPECT_THAT(placed(tokenizer, " \t"), ElementsAre());
}

// Of any text, the ids are those without places, and places ascend within the text.
TEST(Tokenizer, PlacesAscend) {
  const Tokenizer tokenizer(Vocabulary::read(kFixtures + "vocabulary.txt"));
  for (const auto& row : rows("pieces.tsv")) {
    std::vector<int32_t> ids;
    size_t last = 0;
    for (const PlacedPiece& piece : tokenizer.pieces(row[0])) {
      ids.push_back(piece.id);
      EXPECT_LE(last, piece.bytes.begin) << row[0];
      EXPECT_LT(piece.bytes.begin, piece.bytes.end) << row[0];
      EXPECT_LE(piece.bytes.end, row[0].size()) << row[0];
      last = piece.bytes.begin;
    }
    EXPECT_EQ(ids, tokenizer.ids(row[0])) << row[0];
  }
}

TEST(Tokenizer, IdsOfTheWorkedExamples) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  const Tokenizer tokenizer(Vocabulary::read(test::kVocabulary));
  EXPECT_EQ(tokenizer.vocabulary().size(), 30522);
  EXPECT_EQ(tokenizer.vocabulary().special().mask, 103);
  for (const auto& row : rows("pieces.tsv")) {
    std::string ids;
    for (const int32_t id : tokenizer.ids(row[0]))
      ids += (ids.empty() ? "" : " ") + std::to_string(id);
    EXPECT_EQ(ids, row[2]) << row[0];
  }
}

TEST(Tokenizer, WordsOfAnyText) {
  const auto vocabulary = Vocabulary::read(kFixtures + "vocabulary.txt");
  const Tokenizer protecting(vocabulary), splitting(vocabulary, {.protect_special = false});
  for (const auto& row : rows("words.tsv")) {
    EXPECT_EQ(words_of(protecting, row[0]), row[1]) << row[0];
    EXPECT_EQ(words_of(splitting, row[0]), row[2]) << row[0];
  }
}

TEST(Tokenizer, TheLongestWordIsAnOption) {
  const Tokenizer google(Vocabulary::read(kFixtures + "vocabulary.txt"), {.longest_word = 200});
  EXPECT_EQ(google.ids(std::string(101, 'a')).size(), 50u);
  EXPECT_THAT(google.ids(std::string(201, 'a')),
              ElementsAre(google.vocabulary().special().unknown));
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  const Tokenizer tokenizer(Vocabulary::read(kFixtures + "vocabulary.txt"));
  std::vector<int32_t> ids{7};
  const Error error = error_of([&] { tokenizer.append("hello w\xFFrld", ids); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("at byte 7"));
  EXPECT_THAT(ids, ElementsAre(7));
}

TEST(Tokenizer, ALineOfAHundredMegabytes) {
  const Tokenizer tokenizer(Vocabulary::read(kFixtures + "vocabulary.txt"));
  std::string line;
  line.resize(100'000'000, 'a');
  EXPECT_THAT(tokenizer.ids(line), ElementsAre(tokenizer.vocabulary().special().unknown));
}

TEST(Tokenizer, ALineOfAHundredMegabytesOfWords) {
  const Tokenizer tokenizer(Vocabulary::read(kFixtures + "vocabulary.txt"));
  const std::string word = "tokenization ";
  std::string line;
  for (int i = 0; i < 7'700'000; ++i) line += word;
  const auto ids = tokenizer.ids(line), pieces = tokenizer.ids(word);
  ASSERT_EQ(pieces.size(), 2u);
  ASSERT_EQ(ids.size(), 15'400'000u);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    size_t found = 0;
    for (size_t place = i; place < ids.size(); place += 2) found += ids[place] == pieces[i];
    EXPECT_EQ(found, 7'700'000u);
  }
}

// The counts and the digest are those of `tokenizers` 0.23.3.
TEST(Tokenizer, TheWholeCorpus) {
  if (!test::has_squad()) GTEST_SKIP() << test::sample_data() << " is not there";
  const Tokenizer tokenizer(Vocabulary::read(test::kVocabulary));
  std::string text;
  for (const char* name : {"books.txt.xz", "wikipedia_paragraphs.txt.xz"})
    text += test::output_of("xz -dc '" + kCorpus + name + "'");
  const auto ids = tokenizer.ids(text);
  Sha256 digest;
  digest.update(ids.data(), ids.size() * sizeof(int32_t));
  EXPECT_EQ(ids.size(), 11'070'301u);
  EXPECT_EQ(std::ranges::count(ids, tokenizer.vocabulary().special().unknown), 522);
  EXPECT_EQ(digest.hex(), "7f1eb436c2f35005074f28444ee6cc10a44c6c996a360b00e0996fc4bfb56969");
}

std::string problem_of(std::string_view text) {
  return error_of([&] { Vocabulary::parse(std::string(text)); }).message();
}

constexpr std::string_view kSpecials = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

TEST(Vocabulary, IsItsLines) {
  const auto vocabulary = Vocabulary::parse(cat(kSpecials, "a\n##a\n##"));
  EXPECT_EQ(vocabulary->size(), 8);
  EXPECT_EQ(vocabulary->find("a"), 5);
  EXPECT_EQ(vocabulary->find("##a"), 6);
  EXPECT_EQ(vocabulary->find("##"), 7);
  EXPECT_EQ(vocabulary->find("b"), std::nullopt);
  EXPECT_EQ(vocabulary->piece(6), "##a");
  EXPECT_EQ(vocabulary->special().separator, 3);
}

TEST(Vocabulary, SaysWhichLineIsWrong) {
  EXPECT_THAT(problem_of(cat(kSpecials, "a\n\nb\n")), HasSubstr("line 7: it is empty"));
  EXPECT_THAT(problem_of(cat(kSpecials, "a\nb\na\n")), HasSubstr("line 8: \"a\" stands in line 6"));
  EXPECT_THAT(problem_of("[PAD]\r\n[UNK]\r\n"), HasSubstr("line 1: it ends in CR LF"));
  EXPECT_THAT(problem_of(cat(kSpecials, "a b\n")), HasSubstr("line 6: \"a b\" holds a blank"));
  EXPECT_THAT(problem_of(cat(kSpecials, "\xC3\n")), HasSubstr("line 6: "));
  EXPECT_THAT(problem_of("[PAD]\n[UNK]\n[CLS]\n[SEP]\n"), HasSubstr("no [MASK] among its 4"));
  EXPECT_THAT(problem_of(""), HasSubstr("no [PAD] among its 0"));
}

}  // namespace
}  // namespace assay::data
