// Any bytes as a vocabulary and a text behind an empty line: each is refused with an Error, or the
// text becomes ids of the vocabulary that stand for parts of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find("\n\n");
  if (end == std::string_view::npos) return 0;
  try {
    const auto vocabulary = assay::data::Vocabulary::parse(std::string(input.substr(0, end)));
    const assay::data::Tokenizer tokenizer(vocabulary);
    const std::string_view text = input.substr(end + 2);
    const std::vector<int32_t> ids = tokenizer.ids(text);
    for (const int32_t id : ids)
      if (id < 0 || id >= vocabulary->size()) std::abort();
    const auto pieces = tokenizer.pieces(text);
    if (pieces.size() != ids.size()) std::abort();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto [begin, past] = pieces[i].bytes;
      if (pieces[i].id != ids[i] || begin >= past || past > text.size()) std::abort();
    }
  } catch (const assay::Error&) {
  }
  return 0;
}
