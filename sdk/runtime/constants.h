// What programs compute once, from variables that do not change: a predictor's folded and reordered
// weights. Programs of other batch sizes find most of it made already.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"

namespace assay {

// The blocks that programs over one set of segments share, by what they hold. A block lives as long
// as a program that uses it. Any number of threads may compile with one store.
class ConstantStore {
 public:
  // Where a program gets its constants while it is compiled. Other programs wait, so that nothing
  // is made twice. Destroyed without commit, nothing of this program is shared.
  class Session {
   public:
    explicit Session(ConstantStore& store) : store_(store), lock_(store.mutex_) {}

    // A number for what an expression stands for; equal for equal texts only.
    int64_t number_of(const std::string& expression);
    // Null if no program holds it.
    std::shared_ptr<Memory> find(int64_t number) const;
    // A block that is to be filled before commit.
    std::shared_ptr<Memory> make(int64_t number, Backend& backend, size_t bytes);
    void commit();

   private:
    ConstantStore& store_;
    std::unique_lock<std::mutex> lock_;
    std::map<int64_t, std::shared_ptr<Memory>> made_;
  };

  // Of the blocks in use.
  uint64_t bytes();

 private:
  std::mutex mutex_;
  std::map<std::string, int64_t> numbers_;
  std::map<int64_t, std::weak_ptr<Memory>> blocks_;
};

// What of a graph depends on parameters alone, and the numbers of those values in the store.
class ConstantNodes {
 public:
  ConstantNodes() = default;
  // Without a session nothing is constant.
  ConstantNodes(const Graph& graph, ConstantStore::Session* session);

  bool contains(int node) const { return nodes_[static_cast<size_t>(node)]; }
  bool is_constant(ValueId value) const { return number(value) >= 0; }
  int64_t number(ValueId value) const { return numbers_[static_cast<size_t>(value.index)]; }

 private:
  void number_nodes(const Graph& graph, ConstantStore::Session& session);

  std::vector<bool> nodes_;
  std::vector<int64_t> numbers_;  // by value; -1: not constant
  std::vector<bool> repeated_;    // by node: its result lies in memory of what is not constant
};

}  // namespace assay
