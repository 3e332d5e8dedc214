// Whole lives of a host in which one allocation, one system call or one thread fails, wherever it
// is: the call says so and has changed nothing, the same call then succeeds, the numbers at the end
// are those of an undisturbed life, and nothing is left behind.
//
// Each life is tried with every n-th call of its kind failing. That takes minutes: by default the
// first forty and then about as many of the rest are tried. ASSAY_FAULT_STRIDE=1 in the environment
// tries all, 10 every tenth, 0 the first allocation on each path through the code.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <utility>

#include "tests/capi/allocations.h"
#include "tests/capi/living_host.h"
#include "tests/capi/system_calls.h"

namespace assay::test {
namespace {

namespace fs = std::filesystem;

class FaultsTest : public LivingHost {
 protected:
  void live_with_cnn(Host& then, Trace& trace) const {
    assay_context* own = nullptr;
    assay_model* model = nullptr;
    then(assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &own);
    then(assay_model_named, own, text("cnn"), text(kSmallCnn), &model);
    train_and_serve(then, own, model, trace);
    assay_model_free(model);
    assay_context_free(own);
  }

  void live_with_own_network(Host& then, Trace& trace) const {
    assay_context* own = nullptr;
    assay_graph* graph = nullptr;
    assay_model* model = nullptr;
    assay_value image = 0, label = 0, x = 0, loss = 0;
    const auto layer = [&](std::string_view kind, std::string_view name, std::string_view keys,
                           std::initializer_list<assay_value> in) {
      assay_value made = 0;
      then(assay_graph_layer, graph, text(kind), text(name), text(keys), in.begin(), in.size(),
           &made, size_t{1});
      return made;
    };
    then(assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &own);
    then(assay_graph_create, own, text("faulty"), &graph);
    then(assay_graph_input, graph, text("image"), text(R"({"shape": [8, 8, 1]})"), &image);
    then(assay_graph_input, graph, text("label"),
         text(R"({"dtype": "i32", "label": true, "range": [0, 3]})"), &label);
    x = layer("conv2d", "conv", R"({"channels": 4, "kernel": [3, 3], "bias": false})", {image});
    x = layer("batch_norm", "bn", "", {x});
    x = layer("activation", "relu", "", {x});
    x = layer("flatten", "flat", "", {x});
    x = layer("linear", "head", R"({"features": 3})", {x});
    loss = layer("softmax_cross_entropy", "loss", "", {x, label});
    then(assay_graph_output, graph, text("loss"), loss, assay_value{0}, text(""));
    then(assay_graph_output, graph, text("logits"), x, assay_value{0}, text(""));
    then(assay_graph_finish, graph, &model);
    assay_graph_free(graph);
    train_and_serve(then, own, model, trace);
    assay_model_free(model);
    assay_context_free(own);
  }

  static int32_t give_picture(uintptr_t, int64_t index, assay_give give, void* to) {
    give(to, text("image"), ASSAY_U8, "gray", 4);
    give(to, text("label"), ASSAY_I64, &index, 1);
    return 0;
  }

  // The labels of two batches, and the loader's end.
  void load(Host& then, assay_loader*& loader, float* trace) const {
    for (size_t i = 0; i < 2; ++i) {
      const assay_tensor* in[2] = {};
      int32_t labels[3] = {};
      then(assay_loader_next, loader, static_cast<const assay_tensor**>(in), size_t{2}, nullptr);
      then(assay_tensor_read, in[1], static_cast<void*>(labels), sizeof labels);
      for (size_t k = 0; k < 3; ++k) trace[3 * i + k] = static_cast<float>(labels[k]);
    }
    assay_loader_free(std::exchange(loader, nullptr));
  }

  // Published files to records, and the records, then samples of the host, to batches, by two
  // workers.
  void live_with_data(Host& then, Trace& trace) const {
    assay_context* own = nullptr;
    assay_loader* loader = nullptr;
    assay_samples samples{.struct_size = sizeof samples, .count = 6, .sample = give_picture};
    const std::string_view keys = R"({"batch_size": 3, "epochs": 1, "workers": 2, "seed": 1})";
    then(assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &own);
    then(assay_dataset_convert, own, text("fashion_mnist"), text(source_), text(records_),
         text(R"({"shards": 2})"), nullptr, uintptr_t{0}, nullptr);
    then(assay_dataset_verify, own, text(records_), nullptr, uintptr_t{0});
    then(assay_loader_create, own, text(records_), text("train"), text(keys), text(""), &loader);
    load(then, loader, trace.data());
    then(assay_loader_from_samples, own, static_cast<const assay_samples*>(&samples),
         text(R"({"kind": "images", "image": [2, 2, 1], "classes": 6})"), text(keys), text(""),
         &loader);
    load(then, loader, trace.data() + 6);
    assay_context_free(own);
  }

  void write_source() const {
    fs::create_directory(source_);
    const auto word = [](std::ofstream& file, uint32_t value) {
      for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
    };
    for (const std::string prefix : {"train", "t10k"}) {
      std::ofstream images(source_ + "/" + prefix + "-images-idx3-ubyte"),
          labels(source_ + "/" + prefix + "-labels-idx1-ubyte");
      for (const uint32_t value : {0x803u, 6u, 28u, 28u}) word(images, value);
      for (const uint32_t value : {0x801u, 6u}) word(labels, value);
      for (int i = 0; i < 6; ++i) {
        images << std::string(28 * 28, static_cast<char>(i));
        labels.put(static_cast<char>(i));
      }
    }
  }

  const std::string source_ = folder.at("source"), records_ = folder.at("records");
};

// A call that is refused drops the graphs by which shapes are known: the next one makes them anew.
TEST_F(FaultsTest, AGraphIsWholeAfterWantOfMemoryBehindARefusal) {
  int failed = 0;
  for (int64_t n = 1; n <= 400; ++n) {
    const auto graph = make<assay_graph>(assay_graph_create, context.get(), text("faulty"));
    assay_value image = 0, label = 0, x = 0, loss = 0;
    const auto layer = [&](std::string_view kind, std::string_view name, std::string_view keys,
                           std::vector<assay_value> in, assay_value* out) {
      return call(assay_graph_layer, graph.get(), text(kind), text(name), text(keys),
                  static_cast<const assay_value*>(in.data()), in.size(), out, size_t{1})
          .status;
    };
    ok(assay_graph_input, graph.get(), text("image"), text(R"({"shape": [8]})"), &image);
    ok(assay_graph_input, graph.get(), text("label"),
       text(R"({"dtype": "i32", "label": true, "range": [0, 3]})"), &label);
    EXPECT_EQ(layer("linear", "head", R"({"features": 3})", {image}, &x), ASSAY_OK);
    EXPECT_EQ(layer("softmax_cross_entropy", "loss", "", {x, label}, &loss), ASSAY_OK);
    assay_value none = 0;
    EXPECT_EQ(layer("add", "sum", "", {x, image}, &none), ASSAY_E_INVALID);
    const auto output = [&] {
      assay_error* error = nullptr;
      const assay_status status =
          assay_graph_output(graph.get(), text("loss"), loss, 0, text(""), &error);
      assay_error_free(error);
      return status;
    };
    fail_allocation(n);
    const assay_status status = output();
    fail_allocation(0);
    failed += status != ASSAY_OK;
    EXPECT_TRUE(status == ASSAY_OK || status == ASSAY_E_OOM_HOST) << n;
    if (status != ASSAY_OK) {
      EXPECT_EQ(output(), ASSAY_OK) << n;
    }
    ok(assay_graph_output, graph.get(), text("logits"), x, assay_value{0}, text(""));
    make<assay_model>(assay_graph_finish, graph.get());
  }
  EXPECT_GT(failed, 100);
}

struct LifeCase {
  const char* name;
  int which;
};
// The name is GoogleTest's. NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const LifeCase& life, std::ostream* out) { *out << life.name; }

class EveryFaultTest : public FaultsTest, public testing::WithParamInterface<LifeCase> {
 protected:
  EveryFaultTest() { write_source(); }

  struct Lived {
    Host host;
    Trace trace{};
  };
  Lived live() {
    std::error_code ignored;
    fs::remove_all(records_, ignored);  // before anything may fail
    Lived lived;
    begin_(lived);
    switch (GetParam().which) {
      case 0:
        live_with_cnn(lived.host, lived.trace);
        break;
      case 1:
        live_with_own_network(lived.host, lived.trace);
        break;
      default:
        live_with_data(lived.host, lived.trace);
    }
    return lived;
  }

  // The calls that are tried, of so many.
  static std::vector<int64_t> chosen(int64_t calls) {
    constexpr int64_t kFirst = 40;
    const char* const asked = std::getenv("ASSAY_FAULT_STRIDE");
    const int64_t stride =
        std::max<int64_t>(1, asked == nullptr ? calls / kFirst : std::atoll(asked));
    std::vector<int64_t> numbers;
    for (int64_t n = 1; n <= calls; n += n < kFirst ? 1 : stride) numbers.push_back(n);
    return numbers;
  }

  static size_t open_files() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
  }
  bool has_temporary_files() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder.at("")))
      if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
    return false;
  }
  // Sets the fault of a life off, once nothing of the test itself can meet it.
  std::function<void(Lived&)> begin_ = [](Lived&) {};
};

TEST_P(EveryFaultTest, OfAnAllocation) {
  const Lived expected = live();
  ASSERT_FALSE(expected.host.stuck()) << expected.host.said();
  live();
  follow_paths();
  live();
  const int64_t calls = fail_allocation(0);
  const char* const stride = std::getenv("ASSAY_FAULT_STRIDE");
  const bool by_path = stride != nullptr && std::atoll(stride) == 0;
  const std::vector<int64_t> numbers = by_path ? first_of_each_path() : chosen(calls);
  const int64_t blocks = live_blocks();
  live();
  ASSERT_EQ(live_blocks(), blocks) << "an undisturbed life leaves something";
  int64_t failed = 0;
  const auto fail_one = [&](int64_t n) {
    begin_ = [n](Lived&) { fail_allocation(n); };
    const Lived lived = live();
    fail_allocation(0);
    begin_ = [](Lived&) {};
    failed += lived.host.failed() != ASSAY_OK;
    ASSERT_FALSE(lived.host.stuck()) << "allocation " << n << ": " << lived.host.said();
    ASSERT_TRUE(lived.host.failed() == ASSAY_OK || lived.host.failed() == ASSAY_E_OOM_HOST)
        << "allocation " << n << ", call " << lived.host.failed_call() << ": "
        << lived.host.failed();
    ASSERT_EQ(lived.trace, expected.trace) << "allocation " << n;
    live();  // what libraries keep for later calls is there again
  };
  // Messages of libprotobuf lose what they hold where memory runs out while they are copied, such
  // as the description of a data set.
  const int64_t of_a_message = GetParam().which == 2 ? 100 : 40;
  for (const int64_t n : numbers) {
    int64_t lost = 0;
    // What is made once, at the first failure, is no leak.
    for (int again = 0; again < 3; ++again) {
      const int64_t before = live_blocks();
      fail_one(n);
      if (HasFatalFailure()) return;
      lost = live_blocks() - before;
      if (lost <= 0) break;
    }
    ASSERT_LE(lost, of_a_message) << "allocation " << n << " leaks";
  }
  std::printf("%lld allocations, %zu of them failed in turn\n", static_cast<long long>(calls),
              numbers.size());
  EXPECT_GT(failed, static_cast<int64_t>(numbers.size()) / 2);
}

TEST_P(EveryFaultTest, OfASystemCall) {
  const Lived expected = live();
  ASSERT_FALSE(expected.host.stuck()) << expected.host.said();
  fail_system_call(0);
  live();
  const int64_t calls = fail_system_call(0);
  ASSERT_GT(calls, 10);
  const size_t files = open_files();
  int64_t failed = 0;
  for (const int error : {EIO, ENOSPC, EMFILE, EINTR, kShort}) {
    for (const int64_t n : chosen(calls)) {
      begin_ = [&](Lived&) { fail_system_call(n, error); };
      const Lived lived = live();
      const std::string call = failed_system_call();
      fail_system_call(0);
      begin_ = [](Lived&) {};
      const std::string where =
          call + ", number " + std::to_string(n) + ", error " + std::to_string(error);
      failed += lived.host.failed() != ASSAY_OK;
      ASSERT_FALSE(lived.host.stuck()) << where << ": " << lived.host.said();
      // What was interrupted or cut short goes on; a thread that cannot start is want of memory.
      const bool goes_on = (error == EINTR || error == kShort) && call != "pthread_create";
      const assay_status refusal = call == "pthread_create" ? ASSAY_E_OOM_HOST : ASSAY_E_IO;
      ASSERT_TRUE(lived.host.failed() == ASSAY_OK || (!goes_on && lived.host.failed() == refusal))
          << where << ", call " << lived.host.failed_call() << ": " << lived.host.failed();
      ASSERT_EQ(lived.trace, expected.trace) << where;
      ASSERT_EQ(open_files(), files) << where << " leaves a file open";
      if (call == "unlink") live();  // the next writer takes away what could not be removed
      ASSERT_FALSE(has_temporary_files()) << where;
    }
  }
  std::printf("%lld system calls, %zu of them failed in turn, each in five ways\n",
              static_cast<long long>(calls), chosen(calls).size());
  EXPECT_GT(failed, static_cast<int64_t>(chosen(calls).size()) / 2);
}

INSTANTIATE_TEST_SUITE_P(Lives, EveryFaultTest,
                         testing::Values(LifeCase{"cnn", 0}, LifeCase{"own_network", 1},
                                         LifeCase{"data", 2}),
                         [](const auto& of) { return of.param.name; });

// The first load of a trainer that plays several devices takes memory for their statistics.
TEST_F(FaultsTest, AResumeOnSeveralDevicesThatFoundNoMemoryMayBeMadeAgain) {
  const auto make_normed = [&] {
    return make<assay_model>(assay_model_named, context.get(), text("cnn"),
                             text(R"({"image": [8, 8, 1], "classes": 3, "conv": [4], "kernel": 3,
                                      "hidden": [0], "batch_norm": true})"));
  };
  const auto make_several = [&](const Owned<assay_model>& of) {
    return make_trainer(of.get(), R"({"optimizer": {"name": "sgd", "momentum": 0.9},
                                      "emulated_devices": 2, "accumulate": 2})");
  };
  const SmallBatch other(context.get(), 2);
  const auto loss_of_second_device = [&](assay_trainer* trainer) {
    step(trainer, batch), step(trainer, other);
    ok(assay_trainer_set, trainer, text("evaluated_device"), 1.0);
    assay_eval_info info{.struct_size = sizeof info};
    ok(assay_trainer_eval, trainer, batch.tensors(), size_t{2}, 0u, &info);
    return info.loss_sum;
  };
  const auto model = make_normed();
  const auto trainer = make_several(model);
  step(trainer.get(), batch), step(trainer.get(), other);
  ok(assay_checkpoint_save, trainer.get(), text(model_file), 0u);
  const double expected = loss_of_second_device(trainer.get());
  int failed = 0;
  for (int64_t n = 1;; ++n) {
    const auto again_model = make_normed();
    const auto again = make_several(again_model);
    fail_allocation(n);
    const assay_status status =
        assay_checkpoint_load(again.get(), text(model_file), 0u, nullptr, nullptr);
    const int64_t calls = fail_allocation(0);
    if (calls < n) break;
    ASSERT_TRUE(status == ASSAY_OK || status == ASSAY_E_OOM_HOST) << n;
    failed += status != ASSAY_OK;
    if (status != ASSAY_OK) ok(assay_checkpoint_load, again.get(), text(model_file), 0u, nullptr);
    ASSERT_EQ(loss_of_second_device(again.get()), expected) << n;
  }
  EXPECT_GT(failed, 100);
}

// A save that fails leaves the file that was there, whole, but for the last sync: then it is the
// new one, whole as well.
TEST_F(FaultsTest, ASaveThatFailsKeepsAWholeFile) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(model_file), 0u);
  const auto saved_step = [&] {
    EXPECT_TRUE(at(report(assay_checkpoint_verify, text(model_file)), "ok").bool_value());
    return at(report(assay_checkpoint_inspect, text(model_file)), "step").string_value();
  };
  const std::string before = saved_step();
  step(trainer.get(), batch);
  int failed = 0, replaced = 0;
  for (int64_t n = 1;; ++n) {
    fail_system_call(n, EIO);
    const assay_status status = assay_checkpoint_save(trainer.get(), text(model_file), 0u, nullptr);
    const std::string call = failed_system_call();
    fail_system_call(0);
    if (call.empty()) break;
    const bool is_new = saved_step() != before;
    if (status != ASSAY_OK) {
      ++failed, replaced += is_new;
      EXPECT_TRUE(!is_new || call == "fsync") << call;
    } else {
      EXPECT_TRUE(is_new) << call;
    }
    if (!is_new) continue;
    // The state before, for the next one.
    ok(assay_checkpoint_load, trainer.get(), text(model_file), 0u, nullptr);
    const auto again_model = make_model();
    const auto again = make_trainer(again_model.get());
    step(again.get(), batch);
    ok(assay_checkpoint_save, again.get(), text(model_file), 0u);
    ASSERT_EQ(saved_step(), before);
  }
  EXPECT_GT(failed, 4);
  EXPECT_EQ(replaced, 1);
}

}  // namespace
}  // namespace assay::test
