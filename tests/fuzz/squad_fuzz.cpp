// Any bytes as a file of SQuAD and as predictions: each is refused with an Error, or can be cut
// into windows, answered and scored.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/text/answer_extraction.h"
#include "sdk/data/text/answer_score.h"

namespace {

using namespace assay::data;

constexpr WindowOptions kWindows{.sequence_length = 16, .stride = 4, .max_question = 4};

const Tokenizer& tokenizer() {
  static const Tokenizer made(Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n.\n"));
  return made;
}

// The answers to a question by the windows' first and last positions.
void answer(const SquadQuestion& question, const ContextPieces& context) {
  const std::vector<Window> windows = windows_of(question.text, context, tokenizer(), kWindows);
  std::vector<AnsweredWindow> answered;
  for (const Window& window : windows) {
    const auto last = static_cast<int32_t>(window.ids.size()) - 2;
    answered.push_back(
        {&window, {{window.context_position, last, 1}, {last, last, 2}, {-1, 99, 3}}});
  }
  if (best_answers(answered, context, tokenizer(), {}).empty()) std::abort();
  if (question.answers.empty()) return;
  const auto span = answer_span(question, context, tokenizer());
  const auto pieces = static_cast<int32_t>(context.ids.size());
  if (span && (span->first < 0 || span->last < span->first || span->last >= pieces)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const SquadFile file = parse_squad(input, "file");
    for (const SquadParagraph& paragraph : file.paragraphs) {
      try {
        const ContextPieces context = cut_context(paragraph.context, tokenizer());
        for (const SquadQuestion& question : paragraph.questions) answer(question, context);
      } catch (const assay::Error&) {
      }
    }
    score_predictions(file, {{"1", "a"}});
  } catch (const assay::Error&) {
  }
  try {
    parse_predictions(input, "predictions");
  } catch (const assay::Error&) {
  }
  return 0;
}
