// Segments: places of variables, first values, and transfers of whole roles.
#include "sdk/runtime/segments.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sdk/base/align.h"
#include "sdk/base/expect.h"
#include "sdk/base/hash.h"
#include "sdk/base/philox.h"

namespace assay {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // that pass through host memory at once

// The role under which a variable is declared: moments, gradients and averages belong to trained
// values, but for the averages of statistics.
Role declared_role(Role role) {
  if (role == Role::kStatisticEma) return Role::kStatistic;
  return role == Role::kStatistic || role == Role::kState ? role : Role::kValue;
}

[[noreturn]] void fail_unknown(std::string_view name, const VariableTable& variables) {
  std::vector<std::string_view> known;
  for (const Variable& variable : variables.all()) known.push_back(variable.name);
  const std::string hint = suggestion(name, known);
  fail(Code::kNotFound, cat("no variable is called \"", name, '"', hint.empty() ? "" : "; ", hint),
       {.argument = "name", .actual = std::string(name), .hint = hint});
}

// The next value of a variable.
float draw(const Initializer& init, PhiloxStream& random) {
  double value = 1;
  switch (init.kind) {
    case Initializer::Kind::kConstant:
      break;
    case Initializer::Kind::kUniform:
      value = 2 * random.uniform() - 1;
      break;
    case Initializer::Kind::kNormal:
      value = random.normal();
      break;
    case Initializer::Kind::kTruncatedNormal:
      value = 3;
      while (std::abs(value) > 2) value = random.normal();
      break;
  }
  return static_cast<float>(init.a * value);
}

}  // namespace

Segments::Segment Segments::placed(Role role, size_t& bytes) const {
  Segment segment;
  size_t end = 0;
  for (const Variable& variable : variables_.all()) {
    if (variable.role != declared_role(role)) continue;
    segment.offsets[variable.name] = end;
    const size_t size = static_cast<size_t>(variable.dims.numel()) * dtype_size(variable.dtype);
    end += align_up(size);
  }
  bytes = end;
  return segment;
}

void Segments::ensure(Role role) {
  if (has(role)) return;
  size_t bytes = 0;
  Segment segment = placed(role, bytes);
  segment.memory = backend_.allocate(bytes);
  segments_.emplace(role, std::move(segment));
}

void Segments::share_from(const Segments& other, Role to, Role from) {
  size_t bytes = 0;
  Segment segment = placed(to, bytes);
  const std::lock_guard lock(other.sharing_);
  const Segment& source = other.segments_.at(from);
  require(&backend_ == &other.backend_ && bytes == source.memory->bytes(), Code::kInternal,
          "segments of different sizes or devices");
  if (other.is_apart_) {
    segment.memory = backend_.allocate(bytes);
    backend_.copy(segment.memory->data(), source.memory->data(), bytes);
  } else {
    segment.memory = source.memory;
    segment.is_shared = source.is_shared = true;
  }
  segments_.emplace(to, std::move(segment));
}

void Segments::keep_apart(bool readers) {
  const std::lock_guard lock(sharing_);
  if (is_apart_) return;
  for (auto& [role, segment] : segments_) own(segment, readers);
  is_apart_ = true;
}

const Memory& Segments::written(Role role) {
  require(has(role), Code::kNotFound, "there is no ", role, ": nothing in this run needs it");
  const std::lock_guard lock(sharing_);
  Segment& segment = segments_.at(role);
  own(segment, false);
  segment.replaced = nullptr;  // who writes is alone
  return *segment.memory;
}

void Segments::own(Segment& segment, bool readers) const {
  if (!segment.is_shared) return;
  std::shared_ptr<Memory> copy = backend_.allocate(segment.memory->bytes());
  backend_.copy(copy->data(), segment.memory->data(), copy->bytes());
  if (readers) segment.replaced = segment.memory;
  segment.memory = std::move(copy);
  segment.is_shared = false;
}

SegmentTensor Segments::tensor(std::string_view name, Role role) const {
  const Variable* variable = variables_.find(name);
  if (variable == nullptr) fail_unknown(name, variables_);
  const auto segment = segments_.find(role);
  require(segment != segments_.end(), Code::kNotFound, "there is no ", role, " of ", name,
          ": nothing in this run needs it");
  const auto offset = segment->second.offsets.find(name);
  require(offset != segment->second.offsets.end(), Code::kNotFound, name, " is a ", variable->role,
          " and has no ", role);
  return {variable, role, static_cast<std::byte*>(memory(role).data()) + offset->second,
          offset->second};
}

std::vector<SegmentTensor> Segments::all(Role role) const {
  std::vector<SegmentTensor> tensors;
  const auto segment = segments_.find(role);
  if (segment == segments_.end()) return tensors;
  for (const Variable& variable : variables_.all()) {
    if (segment->second.offsets.contains(variable.name))
      tensors.push_back(tensor(variable.name, role));
  }
  return tensors;
}

std::vector<SegmentTensor> Segments::all() const {
  std::vector<SegmentTensor> tensors;
  for (const Role role : roles()) {
    const std::vector<SegmentTensor> part = all(role);
    tensors.insert(tensors.end(), part.begin(), part.end());
  }
  return tensors;
}

std::vector<Role> Segments::roles() const {
  std::vector<Role> roles;
  for (const auto& [role, segment] : segments_) roles.push_back(role);
  return roles;
}

const Memory& Segments::memory(Role role) const {
  const auto segment = segments_.find(role);
  require(segment != segments_.end(), Code::kNotFound, "there is no ", role,
          ": nothing in this run needs it");
  const std::lock_guard lock(sharing_);
  return *segment->second.memory;
}

uint64_t Segments::bytes(Role role) const {
  const auto segment = segments_.find(role);
  return segment == segments_.end() ? 0 : memory(role).bytes();
}

// Each variable draws from a stream of its own, so its values depend on seed, name and size alone.
void Segments::initialize(uint64_t seed) {
  for (const Role role : roles()) written(role);
  std::vector<float> piece;
  for (const SegmentTensor& tensor : all()) {
    if (tensor.role != tensor.variable->role || tensor.role == Role::kState) continue;
    PhiloxStream random(seed, hash_name(tensor.variable->name));
    auto* write = static_cast<float*>(tensor.data);
    for (size_t left = tensor.bytes() / sizeof(float); left > 0; left -= piece.size()) {
      piece.resize(std::min(left, kPieceBytes / sizeof(float)));
      for (float& value : piece) value = draw(tensor.variable->initializer, random);
      backend_.write(write, piece.data(), piece.size() * sizeof(float));
      write += piece.size();
    }
  }
}

void Segments::clear(Role role) {
  if (!has(role)) return;
  const Memory& cleared = written(role);
  backend_.clear(cleared.data(), cleared.bytes());
}

HostSegment Segments::save(Role role) const {
  const Memory& memory = this->memory(role);
  HostSegment saved{role, std::vector<std::byte>(memory.bytes())};
  backend_.read(saved.bytes.data(), memory.data(), memory.bytes());
  return saved;
}

void Segments::restore(const HostSegment& saved) {
  const Memory& memory = written(saved.role);
  require(saved.bytes.size() == memory.bytes(), Code::kInternal, "a saved ", saved.role, " of ",
          saved.bytes.size(), " bytes for ", memory.bytes());
  backend_.write(memory.data(), saved.bytes.data(), memory.bytes());
}

void Segments::copy(Role to, Role from) {
  const Memory& target = written(to);
  const Memory& source = memory(from);
  require(target.bytes() == source.bytes(), Code::kInternal, "roles of different sizes");
  backend_.copy(target.data(), source.data(), target.bytes());
}

}  // namespace assay
