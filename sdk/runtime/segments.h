// The memory that outlives a run: one flat segment per role, in which every variable has a fixed
// place.
//
// Flat segments make the optimizer, an all-reduce or a checkpoint one pass over contiguous memory.
// Each variable starts at a 64-byte boundary, in the order of the table. Predictors share the
// memory of the model's segments until one of them is written.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/graph/variable_table.h"

namespace assay {

// One tensor in a segment.
struct SegmentTensor {
  const Variable* variable = nullptr;
  Role role = Role::kValue;
  void* data = nullptr;  // device memory
  size_t offset = 0;     // of `data` in its segment
  size_t bytes() const {
    return static_cast<size_t>(variable->dims.numel()) * dtype_size(variable->dtype);
  }
};

// A segment in host memory; the tensors stand at SegmentTensor::offset.
struct HostSegment {
  Role role = Role::kValue;
  std::vector<std::byte> bytes;
};

class Segments {
 public:
  Segments(Backend& backend, const VariableTable& variables)
      : backend_(backend), variables_(variables) {}

  // Allocates the segment of `role` if it does not exist yet, zero-filled. kValue, kGradient,
  // kMoment1/2 and kEma hold the trained variables; kStatistic and kState hold the variables of
  // that role, kStatisticEma those of kStatistic. No variable may be added afterwards.
  void ensure(Role role);
  bool has(Role role) const { return segments_.contains(role); }

  // Fails with kNotFound, naming the variable, if it has no such role.
  SegmentTensor tensor(std::string_view name, Role role) const;
  // All tensors of the existing segments, by role, then by order in the table.
  std::vector<SegmentTensor> all() const;
  // Those of one role; none if there is no such segment.
  std::vector<SegmentTensor> all(Role role) const;
  std::vector<Role> roles() const;

  // Holds the segment `from` of segments over variables of the same sizes in the same order on the
  // same backend as its own `to`, which must not exist: without a copy where it can be. What either
  // writes later through a member here, the other does not see. Thread-safe as to `other`.
  void share_from(const Segments& other, Role to, Role from);
  // What is about to be known by its address, and written there, is shared with nobody, now and
  // later. Thread-safe. With `readers`, what other threads took from here before stays readable
  // until something is written through a member.
  void keep_apart(bool readers);

  // Draws first values for kValue and kStatistic from their initializers: Philox(seed, name;
  // element).
  void initialize(uint64_t seed);
  // Fills the segment of `role` with zeros, if it exists.
  void clear(Role role);
  // One transfer each; the segment must exist.
  HostSegment save(Role role) const;
  void restore(const HostSegment& saved);
  // Copies a segment onto that of another role, for which the same variables are declared.
  void copy(Role to, Role from);

  // The segment of `role`, which must exist.
  const Memory& memory(Role role) const;
  uint64_t bytes(Role role) const;
  Backend& backend() const { return backend_; }
  const VariableTable& variables() const { return variables_; }

 private:
  struct Segment {
    std::shared_ptr<Memory> memory;
    std::shared_ptr<Memory> replaced;  // by a copy, while others may still read it
    std::map<std::string, size_t, std::less<>> offsets;
    mutable bool is_shared = false;
  };
  Segment placed(Role role, size_t& bytes) const;  // without memory
  // The segment of `role`, which must exist, for who writes to it.
  const Memory& written(Role role);
  void own(Segment& segment, bool readers) const;  // a copy, if others hold it too

  Backend& backend_;
  const VariableTable& variables_;
  std::map<Role, Segment> segments_;
  mutable std::mutex sharing_;  // for is_apart_ and what a Segment has besides offsets
  bool is_apart_ = false;
};

}  // namespace assay
