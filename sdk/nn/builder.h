// What model code writes into: a graph, the model's variables, the mode and the batch size.
//
//   nn::Builder b(graph, Mode::kTrain, 128, variables);
//   ValueId x = b.input({"image", DType::kF32, {28, 28, 1}});
//   { auto scope = b.scope("block1");  x = nn::conv2d(b, "conv", x, {...}); }
//
// Parameters are named by the scopes around them: "block1.conv.weight". The same model code builds
// the training, the evaluation and the prediction graph; only the mode differs.
//
// A parameter that several places use (a tied table, a head over many levels) is made in a shared
// scope, which names it from the root, wherever the code stands:
//
//   { auto scope = b.shared("embeddings");  table = b.parameter("word", {V, E}, init); }
//
// Its gradient is then the sum over all uses. A name that comes up again without shared() is an
// error: two layers with one name would be tied by mistake.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "sdk/graph/leaves.h"
#include "sdk/graph/variable_table.h"
#include "sdk/nn/input.h"

namespace assay::nn {

class Builder {
 public:
  Builder(Graph& graph, Mode mode, int64_t batch, VariableTable& variables, uint64_t seed)
      : graph_(graph),
        mode_(mode),
        batch_(batch),
        variables_(variables),
        seed_(seed),
        leaves_(graph) {}

  Graph& graph() { return graph_; }
  Mode mode() const { return mode_; }
  bool training() const { return mode_ == Mode::kTrain; }
  int64_t batch() const { return batch_; }
  uint64_t seed() const { return seed_; }
  const ValueType& type(ValueId value) const { return graph_.type(value); }
  const Dims& dims(ValueId value) const { return graph_.type(value).dims; }

  // The batch part `spec`, [batch, sample...].
  ValueId input(const InputSpec& spec);
  std::vector<ValueId> inputs(std::span<const InputSpec> specs);
  // A trained parameter, f32.
  ValueId parameter(const std::string& name, const Dims& dims, Initializer init,
                    VariableKind kind = VariableKind::kKernel);
  // A statistic of a batch norm, not trained, f32.
  ValueId statistic(const std::string& name, const Dims& dims, Initializer init);
  // The step counter that drives dropout.
  ValueId random_step();
  // A number for a source of randomness; depends only on its name, and in a shared scope on how
  // often it came up before: two towers draw different masks.
  uint64_t stream(std::string_view name);

  // Asks for RunningStatistics at the end of a training step, of running_mean and running_var in
  // `scope` with the mean and variance of the batch.
  struct StatisticsUpdate {
    RunningStatistics op;
    ValueId mean, var;
    std::string scope;
  };
  void update_statistics(StatisticsUpdate update) {
    statistics_updates_.push_back(std::move(update));
  }
  const std::vector<StatisticsUpdate>& statistics_updates() const { return statistics_updates_; }

  // Opens a scope until the returned object is destroyed.
  class Scope {
   public:
    Scope(Builder& builder, std::string name, bool shared);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::string before_;
    bool shared_before_;
  };
  [[nodiscard]] Scope scope(std::string_view name) { return {*this, full_name(name), shared_}; }
  // The scope `name` whatever scopes are open; what is made in it may have been made before.
  [[nodiscard]] Scope shared(std::string_view name) { return {*this, std::string(name), true}; }

  // While the returned object lives, parameters of the scope `own` are those of the same names in
  // the scope `other` where it has them, whatever their initial values and kinds would be.
  class Tie {
   public:
    Tie(Builder& builder, std::string own, std::string other);
    ~Tie();
    Tie(const Tie&) = delete;
    Tie& operator=(const Tie&) = delete;
    // How many parameters were found in `other`.
    int found() const { return found_; }

   private:
    friend class Builder;
    Builder& builder_;
    std::string own_, other_;
    Tie* before_;
    int found_ = 0;
  };

 private:
  std::string full_name(std::string_view name) const;
  ValueId leaf(const std::string& name, const Dims& dims, Initializer init, Role role,
               VariableKind kind);
  // The variable that a tie says is `full`; null if none does.
  const Variable* tied(const std::string& full, const Dims& dims, Role role);

  Graph& graph_;
  Mode mode_;
  int64_t batch_;
  VariableTable& variables_;
  uint64_t seed_;
  Leaves leaves_;
  std::map<std::string, int> streams_;  // how often each came up
  bool shared_ = false;
  Tie* tie_ = nullptr;
  ValueId random_step_;
  std::vector<StatisticsUpdate> statistics_updates_;
};

}  // namespace assay::nn
