#include "tools/recipe_run/scaling/series.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/scaling/series.pb.h"
#include "tools/recipe_run/sources/table_file.h"

namespace reciperun {
namespace {

constexpr char kFile[] = "scaling.txtpb";
constexpr char kDevicesColumn[] = "GPUs";

[[noreturn]] void fail(const std::string& place, const std::string& text) {
  throw Error(Exit::kUsage, std::string(kFile) + ": " + place + ": " + text,
              "correct recipes/" + std::string(kFile) + ", or the table it names");
}

StackKind kind_of(scaling::Group::Kind kind, const std::string& place) {
  switch (kind) {
    case scaling::Group::OVERLAPPED:
      return StackKind::kOverlapped;
    case scaling::Group::GATED_INPUT:
      return StackKind::kGatedInput;
    case scaling::Group::GATED:
      return StackKind::kGated;
    case scaling::Group::ACCUMULATED:
      return StackKind::kAccumulated;
    case scaling::Group::INPUT_BOUND:
      return StackKind::kInputBound;
    case scaling::Group::CLUSTER:
      return StackKind::kCluster;
    default:
      fail(place, "has no kind");
  }
}

ScalingMachine machine_of(const scaling::Machine& proto) {
  ScalingMachine out{
      proto.id(), proto.title(), static_cast<int>(proto.devices()), {}, proto.network_gb_per_s()};
  for (const scaling::Bus& bus : proto.bus())
    out.buses.push_back({static_cast<int>(bus.devices()), bus.gb_per_s()});
  if (out.devices < 1 || out.buses.empty() || out.buses.back().devices < out.devices)
    fail("machine '" + out.id + "'", "its buses do not reach all of its devices");
  return out;
}

// The k-th number of a cell, counted from 1.
double number_at(const SourceTable& table, const std::vector<std::string>& row,
                 const std::string& column, uint32_t part, const std::string& place) {
  const int c = table.column(column);
  if (c < 0) fail(place, "table '" + table.name + "' has no column '" + column + "'");
  const std::string& cell = row[static_cast<size_t>(c)];
  const std::vector<std::string> numbers = numbers_in(cell);
  if (part < 1 || part > numbers.size())
    fail(place,
         "cell '" + cell + "' in column '" + column + "' has no number " + std::to_string(part));
  const double value = std::atof(numbers[part - 1].c_str());
  if (!(value > 0)) fail(place, "cell '" + cell + "' in column '" + column + "' is not above zero");
  return value;
}

bool belongs(const SourceTable& table, const std::vector<std::string>& row,
             const scaling::Series& series, const std::string& place) {
  return std::all_of(series.where().begin(), series.where().end(), [&](const scaling::Cell& cell) {
    const int c = table.column(cell.column());
    if (c < 0) fail(place, "table '" + table.name + "' has no column '" + cell.column() + "'");
    return row[static_cast<size_t>(c)] == cell.equals();
  });
}

class Reader {
 public:
  explicit Reader(const fs::path& root) : root_(root) {}

  PublishedScaling read() {
    scaling::ScalingData data;
    if (!google::protobuf::TextFormat::ParseFromString(read_file(root_ / kFile), &data))
      fail("all of it", "is not the text form of tools/recipe_run/scaling/series.proto");
    for (const scaling::Machine& machine : data.machine())
      out_.machines.push_back(machine_of(machine));
    for (const scaling::Group& group : data.group()) {
      for (const scaling::Series& series : group.series()) add(group, series);
    }
    return std::move(out_);
  }

 private:
  const SourceFile& source(const std::string& file) {
    const auto known = sources_.find(file);
    if (known != sources_.end()) return known->second;
    return sources_.emplace(file, parse_source(file, read_file(root_ / file))).first->second;
  }

  void add(const scaling::Group& group, const scaling::Series& series) {
    const std::string place = "group '" + group.id() + "', series '" + series.title() + "'";
    const SourceTable* table = source(group.file()).find(series.table());
    if (table == nullptr)
      fail(place, "'" + group.file() + "' has no table '" + series.table() + "'");
    const ScalingMachine& machine = out_.machine(series.machine());
    ScalingValue value{group.id(),
                       group.title() + ", " + machine.title + ", " + series.title(),
                       machine.id,
                       kind_of(group.kind(), place),
                       {}};
    ScalingObservation& o = value.observation;
    o.reduced_precision = series.reduced_precision();
    o.work.batch = series.batch();
    o.work.gradient_bytes = series.gradient_bytes();
    for (const std::vector<std::string>& row : table->rows) {
      if (!belongs(*table, row, series, place)) continue;
      const int devices = static_cast<int>(number_at(*table, row, kDevicesColumn, 1, place));
      const double rate = number_at(*table, row, series.column(), 1, place);
      if (devices == 1) {
        o.work.single_rate = rate;
        continue;
      }
      if (!(o.work.single_rate > 0)) fail(place, "the row of one device must come first");
      if (!series.accumulation().empty())
        o.work.micro_batches =
            number_at(*table, row, series.accumulation(), series.accumulation_part(), place);
      o.fabric = machine.fabric(devices);
      o.rate = rate;
      out_.values.push_back(value);
    }
    if (!(o.rate > 0)) fail(place, "no row of several devices belongs to it");
  }

  fs::path root_;
  PublishedScaling out_;
  std::map<std::string, SourceFile> sources_;
};

}  // namespace

Fabric ScalingMachine::fabric(int wanted) const {
  Fabric out;
  out.devices = wanted;
  out.nodes = (wanted + devices - 1) / devices;
  const auto bus =
      std::find_if(buses.begin(), buses.end(), [&](const Bus& b) { return b.devices >= wanted; });
  // A tree over the network reaches 0.92 of its ports.
  out.bus_gb_per_s = bus != buses.end() ? bus->gb_per_s : 0.92 * network_gb_per_s;
  return out;
}

const ScalingMachine& PublishedScaling::machine(const std::string& id) const {
  const auto it = std::find_if(machines.begin(), machines.end(),
                               [&](const ScalingMachine& m) { return m.id == id; });
  if (it == machines.end()) fail("machine '" + id + "'", "is not described");
  return *it;
}

PublishedScaling read_published_scaling(const fs::path& root) { return Reader(root).read(); }

}  // namespace reciperun
