// Checkpoints by functions of the host: memory, a pipe, stores that fail, and what a file cannot
// be, such as one whose bytes call the library back.
#include <assay/assay_comm.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

// A store in memory, whose n-th call may fail.
struct Store {
  std::string bytes;
  int64_t fails_at = -1;  // among writes and commit, or among reads
  int32_t with = 77;
  std::function<void()> during = [] {};  // what each function does besides
  int64_t calls = 0;
  int commits = 0, discards = 0;

  int32_t answer() {
    during();
    return calls++ == fails_at ? with : 0;
  }
  static Store& of(uintptr_t user) { return *reinterpret_cast<Store*>(user); }

  assay_io io() {
    return {.struct_size = sizeof(assay_io),
            .user = reinterpret_cast<uintptr_t>(this),
            .write =
                [](uintptr_t user, const void* src, size_t size) {
                  EXPECT_GT(size, 0u);
                  of(user).bytes.append(static_cast<const char*>(src), size);
                  return of(user).answer();
                },
            .commit = [](uintptr_t user) { return ++of(user).commits, of(user).answer(); },
            .discard = [](uintptr_t user) { ++of(user).discards, of(user).bytes.clear(); },
            .read =
                [](uintptr_t user, void* dst, size_t size, uint64_t offset) {
                  const std::string& from = of(user).bytes;
                  EXPECT_GT(size, 0u);
                  EXPECT_LE(size, size_t{1} << 20);
                  if (offset > from.size() || size > from.size() - offset) return -5;
                  std::memcpy(dst, from.data() + offset, size);
                  return of(user).answer();
                },
            .size = bytes.size()};
  }
};

class CheckpointIoTest : public SmallModel {
 protected:
  CheckpointIoTest() {
    for (int i = 0; i < 2; ++i) step(trainer.get(), batch);
    saved.bytes = save(trainer.get());
  }
  std::string save(const assay_trainer* of) const {
    Store store;
    const assay_io io = store.io();
    ok(assay_checkpoint_save_io, of, &io, 0u);
    EXPECT_EQ(store.commits, 1);
    EXPECT_EQ(store.discards, 0);
    return store.bytes;
  }
  Outcome load(assay_trainer* into, Store& store) const {
    const assay_io io = store.io();
    return call(assay_checkpoint_load_io, into, &io, 0u, nullptr);
  }
  Outcome open(Store& store, Owned<assay_model>& into) const {
    const assay_io io = store.io();
    assay_model* out = nullptr;
    const Outcome outcome = call(assay_model_open_io, context.get(), &io, &out);
    EXPECT_EQ(out == nullptr, outcome.status != ASSAY_OK);
    into.reset(out);
    return outcome;
  }
  std::map<std::string, std::vector<std::byte>> numbers(const assay_model* of) const {
    std::map<std::string, std::vector<std::byte>> all;
    for (const char* name : {"block1.conv.weight", "output.weight", "output.bias"}) {
      for (const int32_t kind : {ASSAY_KIND_VALUE, ASSAY_KIND_MOMENT1})
        all[name + std::to_string(kind)] = bits(of, name, kind);
    }
    all["mean"] = bits(of, "block1.bn.running_mean", ASSAY_KIND_STATISTIC);
    return all;
  }
  // Another trainer, which has taken other steps and carries a text.
  struct Other {
    Owned<assay_model> model;
    Owned<assay_trainer> trainer;
  };
  Other make_other() const {
    Other other{make_model(), nullptr};
    other.trainer = make_trainer(other.model.get());
    step(other.trainer.get(), SmallBatch(context.get(), 9));
    ok(assay_trainer_set_metadata, other.trainer.get(), text("own"), text("x"));
    return other;
  }
  bool has_text(const Other& other) const {
    assay_str value{};
    return assay_trainer_get_metadata(other.trainer.get(), text("own"), &value, nullptr) ==
           ASSAY_OK;
  }

  TemporaryFolder folder;
  Owned<assay_model> model = make_model();
  Owned<assay_trainer> trainer = make_trainer(model.get());
  Store saved;
};

TEST_F(CheckpointIoTest, MemoryIsAsGoodAsAFile) {
  const std::string path = folder.at("a.ckpt"), copy = folder.at("copy.ckpt");
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  std::ofstream(copy, std::ios::binary) << saved.bytes;
  EXPECT_TRUE(at(report(assay_checkpoint_verify, text(copy)), "ok").bool_value());
  EXPECT_TRUE(at(report(assay_checkpoint_diff, text(path), text(copy)), "identical").bool_value());

  const Other other = make_other();
  const assay_io io = saved.io();
  const auto loaded = report(assay_checkpoint_load_io, other.trainer.get(), &io, 0u);
  EXPECT_EQ(number(loaded, "step"), 2);
  EXPECT_EQ(number(loaded, "file_bytes"), static_cast<double>(saved.bytes.size()));
  EXPECT_FALSE(loaded.fields().contains("path"));
  EXPECT_FALSE(has_text(other));
  EXPECT_EQ(numbers(other.model.get()), numbers(model.get()));
  step(other.trainer.get(), batch), step(trainer.get(), batch);
  EXPECT_EQ(numbers(other.model.get()), numbers(model.get()));

  // Parts alone.
  Store weights;
  const assay_io to = weights.io();
  ok(assay_checkpoint_save_io, trainer.get(), &to, uint32_t{ASSAY_PART_WEIGHTS});
  EXPECT_LT(weights.bytes.size(), saved.bytes.size());
  const assay_io from = weights.io();
  ok(assay_checkpoint_load_io, other.trainer.get(), &from, uint32_t{ASSAY_PART_WEIGHTS}, nullptr);
  fails(ASSAY_E_INVALID, assay_checkpoint_load_io, other.trainer.get(), &from, 0u, nullptr);
}

TEST_F(CheckpointIoTest, AModelIsServedFromMemory) {
  Owned<assay_model> served;
  EXPECT_EQ(open(saved, served).status, ASSAY_OK);
  EXPECT_EQ(bits(served.get(), "output.weight"), bits(model.get(), "output.weight"));
  const std::string path = folder.at("a.ckpt"), weights = folder.at("a.safetensors");
  std::ofstream(path, std::ios::binary) << saved.bytes;
  const auto without_path = [](google::protobuf::Struct inspection) {
    inspection.mutable_fields()->erase("path");
    return inspection.DebugString();
  };
  const assay_io io = saved.io();
  EXPECT_EQ(report(assay_checkpoint_inspect_io, &io).DebugString(),
            without_path(report(assay_checkpoint_inspect, text(path))));
  report(assay_checkpoint_convert, text(path), text(weights), text("safetensors"), text(""), 0);
  std::ifstream file(weights, std::ios::binary);
  Store tensors{.bytes = {std::istreambuf_iterator<char>(file), {}}};
  const assay_io of_tensors = tensors.io();
  EXPECT_EQ(at(report(assay_checkpoint_inspect_io, &of_tensors), "format").string_value(),
            "safetensors");
  EXPECT_THAT(open(tensors, served).message,
              testing::AllOf(HasSubstr("the host's checkpoint"), HasSubstr("safetensors")));
}

// Whatever is larger comes in parts: here the manifest.
TEST_F(CheckpointIoTest, NothingIsReadInLargeParts) {
  std::string text_of_host((size_t{2} << 20) + 77, 'a');
  text_of_host[size_t{1} << 20] = 'b';
  ok(assay_trainer_set_metadata, trainer.get(), text("own"), text(text_of_host));
  Store large{.bytes = save(trainer.get())};
  EXPECT_GT(large.bytes.size(), text_of_host.size());
  const Other other = make_other();
  EXPECT_EQ(load(other.trainer.get(), large).status, ASSAY_OK);
  assay_str value{};
  ok(assay_trainer_get_metadata, other.trainer.get(), text("own"), &value);
  EXPECT_EQ(std::string_view(value.data, value.size), text_of_host);
  large.fails_at = 3, large.calls = 0;
  EXPECT_EQ(load(other.trainer.get(), large).status, ASSAY_E_IO);
}

// A stream goes one way: the other end keeps what comes until it has all.
TEST_F(CheckpointIoTest, ThroughAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Store received;
  std::thread receiver([&] {
    char piece[1000];
    ssize_t n = 0;
    while ((n = read(ends[0], piece, sizeof piece)) > 0)
      received.bytes.append(piece, static_cast<size_t>(n));
    close(ends[0]);
  });
  const assay_io io{.struct_size = sizeof io,
                    .user = static_cast<uintptr_t>(ends[1]),
                    .write =
                        [](uintptr_t user, const void* src, size_t size) {
                          const char* from = static_cast<const char*>(src);
                          while (size > 0) {
                            const ssize_t n = write(static_cast<int>(user), from, size);
                            if (n < 0) return errno;
                            from += n, size -= static_cast<size_t>(n);
                          }
                          return 0;
                        },
                    .commit = [](uintptr_t user) { return close(static_cast<int>(user)); }};
  ok(assay_checkpoint_save_io, trainer.get(), &io, 0u);
  receiver.join();
  const Other other = make_other();
  EXPECT_EQ(load(other.trainer.get(), received).status, ASSAY_OK);
  EXPECT_EQ(numbers(other.model.get()), numbers(model.get()));
}

TEST_F(CheckpointIoTest, AnyCallOfASaveMayFail) {
  const auto before = numbers(model.get());
  int64_t n = 0;
  for (;; ++n) {
    Store store{.fails_at = n, .with = static_cast<int32_t>(n % 2 == 0 ? 1000 + n : -1 - n)};
    const assay_io io = store.io();
    const Outcome outcome = call(assay_checkpoint_save_io, trainer.get(), &io, 0u);
    EXPECT_EQ(store.commits + store.discards, 1) << n;
    if (outcome.status == ASSAY_OK) break;
    EXPECT_EQ(outcome.status, ASSAY_E_IO) << outcome.message;
    EXPECT_EQ(outcome.native_code, store.with);
    EXPECT_EQ(outcome.domain, ASSAY_DOMAIN_HOST);
    EXPECT_EQ(store.calls, n + 1) << "a call behind the one that failed";
  }
  EXPECT_GT(n, 20);
  EXPECT_EQ(numbers(model.get()), before);
  Store store{.fails_at = n - 1};
  assay_io io = store.io();
  EXPECT_THAT(fails(ASSAY_E_IO, assay_checkpoint_save_io, trainer.get(), &io, 0u),
              HasSubstr("committing"));
  // Neither function is needed.
  Store plain;
  io = plain.io();
  io.commit = nullptr, io.discard = nullptr, io.read = nullptr;
  ok(assay_checkpoint_save_io, trainer.get(), &io, 0u);
  EXPECT_EQ(plain.bytes.size(), saved.bytes.size());
  plain.fails_at = plain.calls + 3;
  fails(ASSAY_E_IO, assay_checkpoint_save_io, trainer.get(), &io, 0u);
}

TEST_F(CheckpointIoTest, AnyCallOfALoadMayFail) {
  const Other other = make_other();
  const auto before = numbers(other.model.get());
  int64_t n = 0;
  for (;; ++n) {
    saved.fails_at = n, saved.calls = 0;
    const Outcome outcome = load(other.trainer.get(), saved);
    if (outcome.status == ASSAY_OK) break;
    EXPECT_EQ(outcome.status, ASSAY_E_IO) << outcome.message;
    EXPECT_EQ(outcome.native_code, 77);
    EXPECT_EQ(outcome.domain, ASSAY_DOMAIN_HOST);
    EXPECT_EQ(saved.calls, n + 1) << "a call behind the one that failed";
    ASSERT_EQ(numbers(other.model.get()), before) << n;
    ASSERT_TRUE(has_text(other));
    Owned<assay_model> opened;
    saved.calls = 0;
    const Outcome opening = open(saved, opened);
    EXPECT_TRUE(opening.status == ASSAY_E_IO || (opening.status == ASSAY_OK && saved.calls <= n));
  }
  EXPECT_GT(n, 20);
  EXPECT_EQ(numbers(other.model.get()), numbers(model.get()));
}

TEST_F(CheckpointIoTest, EveryLengthAndEveryByteCount) {
  const Other other = make_other();
  const auto before = numbers(other.model.get());
  for (size_t size = 0; size < saved.bytes.size(); ++size) {
    Store cut{.bytes = saved.bytes.substr(0, size)};
    const Outcome outcome = load(other.trainer.get(), cut);
    ASSERT_EQ(outcome.status, ASSAY_E_FORMAT) << size << ": " << outcome.message;
  }
  Store longer{.bytes = saved.bytes + '\0'};
  EXPECT_EQ(load(other.trainer.get(), longer).status, ASSAY_E_FORMAT);
  for (size_t i = 0; i < saved.bytes.size(); ++i) {
    Store flipped{.bytes = saved.bytes};
    flipped.bytes[i] = static_cast<char>(flipped.bytes[i] ^ 1 << i % 8);
    const Outcome outcome = load(other.trainer.get(), flipped);
    ASSERT_EQ(outcome.status, ASSAY_E_FORMAT) << i << ": " << outcome.message;
  }
  EXPECT_EQ(numbers(other.model.get()), before);
  EXPECT_TRUE(has_text(other));
}

// The library looks at no byte twice without summing what it uses.
TEST_F(CheckpointIoTest, BytesThatChangeMeanwhileAreNoticed) {
  const Other other = make_other();
  const auto before = numbers(other.model.get());
  const std::string whole = saved.bytes;
  for (int64_t n = 1;; ++n) {
    Store changing{.bytes = whole};
    changing.during = [&] {
      if (changing.calls == n)
        for (char& byte : changing.bytes) byte = static_cast<char>(byte ^ 0x10);
    };
    const Outcome outcome = load(other.trainer.get(), changing);
    if (changing.calls <= n + 1 && outcome.status == ASSAY_OK) break;
    ASSERT_EQ(outcome.status, ASSAY_E_FORMAT) << n << ": " << outcome.message;
    ASSERT_EQ(numbers(other.model.get()), before) << n;
  }
}

TEST_F(CheckpointIoTest, CallsBackAreKeptOut) {
  std::map<std::string, assay_status> answers;
  const auto call_back = [&](assay_trainer* t, const assay_model* m) {
    Store inner;
    const assay_io io = inner.io();
    answers["step"] = assay_trainer_step(t, batch.tensors(), 2, nullptr, nullptr);
    answers["save"] = assay_checkpoint_save_io(t, &io, 0, nullptr);
    answers["load"] = assay_checkpoint_load_io(t, &io, 0, nullptr, nullptr);
    assay_report* report = nullptr;
    answers["report"] = assay_model_report(m, &report, nullptr);
    assay_report_free(report);
    answers["interrupt"] = assay_context_interrupt(context.get());
    const auto another = make_model();
    answers["another"] = assay_model_initialize(another.get(), 1, nullptr);
  };
  using testing::Pair;
  using testing::UnorderedElementsAre;
  Store store;
  store.during = [&] { call_back(trainer.get(), model.get()); };
  const assay_io to = store.io();
  ok(assay_checkpoint_save_io, trainer.get(), &to, 0u);
  EXPECT_EQ(store.bytes.size(), saved.bytes.size());
  EXPECT_THAT(answers,
              UnorderedElementsAre(Pair("step", ASSAY_E_BUSY), Pair("save", ASSAY_OK),
                                   Pair("load", ASSAY_E_BUSY), Pair("report", ASSAY_OK),
                                   Pair("interrupt", ASSAY_OK), Pair("another", ASSAY_OK)));
  saved.during = store.during;
  EXPECT_EQ(load(trainer.get(), saved).status, ASSAY_OK);
  EXPECT_THAT(answers,
              UnorderedElementsAre(Pair("step", ASSAY_E_BUSY), Pair("save", ASSAY_E_BUSY),
                                   Pair("load", ASSAY_E_BUSY), Pair("report", ASSAY_E_BUSY),
                                   Pair("interrupt", ASSAY_OK), Pair("another", ASSAY_OK)));
  Owned<assay_model> opened;
  EXPECT_EQ(open(saved, opened).status, ASSAY_OK);  // of the context only
  EXPECT_EQ(answers["step"], ASSAY_OK);
}

TEST_F(CheckpointIoTest, BadRequests) {
  assay_io io = saved.io();
  io.write = nullptr;
  Outcome outcome = call(assay_checkpoint_save_io, trainer.get(), &io, 0u);
  EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
  EXPECT_EQ(outcome.argument, "io->write");
  io = saved.io();
  fails(ASSAY_E_INVALID, assay_checkpoint_save_io, trainer.get(), &io, 32u);
  io.read = nullptr;
  outcome = call(assay_checkpoint_load_io, trainer.get(), &io, 0u, nullptr);
  EXPECT_EQ(outcome.argument, "io->read");
  io = saved.io();
  io.size = uint64_t{1} << 63;
  outcome = call(assay_checkpoint_load_io, trainer.get(), &io, 0u, nullptr);
  EXPECT_EQ(outcome.argument, "io->size");
  // More than there is: the host says so.
  io.size = uint64_t{1} << 50;
  outcome = call(assay_checkpoint_load_io, trainer.get(), &io, 0u, nullptr);
  EXPECT_EQ(outcome.status, ASSAY_E_IO);
  EXPECT_EQ(outcome.native_code, -5);
  // Nothing is asked of a store that a save has no right to.
  Store store;
  io = store.io();
  ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  fails(ASSAY_E_INVALID, assay_checkpoint_save_io, trainer.get(), &io, 0u);
  EXPECT_EQ(store.calls + store.commits + store.discards, 0);
}

// Rank 0 writes, and all learn whether it could.
TEST(CheckpointIoOfRanks, RankZeroWrites) {
  assay_comm_id id{};
  ok(assay_comm_new_id, text("local"), &id);
  std::string kept;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto context = make_context();
      assay_comm* comm = nullptr;
      ok(assay_comm_create, context.get(), &id, rank, 2, int64_t{60} * 1000 * 1000 * 1000, &comm);
      const auto model =
          make<assay_model>(assay_model_named, context.get(), text("cnn"), text(kSmallCnn));
      const assay_trainer_options options{
          .struct_size = sizeof options, .batch_size = kBatch, .comm = comm};
      const auto trainer = make<assay_trainer>(
          assay_trainer_create, model.get(), &options,
          text(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1}, "seed": 5})"));
      const SmallBatch batch(context.get(), static_cast<unsigned>(rank));
      ok(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
      Store store;
      const assay_io to = store.io();
      ok(assay_checkpoint_save_io, trainer.get(), &to, 0u);
      EXPECT_EQ(store.calls > 0, rank == 0);
      if (rank == 0) kept = store.bytes;
      const auto barrier = make<assay_report>(assay_comm_gather, comm, text(""));
      Store from{.bytes = kept};
      const assay_io loading = from.io();
      ok(assay_checkpoint_load_io, trainer.get(), &loading, 0u, nullptr);
      store.fails_at = store.calls;
      const Outcome outcome = call(assay_checkpoint_save_io, trainer.get(), &to, 0u);
      EXPECT_EQ(outcome.status, rank == 0 ? ASSAY_E_IO : ASSAY_E_COMM);
      EXPECT_THAT(outcome.message, HasSubstr("the host's function failed with 77"));
      assay_comm_free(comm);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace assay::test
