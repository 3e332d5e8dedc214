// The published scaling tables as observations of the cost model.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/scaling/calibration.h"

namespace reciperun {

struct ScalingMachine {
  std::string id;
  std::string title;
  int devices = 1;  // of one node
  struct Bus {
    int devices = 0;
    double gb_per_s = 0;
  };
  std::vector<Bus> buses;
  double network_gb_per_s = 0;  // of one node

  // `devices` of them: inside one node, or over as many full nodes as it takes.
  Fabric fabric(int devices) const;
};

// One published value and where it belongs.
struct ScalingValue {
  std::string group;    // "resnet50_v15"
  std::string title;    // "ResNet-50, DGX-1, AMP, batch 192"
  std::string machine;  // "dgx-1"
  StackKind kind = StackKind::kOverlapped;
  ScalingObservation observation;
};

struct PublishedScaling {
  std::vector<ScalingMachine> machines;
  std::vector<ScalingValue> values;  // in the order of the file

  // Fails (Exit::kUsage) on an id that the file does not have.
  const ScalingMachine& machine(const std::string& id) const;
};

// Reads scaling.txtpb and the tables it names below `root`, the recipes folder. Fails
// (Exit::kUsage) with the place on text that is not understood, a table, row or column that is not
// there, or a series without a value for one device.
PublishedScaling read_published_scaling(const fs::path& root);

}  // namespace reciperun
