#include "sdk/train/checkpoint/checkpoint.h"

namespace assay::checkpoint {

Part part_of(Role role) {
  switch (role) {
    case Role::kValue:
      return kWeights;
    case Role::kMoment1:
    case Role::kMoment2:
      return kMoments;
    case Role::kEma:
    case Role::kStatisticEma:
      return kEmaPart;
    case Role::kStatistic:
      return kStatistics;
    case Role::kGradient:
    case Role::kState:
      break;
  }
  return kTrainerState;
}

}  // namespace assay::checkpoint
