// Training, serving, files and failures on a GPU.
#include <cuda_runtime.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "tests/capi/dlpack_tensors.h"
#include "tests/capi/graph_writer.h"
#include "tests/capi/living_host.h"
#include "tests/capi/on_the_gpu.h"
#include "tests/nn/rebuilt.h"

namespace assay::test {
namespace {

using cuda::emulation::Held;
using cuda::emulation::held;
using cuda::emulation::machine;
using google::protobuf::Struct;
using testing::HasSubstr;

// Before any test, those of other files that this program holds included.
[[maybe_unused]] const bool kMachineIsSet = [] {
  device_under_test = kGpu;
  machine() = four_devices();
  return true;
}();

// ---- Devices ----

TEST(Devices, AreListedWithWhatTheyAre) {
  cudaDeviceReset();
  assay_device_info info{.struct_size = sizeof info};
  ok(assay_device_enum, size_t{1}, &info);
  EXPECT_EQ(info.id.kind, ASSAY_DEVICE_CUDA);
  EXPECT_EQ(info.id.index, 0);
  EXPECT_EQ(string(info.name), "NVIDIA H200");
  EXPECT_THAT(string(info.driver), HasSubstr("CUDA 13.0"));
  EXPECT_EQ(string(info.unavailable_reason), "");
  EXPECT_EQ(info.mem_total, uint64_t{141} << 30);
  EXPECT_EQ(info.mem_free, 0u);  // to ask would be to use it
  EXPECT_FALSE(cuda::emulation::has_context(0));
  ok(assay_device_enum, size_t{3}, &info);
  EXPECT_EQ(info.id.index, 2);
  ok(assay_device_enum, size_t{4}, &info);
  EXPECT_THAT(string(info.unavailable_reason), HasSubstr("asking for CUDA device 3"));
  fails(ASSAY_E_NOT_FOUND, assay_device_enum, size_t{5}, &info);
  const auto context = make_context();
  ok(assay_device_enum, size_t{1}, &info);
  EXPECT_EQ(info.mem_free, uint64_t{141} << 30);
  const Struct environment = report(assay_env_report, context.get());
  const Struct& device = at(environment, "device").struct_value();
  EXPECT_EQ(at(device, "kind").string_value(), "cuda");
  EXPECT_EQ(at(device, "name").string_value(), "NVIDIA H200");
  EXPECT_GT(number(device, "mem_free"), 0);
}

TEST(Devices, ThatCannotBeUsedAreRefused) {
  const auto refused = [](int32_t index) {
    const assay_device_id device{ASSAY_DEVICE_CUDA, index};
    assay_context* none = nullptr;
    Outcome outcome = call(assay_context_create, nullptr, nullptr, &device, size_t{1}, &none);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(outcome.argument, "devices");
    EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_CALLER});
    return outcome;
  };
  for (const int32_t index : {4, 17, -1}) {
    const Outcome outcome = refused(index);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(outcome.message,
              "there is no CUDA device " + std::to_string(index) + "; this machine has 4");
    EXPECT_EQ(outcome.expected, "0 to 3");
  }
  const Outcome outcome = refused(3);
  EXPECT_EQ(outcome.status, ASSAY_E_UNSUPPORTED);
  EXPECT_THAT(outcome.message,
              HasSubstr("CUDA device 3 cannot be used: asking for CUDA device 3: "));
}

// All that a checkpoint keeps of the model's variables, as bytes.
std::vector<std::byte> all_bytes(const assay_model* model, bool weights_only = false) {
  std::vector<std::byte> all;
  const auto add = [&](const std::string& name, int32_t kind) {
    const auto tensor = make<assay_tensor>(assay_model_tensor, model, text(name), kind);
    const auto bytes = elements_of(tensor.get());
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  const Struct described = report(assay_model_report, model);
  for (const auto& row : at(described, "variables").list_value().values()) {
    const std::string name = at(row.struct_value(), "name").string_value();
    const bool trained = at(row.struct_value(), "role").string_value() == "value";
    add(name, trained ? ASSAY_KIND_VALUE : ASSAY_KIND_STATISTIC);
    if (weights_only) continue;
    add(name, ASSAY_KIND_EMA);
    if (trained) add(name, ASSAY_KIND_MOMENT1);
  }
  EXPECT_GT(all.size(), 500u);
  return all;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(double(a[i]) - b[i]));
  return largest;
}

// ---- Training ----

struct Network {
  const char* name;
  std::function<Owned<assay_model>(const assay_context*)> make;
};

// Which decides nothing on the way: no relu and no maximum, whose choice a rounding may turn.
Owned<assay_model> own_network(const assay_context* on) {
  GraphWriter w(on);
  auto x = w.input("image", R"({"shape": [8, 8, 1]})");
  x = w.layer("conv2d", "stem", R"({"channels": 8, "padding": [1, 1], "bias": false})", {x});
  x = w.layer("activation", "swish", R"({"function": "swish"})",
              {w.layer("batch_norm", "norm", "", {x})});
  const auto y = w.layer("depthwise_conv2d", "depthwise", R"({"same": true})", {x});
  x = w.layer("average_pool", "pool", "", {w.layer("add", "sum", "", {x, y})});
  x = w.layer("layer_norm", "pixels", "", {x});
  x = w.layer("dropout", "dropout", R"({"rate": 0.2})", {w.layer("flatten", "flat", "", {x})});
  add_classifier(w, w.layer("linear", "output", R"({"features": 10})", {x}));
  return w.finish();
}

// The name is GoogleTest's. NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

// `loss`: how far from the CPU's it may be after six steps, as a share. fp32 differs by the order
// of sums; tf32 and f16 round what is multiplied to 2^-11, bf16 to 2^-8, in three layers.
struct Mode {
  const char* precision;
  const char* reference;  // of the CPU's trainer
  double loss;
};
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.precision; }

class Training : public OnTheGpu, public testing::WithParamInterface<std::tuple<Network, Mode>> {
 protected:
  static Owned<assay_model> make_network(const assay_context* on) {
    return std::get<Network>(GetParam()).make(on);
  }
  static const Mode& mode() { return std::get<Mode>(GetParam()); }
  static Owned<assay_trainer> trainer_of(assay_model* model, const std::string& precision) {
    return make<assay_trainer>(assay_trainer_create, model, nullptr,
                               text(R"({"batch_size": 6, "seed": 5, "precision": ")" + precision +
                                    R"(", "optimizer": {"name": "sgd", "momentum": 0.9,
                                    "learning_rate": 0.05, "clip_norm": 5, "ema_decay": 0.9,
                                    "ema_statistics": true}})"));
  }
  void run(assay_trainer* trainer, unsigned from, unsigned to) const {
    for (unsigned i = from; i < to; ++i) step(trainer, SmallBatch(context.get(), i));
  }
};

TEST_P(Training, GivesTheLossesOfTheCpu) {
  const auto ours = make_network(context.get()), other = make_network(cpu.get());
  const auto trainer = trainer_of(ours.get(), mode().precision),
             reference = trainer_of(other.get(), mode().reference);
  EXPECT_EQ(all_bytes(ours.get()), all_bytes(other.get()));
  for (unsigned i = 0; i < 6; ++i) {
    const SmallBatch each(context.get(), i);
    const assay_step_info got = step(trainer.get(), each), expected = step(reference.get(), each);
    EXPECT_NEAR(got.loss, expected.loss, mode().loss * expected.loss) << "step " << i;
    EXPECT_EQ(got.flags, uint32_t{ASSAY_STEP_UPDATED});
  }
  for (const uint32_t flags : {uint32_t{0}, uint32_t{ASSAY_EVAL_EMA}}) {
    assay_eval_info got{.struct_size = sizeof got}, expected = got;
    ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, flags, &got);
    ok(assay_trainer_eval, reference.get(), batch.tensors(), size_t{2}, flags, &expected);
    EXPECT_NEAR(got.loss_sum, expected.loss_sum, mode().loss * expected.loss_sum);
    EXPECT_EQ(got.samples, kBatch);
  }
}

// Steps of another training before it is loaded: programs that were captured read what is loaded.
TEST_P(Training, GoesOnFromAFileWithTheSameBits) {
  const TemporaryFolder folder;
  const std::string path = folder.at("gpu.ckpt");
  const auto whole = make_network(context.get());
  const auto uninterrupted = trainer_of(whole.get(), mode().precision);
  run(uninterrupted.get(), 0, 5);
  {
    const auto first = make_network(context.get());
    const auto trainer = trainer_of(first.get(), mode().precision);
    run(trainer.get(), 0, 3);
    ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  }
  const auto second = make_network(context.get());
  const auto resumed = trainer_of(second.get(), mode().precision);
  run(resumed.get(), 70, 73);
  ok(assay_checkpoint_load, resumed.get(), text(path), 0u, nullptr);
  run(resumed.get(), 3, 5);
  EXPECT_TRUE(all_bytes(second.get()) == all_bytes(whole.get()));
}

TEST_P(Training, IsServedByTheCpu) {
  const TemporaryFolder folder;
  const std::string path = folder.at("gpu.ckpt"), back = folder.at("cpu.ckpt");
  const auto model = make_network(context.get());
  const auto trainer = trainer_of(model.get(), mode().precision);
  run(trainer.get(), 0, 4);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  const auto opened = make<assay_model>(assay_model_open, cpu.get(), text(path));
  EXPECT_TRUE(all_bytes(opened.get(), true) == all_bytes(model.get(), true));
  for (const char* config : {"", R"({"use_ema": true})"}) {
    EXPECT_LT(largest_difference(logits_of(opened.get(), batch, config),
                                 logits_of(model.get(), batch, config)),
              1e-5)
        << config;
  }
  const auto onnx_of = [&](const assay_model* of) {
    const auto predictor = make<assay_predictor>(assay_predictor_create, of, text(""));
    ok(assay_predictor_export, predictor.get(), text(folder.at("a.onnx")), text("onnx"), nullptr);
    std::ifstream file(folder.at("a.onnx"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_TRUE(onnx_of(opened.get()) == onnx_of(model.get()));
  if (mode().precision != std::string_view(mode().reference)) return;  // the CPU has it not
  // And is trained there, and back.
  const auto on_cpu = trainer_of(opened.get(), mode().precision);
  ok(assay_checkpoint_load, on_cpu.get(), text(path), 0u, nullptr);
  const assay_step_info theirs = step(on_cpu.get(), batch), ours = step(trainer.get(), batch);
  EXPECT_EQ(theirs.step, ours.step);
  EXPECT_NEAR(theirs.loss, ours.loss, mode().loss * ours.loss);
  ok(assay_checkpoint_save, on_cpu.get(), text(back), 0u);
  const auto again = make<assay_model>(assay_model_open, context.get(), text(back));
  const auto on_gpu = trainer_of(again.get(), mode().precision);
  ok(assay_checkpoint_load, on_gpu.get(), text(back), 0u, nullptr);
  EXPECT_TRUE(all_bytes(again.get()) == all_bytes(opened.get()));
  EXPECT_EQ(step(on_gpu.get(), batch).step, 6);
}

INSTANTIATE_TEST_SUITE_P(
    All, Training,
    testing::Combine(testing::Values(Network{"cnn", built_in}, Network{"own", own_network}),
                     testing::Values(Mode{"fp32", "fp32", 1e-4}, Mode{"tf32", "fp32", 5e-3},
                                     Mode{"amp-fp16", "fp32", 1e-2},
                                     Mode{"amp-bf16", "amp-bf16", 3e-2})),
    [](const auto& param) {
      std::string name = std::string(std::get<Network>(param.param).name) + "_" +
                         std::get<Mode>(param.param).precision;
      std::ranges::replace(name, '-', '_');
      return name;
    });

// What assay_model_check says is what the context counts; when all is freed the device holds
// nothing that it did not hold before.
TEST_F(OnTheGpu, MemoryIsWhatWasSaidAndIsGivenBack) {
  const std::string_view config = R"({"batch_size": 6, "accumulate": 2, "precision": "amp-fp16",
      "optimizer": {"name": "adam", "learning_rate": 0.01, "ema_decay": 0.9}})";
  const Held before = held();
  const uint64_t nothing = in_use();
  {
    const auto model = make_model();
    const Struct check =
        report(assay_model_check, model.get(), kGpu, int32_t{ASSAY_MODE_TRAIN}, text(config));
    EXPECT_EQ(at(at(check, "device").struct_value(), "kind").string_value(), "cuda");
    EXPECT_EQ(in_use(), nothing);
    const auto trainer =
        make<assay_trainer>(assay_trainer_create, model.get(), nullptr, text(config));
    for (int i = 0; i < 8; ++i) step(trainer.get(), batch);
    ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, uint32_t{ASSAY_EVAL_EMA},
       nullptr);
    const double total = number(at(check, "memory").struct_value(), "total");
    EXPECT_EQ(total, static_cast<double>(in_use() - nothing));
    const Struct described = report(assay_trainer_report, trainer.get());
    EXPECT_EQ(number(at(described, "memory").struct_value(), "total"), total);
    ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
    logits_of(model.get(), batch, R"({"precision": "amp-fp16"})");
    const Struct profile = report(assay_trainer_profile, trainer.get(), 2);
    EXPECT_GT(number(profile, "seconds"), 0);
    assay_tensor* none = nullptr;
    fails(ASSAY_E_NOT_FOUND, assay_tensor_new, context.get(), kGpu, assay_dtype{ASSAY_F32}, nullptr,
          0, &none);
  }
  EXPECT_EQ(in_use(), nothing);
  const Held after = held();
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.graphs, before.graphs);
}

// From a loader, whose batches lie in memory that the GPU reads; prefetched or not.
TEST_F(OnTheGpu, TakesTheBatchesOfALoader) {
  assay_samples samples{.struct_size = sizeof samples};
  samples.count = 30;
  samples.sample = [](uintptr_t, int64_t index, assay_give give, void* to) {
    float image[64];
    for (int64_t i = 0; i < 64; ++i) image[i] = static_cast<float>((index * 64 + i) % 97) / 97;
    const auto label = static_cast<int32_t>(index % 3);
    give(to, text("image"), ASSAY_F32, image, 64);
    give(to, text("label"), ASSAY_I32, &label, 1);
    return int32_t{0};
  };
  const auto loader_on = [&](const assay_context* on) {
    return make<assay_loader>(assay_loader_from_samples, on, &samples,
                              text(R"({"arrays": [{"name": "image", "shape": [8, 8, 1]},
                                   {"name": "label", "dtype": "i32", "label": true}]})"),
                              text(R"({"batch_size": 6, "epochs": 1, "workers": 1})"), text(""));
  };
  const auto next = [](assay_loader* loader, const assay_tensor** tensors) {
    ok(assay_loader_next, loader, tensors, size_t{2}, nullptr);
    EXPECT_EQ(info_of(tensors[0]).device.kind, ASSAY_DEVICE_CPU);
  };
  const auto plain = loader_on(context.get()), ahead = loader_on(context.get()),
             reference = loader_on(cpu.get());
  const auto a = make_model(), b = make_model(), c = built_in(cpu.get());
  const auto plainly = make_trainer(a.get()), early = make_trainer(b.get()),
             on_cpu = make_trainer(c.get());
  const assay_tensor* tensors[2];
  const assay_tensor* const* none = nullptr;
  for (int i = 0; i < 5; ++i) {
    assay_step_info info{.struct_size = sizeof info}, other = info, third = info;
    next(plain.get(), tensors);
    ok(assay_trainer_step, plainly.get(), tensors, size_t{2}, &info);
    next(ahead.get(), tensors);
    ok(assay_trainer_prefetch, early.get(), tensors, size_t{2});
    ok(assay_trainer_step, early.get(), none, size_t{0}, &other);
    next(reference.get(), tensors);
    ok(assay_trainer_step, on_cpu.get(), tensors, size_t{2}, &third);
    EXPECT_EQ(info.loss, other.loss);
    EXPECT_NEAR(info.loss, third.loss, 1e-4 * third.loss);
  }
  EXPECT_TRUE(all_bytes(a.get(), true) == all_bytes(b.get(), true));
}

// A prefetched batch has been read when the call is over, also from memory that the GPU reads
// itself.
TEST_F(OnTheGpu, ReadsPrefetchedBatchesAtOnce) {
  const int64_t image_shape[] = {kBatch, 8, 8, 1};
  const auto image = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32,
                                        image_shape, 4),
             label = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_I32,
                                        image_shape, 1);
  const assay_tensor* const tensors[] = {image.get(), label.get()};
  const auto fill = [&](unsigned seed) {
    SmallBatch other(context.get(), seed);
    std::ranges::copy(other.images(), static_cast<float*>(info_of(image.get()).data));
    std::ranges::copy(other.labels(), static_cast<int32_t*>(info_of(label.get()).data));
  };
  const auto one = make_model(), two = make_model();
  const auto plain = make_trainer(one.get()), ahead = make_trainer(two.get());
  for (unsigned i = 0; i < 4; ++i) {
    const assay_step_info expected = step(plain.get(), SmallBatch(context.get(), i));
    fill(i);
    ok(assay_trainer_prefetch, ahead.get(), +tensors, size_t{2});
    fill(50 + i);
    assay_step_info info{.struct_size = sizeof info};
    const assay_tensor* const* none = nullptr;
    ok(assay_trainer_step, ahead.get(), none, size_t{0}, &info);
    EXPECT_EQ(info.loss, expected.loss);
  }
}

// Each in a thread and a context of its own, and in other orders of streams: the same bits.
TEST_F(OnTheGpu, ContextsAndThreadsShareTheDevice) {
  const auto trained = [](const assay_context* on) {
    const auto model = built_in(on);
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kBatch, .seed = 5, .learning_rate = 0.05};
    const auto trainer =
        make<assay_trainer>(assay_trainer_create, model.get(), &options, text(kSgd));
    for (unsigned i = 0; i < 4; ++i)
      ok(assay_trainer_step, trainer.get(), SmallBatch(on, i).tensors(), size_t{2}, nullptr);
    return all_bytes(model.get(), true);
  };
  const auto expected = trained(context.get());
  for (const auto schedule : {cuda::emulation::Schedule::kLate, cuda::emulation::Schedule::kAtOnce,
                              cuda::emulation::Schedule::kTransfersAtOnce}) {
    machine().schedule = schedule;
    std::vector<std::byte> got[3];
    std::vector<std::thread> threads;
    for (auto& bytes : got) threads.emplace_back([&] { bytes = trained(make_context().get()); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& bytes : got) EXPECT_TRUE(bytes == expected);
  }
}

// ---- Serving ----

TEST_F(OnTheGpu, ResultsLieInDeviceMemoryOrWhereTheyAreWanted) {
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  const auto run = [&](assay_tensor** out, size_t n) {
    ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, out, n);
  };
  assay_tensor* out[2] = {nullptr, nullptr};
  run(out, 2);
  const Owned<assay_tensor> logits(out[0]), probabilities(out[1]);
  const assay_tensor_info info = info_of(logits.get());
  EXPECT_EQ(info.device.kind, ASSAY_DEVICE_CUDA);
  EXPECT_EQ(info.device.index, 0);
  EXPECT_EQ(info.data, nullptr);
  EXPECT_EQ(info.flags, uint32_t{ASSAY_TENSOR_READ_ONLY | ASSAY_TENSOR_VIEW});
  const std::vector<float> expected = floats_of(logits.get());
  const Dl seen = exported(logits.get());
  EXPECT_EQ(seen->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(seen->dl_tensor.device.device_type, kDLCUDA);

  const int64_t shape[] = {kBatch, 3};
  const auto host = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 2);
  for (int repeat = 0; repeat < 4; ++repeat) {  // launch by launch, captured, replayed
    for (float& value : batch.images()) value = -value;
    out[0] = host.get();
    run(out, 1);
    const auto* direct = static_cast<const float*>(seen->dl_tensor.data);
    EXPECT_EQ(floats_of(host.get()), std::vector<float>(direct, direct + 3 * kBatch));
    EXPECT_EQ(floats_of(host.get()) == expected, repeat % 2 == 1);
  }
}

// ---- Failures ----

TEST_F(OnTheGpu, SaysThatTheDevicesMemoryIsOver) {
  const assay_context_options options{.struct_size = sizeof options, .mem_limit = 100};
  const auto tight = make<assay_context>(assay_context_create, &options, nullptr, &kGpu, size_t{1});
  const auto limited = built_in(tight.get());
  Outcome outcome = call(assay_model_initialize, limited.get(), uint64_t{1});
  EXPECT_EQ(outcome.status, ASSAY_E_OOM_DEVICE);
  EXPECT_EQ(outcome.argument, "mem_limit");
  EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_RETRY});

  const auto model = make_model();
  machine().memory = 100;
  outcome = call(assay_model_initialize, model.get(), uint64_t{1});
  EXPECT_EQ(outcome.status, ASSAY_E_OOM_DEVICE);
  EXPECT_EQ(outcome.domain, ASSAY_DOMAIN_CUDA);
  EXPECT_EQ(outcome.native_code, cudaErrorMemoryAllocation);
  EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_RETRY});
  machine().memory = size_t{1} << 30;
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
}

class FaultyDevice : public LivingHost {
 protected:
  struct Lived {
    Host host;
    Trace trace{};
  };
  // With the n-th call of the device failing, with 0 none.
  Lived live(int64_t n) const {
    Lived lived;
    assay_context* own = nullptr;
    assay_model* model = nullptr;
    cuda::emulation::fail_call(n);
    lived.host(assay_context_create, nullptr, nullptr, &kGpu, size_t{1}, &own);
    lived.host(assay_model_named, own, text("cnn"), text(kSmallCnn), &model);
    train_and_serve(lived.host, own, model, lived.trace);
    assay_model_free(model);
    assay_context_free(own);
    return lived;
  }
};

// Whatever call of the device fails, a whole life long: the call of ours says so, and can be made
// again, to the same bits at the end, unless it was in the middle of what an update or a checkpoint
// changes: then the trainer refuses. Nothing stays on the device.
TEST_F(FaultyDevice, CallsThatFailCanBeMadeAgain) {
  const Trace expected = live(0).trace;
  live(0);
  const int64_t calls = cuda::emulation::fail_call(0);
  const Held before = held();
  ASSERT_GT(calls, 140);
  std::map<int, int64_t> lost;  // by the number of the host's call
  for (int64_t n = 1; n <= calls; ++n) {
    const Lived lived = live(n);
    cuda::emulation::fail_call(0);
    EXPECT_EQ(lived.host.failed(), ASSAY_E_DEVICE) << "call " << n;
    if (lived.host.stuck()) {
      ++lost[lived.host.failed_call()];
      EXPECT_THAT(lived.host.said(), HasSubstr("half done")) << "call " << n;
    } else {
      EXPECT_EQ(lived.trace, expected) << "call " << n;
    }
    const Held after = held();
    EXPECT_EQ(after.blocks, before.blocks) << "call " << n;
    EXPECT_EQ(after.streams, before.streams) << "call " << n;
    EXPECT_EQ(after.events, before.events) << "call " << n;
    EXPECT_EQ(after.graphs, before.graphs) << "call " << n;
  }
  constexpr int kFirstStep = 4, kSecondStep = 7, kLoad = 9, kThirdStep = 10;
  constexpr int64_t kScalars =
      4;  // the loss, the gradient's norm, the scale, whether it is skipped
  EXPECT_GT(lost[kFirstStep], kScalars) << "its launches one by one";
  EXPECT_EQ(lost[kSecondStep], kScalars);
  EXPECT_GT(lost[kLoad], 2);
  EXPECT_EQ(lost[kThirdStep], kScalars);
  EXPECT_EQ(lost.size(), 4u);
}

// What a lost trainer refuses, and how to go on.
TEST_F(OnTheGpu, ALostTrainerRefusesAndANewOneGoesOn) {
  const TemporaryFolder folder;
  const std::string path = folder.at("before.ckpt");
  const auto model = make_model();
  auto trainer = make_trainer(model.get());
  for (int i = 0; i < 3; ++i) step(trainer.get(), batch);  // from the third on all are alike
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  cuda::emulation::fail_call(0);
  step(trainer.get(), batch);
  const int64_t calls = cuda::emulation::fail_call(0);
  const auto expected = bits(model.get(), "output.weight");
  cuda::emulation::fail_call(calls);  // what tells the last number of the step
  fails(ASSAY_E_DEVICE, assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  assay_eval_info eval{.struct_size = sizeof eval};
  assay_report* report = nullptr;
  fails(ASSAY_E_POISONED, assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  fails(ASSAY_E_POISONED, assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2},
        nullptr);
  fails(ASSAY_E_POISONED, assay_trainer_apply, trainer.get(), nullptr);
  fails(ASSAY_E_POISONED, assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, &eval);
  fails(ASSAY_E_POISONED, assay_trainer_profile, trainer.get(), 1, &report);
  fails(ASSAY_E_POISONED, assay_checkpoint_save, trainer.get(), text(path), 0u);
  fails(ASSAY_E_POISONED, assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr);
  trainer.reset();
  trainer = make_trainer(model.get());
  ok(assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr);
  EXPECT_EQ(step(trainer.get(), batch).step, 4);
  EXPECT_EQ(bits(model.get(), "output.weight"), expected);
}

// A device that fails takes its contexts along; a new one resets it.
TEST_F(OnTheGpu, AContextIsLostWithItsDeviceAndANewOneWorks) {
  auto model = make_model();
  auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
  auto weight = make<assay_tensor>(assay_model_tensor, model.get(), text("output.weight"),
                                   int32_t{ASSAY_KIND_VALUE});
  Dl dl = exported(weight.get());
  cuda::emulation::fail_next_work(cudaErrorIllegalAddress);
  Outcome outcome = call(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  EXPECT_EQ(outcome.status, ASSAY_E_DEVICE);
  EXPECT_EQ(outcome.domain, ASSAY_DOMAIN_CUDA);
  EXPECT_EQ(outcome.native_code, cudaErrorIllegalAddress);
  std::vector<std::byte> bytes(info_of(weight.get()).bytes);
  DLManagedTensorVersioned* none = nullptr;
  assay_model* opened = nullptr;
  for (const Outcome& later :
       {call(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr),
        call(assay_tensor_read, weight.get(), bytes.data(), bytes.size()),
        call(assay_tensor_to_dlpack, weight.get(), &none)}) {
    EXPECT_EQ(later.status, ASSAY_E_POISONED);
    EXPECT_EQ(later.flags, uint32_t{ASSAY_ERROR_POISONED});
    EXPECT_THAT(later.hint, HasSubstr("make a new one"));
  }
  EXPECT_EQ(opened, nullptr);
  assay_device_info info{.struct_size = sizeof info};
  ok(assay_device_enum, size_t{1}, &info);
  EXPECT_EQ(info.mem_free, 0u);
  const auto lost = std::move(context);
  context = make_context();
  ok(assay_device_enum, size_t{1}, &info);
  EXPECT_GT(info.mem_free, 0u);
  const auto fresh = make_model();
  const auto again = make_trainer(fresh.get());
  EXPECT_EQ(step(again.get(), batch).step, 1);
  // What is left of before is freed without touching the device.
  outcome = call(assay_tensor_read, weight.get(), bytes.data(), bytes.size());
  EXPECT_EQ(outcome.status, ASSAY_E_POISONED);
  trainer.reset();
  dl.reset();
  weight.reset();
  model.reset();
  EXPECT_EQ(step(again.get(), batch).step, 2);
}

}  // namespace
}  // namespace assay::test
