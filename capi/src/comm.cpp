// Channels through the C interface: ids that say how the ranks are connected, and which belong
// together.
#include "capi/src/comm.h"

#include <array>
#include <chrono>
#include <random>

#include "capi/src/abi.h"
#include "capi/src/context.h"
#include "capi/src/guard.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "sdk/base/expect.h"
#include "sdk/base/hex.h"
#include "sdk/base/utf8.h"
#include "sdk/comm/local.h"
#include "sdk/comm/mpi.h"

namespace assay::capi {
namespace {

constexpr std::string_view kKinds[] = {"local", "mpi"};

constexpr int32_t kMostRanks = 65536;  // each has room for what it says

// An id is the name of its kind and zeros, of "local" with 16 random bytes at the end.
constexpr size_t kRandomBytes = 16;

std::string_view kind_of(const assay_comm_id& id) {
  const std::string_view bytes(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes);
  const std::string_view kind = bytes.substr(0, bytes.find('\0'));
  require(std::ranges::find(kKinds, kind) != std::end(kKinds), Code::kInvalid,
          "id is not one that assay_comm_new_id made");
  return kind;
}

assay_comm_id new_id(std::string_view kind) {
  if (std::ranges::find(kKinds, kind) == std::end(kKinds))
    fail_unknown("no channel is of this kind", "kind", kind, kKinds);
  assay_comm_id id{};
  std::ranges::copy(kind, id.bytes);
  if (kind != "local") return id;
  std::random_device random;
  for (size_t i = 0; i < kRandomBytes; ++i)
    id.bytes[sizeof id.bytes - 1 - i] = static_cast<uint8_t>(random());
  return id;
}

std::unique_ptr<Channel> connect(const assay_comm_id& id, int rank, int world,
                                 std::chrono::nanoseconds timeout) {
  if (kind_of(id) == "mpi") return make_mpi_channel(rank, world, timeout);
  return make_local_channel(hex_text(id.bytes), rank, world, timeout);
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_comm_new_id(assay_str kind, assay_comm_id* out, assay_error** err) {
  return guard(err, [&] { not_null(out, "out") = new_id(to_text(kind, "kind")); });
}

assay_status assay_comm_create(const assay_context* c, const assay_comm_id* id, int32_t rank,
                               int32_t world, int64_t timeout_ns, assay_comm** out,
                               assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    const Context& context = *not_null(c, "c").impl;
    const assay_comm_id& of_all = not_null(id, "id");
    expect(world >= 1 && world <= kMostRanks, {"", "world"}, world, "1 to ", kMostRanks);
    expect(rank >= 0 && rank < world, {"", "rank"}, rank, "0 to ", world - 1);
    expect(timeout_ns > 0, {"", "timeout_ns"}, timeout_ns, "more than 0");
    const std::chrono::nanoseconds timeout(timeout_ns);
    *out = new assay_comm(context.backend()->make_channel(connect(of_all, rank, world, timeout),
                                                          timeout, context.backend()));
  });
}

assay_status assay_comm_gather(assay_comm* comm, assay_str mine, assay_report** out,
                               assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    assay_comm& handle = not_null(comm, "comm");
    const std::string text(to_text(mine, "mine"));
    const ExclusiveUse use(handle.access, "channel");
    GatheredTexts report;
    for (std::string& theirs : handle.channel->gather(text)) report.add_texts(std::move(theirs));
    *out = new_report(report);
  });
}

assay_status assay_comm_abort(const assay_comm* comm, assay_error** err) {
  return guard(err, [&] { not_null(comm, "comm").channel->abort(); });
}

void assay_comm_free(assay_comm* comm) { delete comm; }
