// Checkpoint files: everything training needs to go on bit for bit, in one file (FORMAT.md).
//
// A file appears under its name whole and durable or not at all: whatever stops the writer, a full
// disk or SIGKILL included, leaves the previous file as it was. The reader notices every missing or
// altered byte: bytes outside tensors when it opens, bytes of a tensor when it reads that tensor.
//
// Threads: functions are reentrant; the const functions of one CheckpointReader may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/base/dims.h"
#include "sdk/base/dtype.h"
#include "sdk/graph/variable.h"
#include "sdk/train/checkpoint/io.h"

namespace assay::checkpoint {

// The newest format this library writes, and the oldest it reads. Apart from the library's version.
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kOldestFormatVersion = 1;

// Parts of a checkpoint, as bits. Values stand in files and in the C ABI: frozen.
enum Part : uint32_t {
  kWeights = 1,  // role kValue: the f32 values, which are the masters under mixed precision
  kMoments = 2,  // kMoment1 and kMoment2
  kEmaPart = 4,
  kStatistics = 8,
  kTrainerState = 16,  // the numbers and texts of CheckpointState; roles kState and kGradient
  kAllParts = 31,
};
Part part_of(Role role);

struct LossScale {
  double scale = 1;
  int64_t growth_counter = 0;  // updates since the scale last changed
};

// All text is UTF-8.
struct CheckpointState {
  // What the writer meant to save, so that "momentum was not saved" and "this optimizer has none"
  // can be told apart. Tensors of other parts are refused.
  uint32_t parts = kAllParts;
  int64_t created_unix_s = 0;   // 0: the writer takes the clock
  std::string library_version;  // filled by the reader; writers put their own

  // With part kTrainerState:
  int64_t step = 0;     // steps done
  int64_t updates = 0;  // of these, how many changed the parameters
  int64_t batches = 0;  // micro-batches seen; drives the random streams of layers
  int64_t samples = 0;
  uint64_t seed = 0;
  std::optional<LossScale> loss_scale;
  std::string optimizer_name;
  std::string optimizer_config;  // JSON
  std::string schedule_config;   // JSON
  std::string model_name;
  std::string model_config;  // JSON
  std::string precision;
  // JSON with every default: all that decides how training goes on. Empty in older files, which
  // have the four texts above only.
  std::string trainer_config;
  double learning_rate = 0;  // at schedule factor 1, as last set; 0 without trainer_config
  std::string data_cursor;   // opaque bytes of the data loader, the only text that is not UTF-8

  std::map<std::string, std::string> metadata;  // free; names of the library start with "assay."

  // The fields of part kTrainerState under their names in files and reports.
  static void fields(auto& self, auto&& f) {
    f("step", self.step), f("updates", self.updates), f("batches", self.batches);
    f("samples", self.samples), f("seed", self.seed), f("loss_scale", self.loss_scale);
    f("optimizer_name", self.optimizer_name), f("optimizer_config", self.optimizer_config);
    f("schedule_config", self.schedule_config), f("model_name", self.model_name);
    f("model_config", self.model_config), f("precision", self.precision);
    f("trainer_config", self.trainer_config), f("learning_rate", self.learning_rate);
    f("data_cursor", self.data_cursor);
  }
};

// A tensor to be written. `data` is borrowed, dense, row-major, little-endian, and must not change
// until the write has returned.
struct TensorRecord {
  std::string name;  // 1 to 1024 bytes of UTF-8 without control characters; unique per role
  Role role = Role::kValue;
  DType dtype = DType::kF32;
  Dims dims;
  std::span<const std::byte> data;  // dims.numel() * dtype_size(dtype) bytes
};

// A tensor in a file.
struct TensorInfo {
  std::string name;
  Role role = Role::kValue;
  DType dtype = DType::kF32;
  Dims dims;
  std::string entry;    // its zip entry
  uint64_t offset = 0;  // in the file, a multiple of 64
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

// Writes one file atomically. Needs a few hundred bytes of memory per tensor, never a copy of one.
// Tensor order is kept. Errors: kInvalid names the record at fault; kIo (full disk, no permission).
void write_checkpoint(const std::string& path, const CheckpointState& state,
                      std::span<const TensorRecord> tensors);
// The same into any sink, front to back without seeking; commits it at the end.
void write_checkpoint(ByteSink& sink, const CheckpointState& state,
                      std::span<const TensorRecord> tensors);

class CheckpointReader {
 public:
  // Checks everything but the elements of tensors. Errors: kNotFound, kIo, kFormat (damaged or no
  // checkpoint), kVersion (written by a newer library, or older than we still read).
  static CheckpointReader open(const std::string& path);
  static CheckpointReader open(std::unique_ptr<ByteSource> source);

  const std::string& name() const { return source_->name(); }  // path, or the source's own name
  uint64_t file_bytes() const { return source_->size(); }
  uint32_t format_version() const { return format_version_; }
  const CheckpointState& state() const { return state_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Null when there is none.
  const TensorInfo* find(std::string_view tensor, Role role) const;

  // Copies the elements into `target` (exactly tensor.bytes long, or kInvalid) and checks their
  // sum. On kFormat `target` holds damaged data.
  void read(const TensorInfo& tensor, std::span<std::byte> target) const;
  // Checks the elements of one tensor, of all tensors, without keeping them.
  void verify(const TensorInfo& tensor) const;
  void verify_all() const;

 private:
  CheckpointReader() = default;
  std::unique_ptr<ByteSource> source_;
  uint32_t format_version_ = 0;
  CheckpointState state_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace assay::checkpoint
