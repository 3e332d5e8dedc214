// Questions of SQuAD as sequences of one length: [CLS] question [SEP] a stretch of the context
// [SEP], with as many windows as the context needs. As BERT's and ELECTRA's scripts cut them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sdk/data/text/squad.h"
#include "sdk/data/text/tokenizer.h"

namespace assay::data {

struct WindowOptions {
  int64_t sequence_length = 384;  // of a window, in pieces
  int64_t stride = 128;           // from one window's context to the next
  int64_t max_question = 64;
};

// A context as words (between blanks, tabs, line ends and narrow no-break spaces) and their pieces.
struct ContextPieces {
  std::vector<std::string_view> words;  // of the context, which must outlive this
  std::vector<int32_t> ids;
  std::vector<int32_t> word_of_piece;
  std::vector<int32_t> first_piece;  // of each word; one more than words: the end
  std::vector<int32_t>
      word_of_byte;  // of the context; a blank belongs to the word before, or is -1
};
ContextPieces cut_context(std::string_view context, const Tokenizer& tokenizer);

// Both ends belong to it.
struct PieceSpan {
  int32_t first, last;
};

// Where the question's first answer stands in `context`, narrowed to the pieces of its text;
// nothing if its words are not there. Needs an answer.
std::optional<PieceSpan> answer_span(const SquadQuestion& question, const ContextPieces& context,
                                     const Tokenizer& tokenizer);

struct Window {
  int32_t context_begin = 0;  // its first piece of the context
  int32_t context_size = 0;
  int32_t context_position = 0;  // where that stands in the sequence: behind the question's [SEP]
  std::vector<int32_t> ids;      // [CLS] ... [SEP], not padded
  // For each piece of the context in it, whether no other window has more context around it.
  std::vector<bool> best_context;

  // Position in the sequence -> piece of the context; nothing outside of the context.
  std::optional<int32_t> piece_at(int32_t position) const {
    const int32_t piece = position - context_position;
    return piece >= 0 && piece < context_size ? std::optional(context_begin + piece) : std::nullopt;
  }
  // Where `span` stands in the sequence, if all of it is in this window.
  std::optional<PieceSpan> find(const PieceSpan& span) const;
};

// kInvalid if windows of these `options` could leave out a part of the context.
std::vector<Window> windows_of(std::string_view question, const ContextPieces& context,
                               const Tokenizer& tokenizer, const WindowOptions& options);

}  // namespace assay::data
