// The programs of one trainer. They never run at once and share one arena, so that together they
// take the memory of the largest.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sdk/runtime/program.h"
#include "sdk/train/model_instance.h"
#include "sdk/train/training_graph.h"

namespace assay::train {

// A compiled graph, what the passes did to it, and the numbers of its last run.
class TrainerProgram {
 public:
  TrainerProgram(std::unique_ptr<Program> program, std::vector<PassRecord> passes,
                 std::span<const ModelOutput> outputs);

  Program& program() const { return *program_; }
  const std::vector<PassRecord>& passes() const { return passes_; }

  // Outputs of type f32 [], by name.
  struct Scalar {
    std::string_view name;
    size_t output = 0;  // index in Program::outputs()
    float value = 0;
    nn::Reduction reduction = nn::Reduction::kLast;
    bool is_weight = false;  // of another
    int weight = -1;         // index in scalars() of its own, -1: none
  };
  std::span<const Scalar> scalars() const { return scalars_; }
  const Scalar* find_scalar(std::string_view name) const;  // null if there is none
  // Of one that exists.
  float scalar(std::string_view name) const;
  // 0 where it has none.
  float weight_of(const Scalar& scalar) const {
    return scalar.weight < 0 ? 0 : scalars_[static_cast<size_t>(scalar.weight)].value;
  }
  // Waits for the run and takes its scalars, and `more`, over to the host: one wait for all. No
  // memory is taken for it, for which `more` is short.
  static constexpr size_t kMostFurtherReads = 1;
  void read_scalars(std::span<const HostRead> more = {});

 private:
  std::unique_ptr<Program> program_;
  std::vector<PassRecord> passes_;
  std::vector<Scalar> scalars_;
  std::vector<HostRead> reads_;
};

// Planning is slow and happens once, at the first use: the first program of training brings with it
// all that the configuration can need, so that a trainer that starts has the memory to go on.
// Evaluation alone does without the others. Not thread-safe; the references outlive this.
class Programs {
 public:
  // `model` is the instance's, as it is trained, by one device or those of the channel.
  Programs(ModelInstance& instance, const nn::Model& model, const TrainerConfig& config,
           Channel* channel);

  // Builds the graphs of an update without planning them: errors of model and configuration
  // surface.
  void build_update();
  TrainerProgram& get(GraphKind kind) { return get(kind, whole_); }
  // Where batches are packed, the program with room for `sixteenths` of a padded batch's tokens
  // (at least 1). Those for less than all are planned when a batch first asks for them; they fit
  // into the memory of the whole one.
  TrainerProgram& get(GraphKind kind, int sixteenths);
  // The programs that one update runs: step, or backward and apply. Further batches of an update
  // run kBackwardNext, which is planned with them and differs by how gradients are stored.
  std::span<const GraphKind> update_kinds() const;
  // Of all programs planned so far: what one arena and their inputs take. What sharing saves within
  // a program is that of the largest.
  MemoryReport memory() const;

 private:
  struct Key {
    GraphKind kind;
    int sixteenths;  // 0: batches are not packed
    // A false alarm of clang-tidy 14. NOLINTNEXTLINE(modernize-use-nullptr)
    auto operator<=>(const Key&) const = default;
  };
  bool accumulates() const;
  BuiltGraph build(Key key) const;
  TrainerProgram plan(Key key);

  ModelInstance& instance_;
  const nn::Model& model_;
  const TrainerConfig& config_;
  Channel* const channel_;
  const int whole_;
  std::shared_ptr<Arena> arena_;
  std::map<Key, BuiltGraph> built_;  // and not planned yet
  std::map<Key, TrainerProgram> planned_;
};

}  // namespace assay::train
