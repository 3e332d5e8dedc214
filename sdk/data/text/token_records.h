// Sequences of ids as records, under the feature names of the published scripts, and back:
// TFRecords that Google's and NVIDIA's scripts for TensorFlow wrote load here, and ours load there.
//
//   masked pairs (BERT)     input_ids, input_mask, segment_ids int64 [L]; masked_lm_positions,
//                           masked_lm_ids int64 [P], masked_lm_weights float [P];
//                           next_sentence_labels int64 [1]
//   sequences (ELECTRA)     input_ids, input_mask, segment_ids int64 [L]
//   windows (SQuAD)         unique_ids int64 [1]; input_ids, input_mask, segment_ids int64 [L];
//                           where the answer is known start_positions, end_positions and
//                           is_impossible int64 [1]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sdk/data/text/pretraining.h"
#include "sdk/data/text/squad_windows.h"
#include "sdk/data/transform.h"

namespace assay::data {

// What records of a data set have in common.
struct TokenShape {
  int64_t length = 0;      // L
  int64_t slots = 0;       // P, of masked pairs
  int64_t vocabulary = 0;  // ids are below it
  int32_t padding = 0;     // the id that fills a sequence up to L
};

// Each replaces `payload`. kInternal for a sequence that is longer than L, or has more than P
// masked positions.
void write_sequence(const TokenSequence& sequence, const TokenShape& shape, std::string& payload);
void write_masked_pair(const MaskedSequence& pair, const TokenShape& shape, std::string& payload);
// `answer` is where the window has it, [CLS] twice if it has none; nothing if it is not known.
void write_window(const Window& window, int64_t number, std::optional<PieceSpan> answer,
                  const TokenShape& shape, std::string& payload);

// The number that Google's scripts give the first window of a file.
inline constexpr int64_t kFirstWindow = 1'000'000'000;

enum class TokenRecords { kSequences, kMaskedPairs, kWindows };

// Records as samples, all i32, under the names that models give their inputs:
//   input_ids, segment_ids  [L]  [PAD] and zero behind the sequence
//   length         []   of the sequence; its tokens come first
//   masked_lm_positions, masked_lm_ids  [P]  of masked pairs: where pieces were masked and what
//                  they were; 0 and -1 in slots without one
//   next_sentence_labels  []     of masked pairs: 1 if the second segment is not what follows
//   start_positions, end_positions  []  of windows: the answer; 0 ([CLS]) where the window has
//                  none, -1 if not known
//   is_impossible  []   of windows: 1 without an answer in it, 0 with, -1 if not known
// Rows of padding have length 0 and labels of -1. An answer may lie on [CLS] and on the tokens of
// type 1 before the last one. kFormat for records of another length, with ids that the vocabulary
// does not have, with a mask that is no prefix, or with positions outside of the sequence.
Transform make_token_transform(TokenRecords records, const TokenShape& shape);

}  // namespace assay::data
