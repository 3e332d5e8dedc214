// Saves one checkpoint after the other over the same path until it is killed, or until a save
// fails. Usage: PROGRAM PATH FIRST_STEP COUNT [FILE_SIZE_LIMIT_BYTES]
//    or: PROGRAM golden PATH, which saves the sample of sample.h and never overwrites.
// Prints the code of the Error that stopped it. Exit status: 0 all saved, 3 an Error.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>

#include "tests/train/checkpoint/sample.h"

int main(int argc, char** argv) {
  using namespace assay::checkpoint;
  if (argc == 3 && std::string(argv[1]) == "golden" && !assay::path_exists(argv[2])) {
    write_checkpoint(argv[2], sample_state(), sample_tensors().records());
    return 0;
  }
  if (argc < 4) return 2;
  const long first = std::atol(argv[2]);
  const long count = std::atol(argv[3]);
  if (argc > 4) {
    const auto limit = static_cast<rlim_t>(std::atol(argv[4]));
    const rlimit sizes{limit, limit};
    std::signal(SIGXFSZ, SIG_IGN);  // write then reports EFBIG
    setrlimit(RLIMIT_FSIZE, &sizes);
  }
  try {
    for (long step = first; step < first + count; ++step) {
      SampleTensors tensors;
      tensors.add("w", assay::Role::kValue, assay::DType::kF32, {500, 1000},
                  static_cast<unsigned>(step));
      CheckpointState state = sample_state();
      state.step = step;
      write_checkpoint(argv[1], state, tensors.records());
    }
  } catch (const assay::Error& error) {
    std::printf("%d %s\n", static_cast<int>(error.code()), error.what());
    return 3;
  }
  return 0;
}
