// What one optimizer step costs on N devices, from what it costs on one.
//
//   T_N = K (T_1 (1 + κ g) + λ g + c_item B) + c_sync + E        g = log2 N, or 1
//   X_N = N B K / T_N,  then  (X_N^-p + (nodes R_host)^-p)^(-1/p)
//
// T_1 is the own single-device time of one micro-batch of B items, K the micro-batches of a step. κ
// (relative) and λ (absolute) are stragglers and a shared host, c_item the input work per item on a
// shared host, c_sync a fixed cost of every step that crosses devices (negotiation, gating, a
// broken fusion), R_host what one host can feed, E the part of the all-reduce that is not hidden
// behind the backward pass. Bandwidth and overlap alone miss published single-node values by 11 %
// on average, 139 % at worst: what those tables lose, they lose in c_sync and R_host.
//
// Bus rates and latencies are the figures of NCCL's own tuner (NVIDIA/nccl, src/graph/topo.h and
// src/graph/tuning.cc): 20 GB/s per NVLink of Volta and Ampere, 12 GB/s per 100 Gb/s network port.
#pragma once

namespace reciperun {

// Where the gradients meet.
struct Fabric {
  int devices = 1;
  int nodes = 1;
  double bus_gb_per_s = 0;  // of the slowest link that an all-reduce crosses
};

struct DeviceWork {
  double batch = 0;           // items per device and micro-batch
  double micro_batches = 1;   // K
  double single_rate = 0;     // items/s of one device by itself
  double gradient_bytes = 0;  // on the wire, per optimizer step

  double micro_batch_ms() const { return 1000 * batch / single_rate; }
};

// How much of the all-reduce shows.
enum class Exposure {
  kHidden,   // all of it overlaps with the backward pass
  kGated,    // none: gradients are reduced after the backward pass
  kPartial,  // a share of the backward pass hides it, down to the last bucket
};

struct CostConstants {
  Exposure exposure = Exposure::kHidden;
  bool per_doubling = true;  // κ and λ grow with log2 N
  double straggle = 0;       // κ
  double host_ms = 0;        // λ
  double item_ms = 0;        // c_item
  double sync_ms = 0;        // c_sync
  double overlap = 0;        // ω, for kPartial
  double host_rate = 0;      // R_host in items/s and node; 0 = never the limit
};

// Ring inside one node, tree across nodes, in buckets of 64 MB; milliseconds.
double all_reduce_ms(double bytes, const Fabric& fabric);

// The part of the all-reduce that is waited for.
double exposed_ms(const DeviceWork& work, const Fabric& fabric, Exposure exposure, double overlap);

double step_ms(const DeviceWork& work, const Fabric& fabric, const CostConstants& constants);

// Items/s of all devices together, the input ceiling included. One device: its own rate.
double predicted_rate(const DeviceWork& work, const Fabric& fabric, const CostConstants& constants);

}  // namespace reciperun
