// Runs a fuzz target without libFuzzer: on every file of the seed corpus, on its truncations, and
// on random mutations of it. The same inputs every time, so a failure can be run again. -runs=N
// asks for N mutations altogether; other options of libFuzzer are passed over, and of several
// folders the last one holds the seeds.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

void run(const Input& input) { LLVMFuzzerTestOneInput(input.data(), input.size()); }

std::vector<Input> read_corpus(const char* folder) {
  std::vector<Input> corpus{{}};          // the empty input always belongs to it
  std::set<std::filesystem::path> paths;  // folders are listed in an order of their own
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.insert(entry.path());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// One to eight edits: flip a bit, set, insert or remove a byte.
Input mutated(Input input, std::mt19937& random) {
  for (uint32_t edits = 1 + random() % 8; edits > 0 && !input.empty(); --edits) {
    const size_t at = random() % input.size();
    switch (random() % 4) {
      case 0:
        input[at] ^= static_cast<uint8_t>(1u << random() % 8);
        break;
      case 1:
        input[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        input.insert(input.begin() + static_cast<int64_t>(at), static_cast<uint8_t>(random()));
        break;
      default:
        input.erase(input.begin() + static_cast<int64_t>(at));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const char* folder = nullptr;
  size_t wanted = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "-runs=", 6) == 0)
      wanted = std::strtoull(argv[i] + 6, nullptr, 10);
    else if (argv[i][0] != '-')
      folder = argv[i];
  }
  if (folder == nullptr) {
    std::fprintf(stderr, "usage: %s [-runs=N] CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  constexpr size_t kTruncations = 400;
  constexpr size_t kMutations = 1000;
  const std::vector<Input> corpus = read_corpus(folder);
  const size_t mutations = wanted == 0 ? kMutations : wanted / corpus.size() + 1;
  std::mt19937 random(1);
  size_t runs = 0;
  for (const Input& seed : corpus) {
    run(seed);
    const size_t stride = seed.size() / kTruncations + 1;
    for (size_t length = 0; length < seed.size(); length += stride, ++runs)
      run({seed.begin(), seed.begin() + static_cast<int64_t>(length)});
    for (size_t i = 0; i < mutations; ++i, ++runs) run(mutated(seed, random));
  }
  std::printf("%zu seeds, %zu inputs made from them\n", corpus.size(), runs);
  return corpus.size() > 1 ? 0 : 1;
}
