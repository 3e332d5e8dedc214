// What stands behind the handles of text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assay/assay_data.h"
#include "sdk/data/text/squad_windows.h"

struct assay_text {
  assay::data::Tokenizer tokenizer;
};

// Holds what it points into: the context, then the windows.
struct assay_text_question {
  std::shared_ptr<const assay::data::Tokenizer> tokenizer;
  std::string paragraph;
  assay::data::ContextPieces context;
  std::vector<assay::data::Window> windows;
  int64_t length = 0;
};

namespace assay::capi {

// The windows of `question` about `paragraph` by the keys of assay_text_question_create.
std::unique_ptr<assay_text_question> make_question(const assay_text& text,
                                                   std::string_view question,
                                                   std::string_view paragraph,
                                                   assay_str config_json);

}  // namespace assay::capi
