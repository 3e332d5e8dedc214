// What models share that answer a question by the start and end of a stretch of its paragraph.
#pragma once

#include <string>
#include <vector>

#include "sdk/nn/builder.h"
#include "sdk/nn/model.h"

namespace assay::models {

// Scores of where no answer can be: finite, and of no weight in any softmax.
inline constexpr float kForbidden = -1e30f;

// scores [N,...,L], those behind the end of a sequence kForbidden; length [N] i32.
ValueId only_tokens(nn::Builder& b, ValueId scores, ValueId length);
// scores [N,...,L], kForbidden but on the first token, [CLS], and on the tokens of type 1 before
// the last one: the paragraph. types [N,L], length [N] i32.
ValueId only_paragraph(nn::Builder& b, ValueId scores, ValueId types, ValueId length);

// Of scores [N,L] against the labels [N] i32, -1 in rows that do not count: the mean of both, over
// the batch in training and as a sum over the rows in evaluation.
ValueId span_loss(nn::Builder& b, ValueId start, ValueId start_labels, ValueId end,
                  ValueId end_labels);

}  // namespace assay::models
