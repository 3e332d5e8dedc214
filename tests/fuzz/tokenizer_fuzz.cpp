// Any bytes as a vocabulary and a text behind an empty line: each is refused with an Error, or the
// text becomes ids of the vocabulary.
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
    for (const int32_t id : tokenizer.ids(input.substr(end + 2)))
      if (id < 0 || id >= vocabulary->size()) std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
