// How long tokenising takes, on one thread, beside Hugging Face's tokenizers (peers/tokenizer.py).
//
//   tokenizer_bench VOCABULARY TEXT     one line of JSON: seconds for all lines, pieces, digest
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/json_writer.h"
#include "sdk/base/sha256.h"
#include "sdk/data/text/tokenizer.h"

namespace assay::data {
namespace {

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer_bench VOCABULARY TEXT\n");
    return 2;
  }
  const Tokenizer tokenizer(Vocabulary::read(argv[1]));
  const std::string text = read_file(argv[2]);
  std::vector<int32_t> ids;
  const auto start = std::chrono::steady_clock::now();
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    tokenizer.append(line, ids);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  JsonWriter json;
  json.open('{');
  json.key("seconds");
  json.real(seconds.count());
  json.key("pieces");
  json.integer(static_cast<int64_t>(ids.size()));
  json.key("sha256");
  json.text(sha256_hex({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)}));
  json.close('}');
  std::puts(json.take().c_str());
  return 0;
}

}  // namespace
}  // namespace assay::data

int main(int argc, char** argv) {
  try {
    return assay::data::run(argc, argv);
  } catch (const assay::Error& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    return 1;
  }
}
