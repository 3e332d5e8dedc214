#include "sdk/train/checkpoint/checkpoint.h"

namespace assay::checkpoint {

std::string_view to_text(Role role) {
  switch (role) {
    case Role::kValue:
      return "value";
    case Role::kMoment1:
      return "moment1";
    case Role::kMoment2:
      return "moment2";
    case Role::kEma:
      return "ema";
    case Role::kStatistic:
      return "statistic";
    case Role::kMaster:
      return "master";
    case Role::kState:
      return "state";
  }
  return "unknown";
}

Part part_of(Role role) {
  switch (role) {
    case Role::kValue:
      return kWeights;
    case Role::kMoment1:
    case Role::kMoment2:
      return kMoments;
    case Role::kEma:
      return kEmaPart;
    case Role::kStatistic:
      return kStatistics;
    case Role::kMaster:
      return kMasters;
    case Role::kState:
      break;
  }
  return kTrainerState;
}

}  // namespace assay::checkpoint
