// Training, serving, files and shared memory on a GPU. It is an emulated one (tests/gpu/emulation),
// which libassay finds as it finds any: by the plug-in beside it. Its memory can be looked at
// directly, and it does its work as late as the rules of streams allow: what a call has left
// undone is seen there.
#include <cuda_runtime.h>

#include <cctype>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>

#include "tests/capi/dlpack_tensors.h"
#include "tests/capi/graph_writer.h"
#include "tests/gpu/emulation/runtime.h"
#include "tests/nn/rebuilt.h"

namespace assay::test {
namespace {

using cuda::emulation::Held;
using cuda::emulation::held;
using cuda::emulation::is_device_memory;
using cuda::emulation::machine;
using google::protobuf::Struct;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr assay_device_id kGpu = {ASSAY_DEVICE_CUDA, 0};

// Three GPUs, and one that does not say what it is. Devices are looked for once in a process.
cuda::emulation::Machine four_devices() { return {.devices = 4, .lost_device = 3}; }

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

// ---- What the tests below have in common ----

// A model on the first GPU; a context of the CPU is beside it.
class OnTheGpu : public SmallModel {
 protected:
  ~OnTheGpu() override { machine() = four_devices(); }

  uint64_t in_use() const {
    assay_mem_stats stats{.struct_size = sizeof stats};
    ok(assay_context_mem_stats, context.get(), kGpu, &stats);
    return stats.in_use;
  }

  Owned<assay_context> cpu = make_context(kCpu);
};

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

// The logits of a new predictor.
std::vector<float> logits_of(const assay_model* model, const SmallBatch& batch,
                             const std::string& config = "") {
  const auto predictor = make<assay_predictor>(assay_predictor_create, model, text(config));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_tensor* out = nullptr;
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out, size_t{1});
  return floats_of(Owned<assay_tensor>(out).get());
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

Owned<assay_model> built_in(const assay_context* on) {
  return make<assay_model>(assay_model_named, on, text("cnn"), text(kSmallCnn));
}

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

// ---- Memory that others see ----

// What is in the device's memory now, whatever still waits to be done there.
std::vector<std::byte> direct(const DLManagedTensorVersioned& dl) {
  size_t bytes = dl.dl_tensor.dtype.bits / 8;
  for (int32_t i = 0; i < dl.dl_tensor.ndim; ++i)
    bytes *= static_cast<size_t>(dl.dl_tensor.shape[i]);
  EXPECT_TRUE(is_device_memory(dl.dl_tensor.data, bytes));
  const auto* data = static_cast<const std::byte*>(dl.dl_tensor.data);
  return {data, data + bytes};
}

class SharedMemory : public OnTheGpu {
 protected:
  Owned<assay_tensor> tensor(const assay_model* model, std::string_view name,
                             int32_t kind = ASSAY_KIND_VALUE) const {
    return make<assay_tensor>(assay_model_tensor, model, text(name), kind);
  }
  Owned<assay_tensor> taken(Foreign& foreign, const Owned<assay_context>& by) const {
    return make<assay_tensor>(assay_tensor_from_dlpack, by.get(), &foreign.dl);
  }
  Outcome refused(Foreign& foreign, const Owned<assay_context>& by) const {
    assay_tensor* out = nullptr;
    Outcome outcome = call(assay_tensor_from_dlpack, by.get(), &foreign.dl, &out);
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(foreign.deleted, 0);
    return outcome;
  }
};

// Memory that another library has on the device.
struct OnDevice {
  explicit OnDevice(Foreign& of) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&numbers), sizeof of.numbers), cudaSuccess);
    std::memcpy(numbers, of.numbers, sizeof of.numbers);
    of.dl.dl_tensor.data = numbers;
    of.dl.dl_tensor.device = {kDLCUDA, 0};
  }
  ~OnDevice() { cudaFree(numbers); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  float* numbers = nullptr;
};

TEST_F(SharedMemory, OfWeightsIsShownWhereItIs) {
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const auto weight = tensor(model.get(), "output.weight");
  const assay_tensor_info info = info_of(weight.get());
  EXPECT_EQ(info.device.kind, ASSAY_DEVICE_CUDA);
  EXPECT_EQ(info.device.index, 0);
  EXPECT_EQ(info.data, nullptr);
  EXPECT_EQ(info.flags, uint32_t{ASSAY_TENSOR_VIEW});
  const Dl dl = exported(weight.get());
  EXPECT_EQ(dl->version.major, 1u);
  EXPECT_EQ(dl->flags, 0u);
  EXPECT_EQ(dl->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(dl->dl_tensor.device.device_id, 0);
  EXPECT_EQ(dl->dl_tensor.byte_offset, 0u);
  EXPECT_EQ(dl->dl_tensor.dtype.code, kDLFloat);
  EXPECT_EQ(dl->dl_tensor.dtype.bits, 32);
  ASSERT_EQ(dl->dl_tensor.ndim, 2);
  EXPECT_THAT(std::vector(dl->dl_tensor.shape, dl->dl_tensor.shape + 2), ElementsAre(3, 64));
  EXPECT_THAT(std::vector(dl->dl_tensor.strides, dl->dl_tensor.strides + 2), ElementsAre(64, 1));
  EXPECT_EQ(direct(*dl), bits(model.get(), "output.weight"));
  static_cast<float*>(dl->dl_tensor.data)[5] = 42;
  EXPECT_EQ(floats_of(weight.get())[5], 42);
}

TEST_F(SharedMemory, LivesAsLongAsOneOfItsOwners) {
  const size_t before = held().blocks;
  auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  auto bias = tensor(model.get(), "output.bias");
  Dl dl = exported(bias.get()), again = exported(bias.get());
  const auto expected = elements_of(bias.get());
  const void* const data = dl->dl_tensor.data;
  bias.reset();
  model.reset();
  context.reset();
  EXPECT_EQ(direct(*dl), expected);
  again.reset();
  EXPECT_EQ(direct(*dl), expected);
  std::thread([&] { dl.reset(); }).join();
  EXPECT_FALSE(is_device_memory(data, 1));
  EXPECT_EQ(held().blocks, before);
}

// Others have no stream of ours to wait for: when a call returns, what it did is done.
TEST_F(SharedMemory, IsWrittenWhenACallReturns) {
  const TemporaryFolder folder;
  const std::string path = folder.at("a.ckpt"), weights = folder.at("a.safetensors");
  const std::string_view config = R"({"accumulate": 2, "emulated_devices": 2,
      "optimizer": {"name": "sgd", "momentum": 0.9}, "loss_scale": {"mode": "dynamic"}})";
  const auto model = make_model();
  auto trainer = make_trainer(model.get(), config);
  step(trainer.get(), batch);
  step(trainer.get(), batch);
  struct Seen {
    Owned<assay_tensor> tensor;
    Dl dl;
  };
  std::vector<Seen> all;
  for (const auto& [name, kind] : std::initializer_list<std::pair<const char*, int32_t>>{
           {"block1.conv.weight", ASSAY_KIND_VALUE},
           {"block1.conv.weight", ASSAY_KIND_GRADIENT},
           {"block1.conv.weight", ASSAY_KIND_MOMENT1},
           {"block1.bn.running_mean", ASSAY_KIND_STATISTIC},
           {"block1.bn.running_var", ASSAY_KIND_STATISTIC}}) {
    auto each = tensor(model.get(), name, kind);
    auto dl = exported(each.get());
    all.push_back({std::move(each), std::move(dl)});
  }
  // Looks first and waits then.
  const auto is_done = [&](const std::string& what) {
    std::vector<std::vector<std::byte>> now;
    for (const Seen& each : all) now.push_back(direct(*each.dl));
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(now[i] == elements_of(all[i].tensor.get())) << "tensor " << i << ": " << what;
    return now;
  };
  auto last = is_done("reading");
  const auto changes = [&](const std::string& what, const std::vector<size_t>& expected) {
    const auto now = is_done(what);
    std::vector<size_t> changed;
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] != last[i]) changed.push_back(i);
    }
    EXPECT_EQ(changed, expected) << what;
    last = now;
  };
  const std::vector<float> other(all.size() * 100, 0.5f);
  ok(assay_tensor_write, all[0].tensor.get(), other.data(), info_of(all[0].tensor.get()).bytes);
  changes("writing", {0});
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  ok(assay_model_save_weights, model.get(), text(weights), text("safetensors"), text(""));
  for (int i = 0; i < 3; ++i) {  // launch by launch, captured, replayed
    ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
    changes("backward", {1, 3, 4});
    ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
    is_done("backward of the other device");
    ok(assay_trainer_apply, trainer.get(), nullptr);
    is_done("apply");
    ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, uint32_t{0}, nullptr);
    last = is_done("eval");
  }
  report(assay_trainer_profile, trainer.get(), 2);
  changes("profile", {});
  const auto trained = last;
  for (int i = 0; i < 2; ++i)
    ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  EXPECT_NE(is_done("batches")[3], trained[3]);
  const std::vector<float> infinite(36, std::numeric_limits<float>::infinity());
  ok(assay_tensor_write, all[1].tensor.get(), infinite.data(), info_of(all[1].tensor.get()).bytes);
  assay_step_info info{.struct_size = sizeof info};
  ok(assay_trainer_apply, trainer.get(), &info);
  EXPECT_EQ(info.flags, uint32_t{ASSAY_STEP_SKIPPED_NONFINITE});
  const auto put_back = is_done("an update that is skipped");
  EXPECT_EQ(put_back[0], trained[0]);
  EXPECT_EQ(put_back[3], trained[3]);
  ok(assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr);
  is_done("loading a checkpoint");
  trainer.reset();
  trainer = make_trainer(model.get(), config);
  is_done("making a trainer");
  EXPECT_EQ(direct(*all[2].dl), std::vector<std::byte>(last[2].size()));
  step(trainer.get(), batch), step(trainer.get(), batch);
  trainer.reset();
  ok(assay_model_load_weights, model.get(), text(weights), text("safetensors"), text(""), 0u,
     nullptr);
  is_done("loading weights");
}

// What others write to the weights later does not change it.
TEST_F(SharedMemory, OfWeightsIsNotAPredictors) {
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const std::vector<float> expected = logits_of(model.get(), batch);
  const Dl dl = exported(tensor(model.get(), "output.bias").get());
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  static_cast<float*>(dl->dl_tensor.data)[0] = 42;
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_tensor* out = nullptr;
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out, size_t{1});
  EXPECT_EQ(floats_of(Owned<assay_tensor>(out).get()), expected);
  EXPECT_NE(logits_of(model.get(), batch), expected);
}

TEST_F(SharedMemory, OfOthersIsTakenInPlace) {
  Foreign foreign;
  const OnDevice memory(foreign);
  auto taken_in = taken(foreign, context);
  const assay_tensor_info info = info_of(taken_in.get());
  EXPECT_EQ(info.device.kind, ASSAY_DEVICE_CUDA);
  EXPECT_EQ(info.device.index, 0);
  EXPECT_EQ(info.data, nullptr);
  EXPECT_EQ(info.flags, 0u);
  EXPECT_THAT(floats_of(taken_in.get()), ElementsAre(1, 2, 3, 4, 5, 6));
  const float nines[] = {9, 9, 9, 9, 9, 9};
  ok(assay_tensor_write, taken_in.get(), nines, sizeof nines);
  EXPECT_EQ(memory.numbers[5], 9);  // at once
  EXPECT_EQ(memory.numbers[6], 7);
  Dl again = exported(taken_in.get());
  EXPECT_EQ(again->dl_tensor.data, memory.numbers);
  EXPECT_EQ(again->dl_tensor.device.device_type, kDLCUDA);
  Owned<assay_tensor> second(assay_tensor_retain(taken_in.get()));
  taken_in.reset();
  second.reset();
  context.reset();
  EXPECT_EQ(foreign.deleted, 0);
  std::thread([&] { again.reset(); }).join();
  EXPECT_EQ(foreign.deleted, 1);

  context = make_context();
  Foreign later;
  const OnDevice same(later);
  later.dl.dl_tensor.byte_offset = 8;
  later.dl.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  taken_in = taken(later, context);
  EXPECT_THAT(floats_of(taken_in.get()), ElementsAre(3, 4, 5, 6, 7, 8));
  fails(ASSAY_E_INVALID, assay_tensor_write, taken_in.get(), nines, sizeof nines);
  taken_in.reset();
  EXPECT_EQ(later.deleted, 1);
  later.deleted = 0;
  later.shape[1] = 0;
  later.dl.dl_tensor.data = nullptr;
  EXPECT_EQ(info_of(taken(later, context).get()).bytes, 0u);
  EXPECT_EQ(later.deleted, 1);
}

TEST_F(SharedMemory, IsOfTheContextsDevice) {
  Foreign foreign;
  const OnDevice memory(foreign);
  Outcome outcome = refused(foreign, cpu);
  EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(outcome.argument, "dl");
  EXPECT_EQ(outcome.expected, "the context's, {kind 0, index 0}");
  foreign.dl.dl_tensor.device.device_id = 1;
  outcome = refused(foreign, context);
  EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(outcome.argument, "dl");
  EXPECT_EQ(outcome.actual, "{kind 1, index 1}");
  EXPECT_EQ(outcome.expected, "the context's, {kind 1, index 0}");
  foreign.dl.dl_tensor.device.device_id = 17;
  EXPECT_EQ(refused(foreign, context).status, ASSAY_E_NOT_FOUND);
  foreign.dl.dl_tensor.device = {kDLROCM, 0};
  EXPECT_EQ(refused(foreign, context).status, ASSAY_E_NOT_FOUND);

  // Memory of the host is every context's.
  Foreign host;
  EXPECT_EQ(info_of(taken(host, context).get()).data, host.numbers);
  host.dl.dl_tensor.device = {kDLCUDAHost, 0};
  EXPECT_EQ(info_of(taken(host, context).get()).data, host.numbers);
  EXPECT_EQ(host.deleted, 2);

  // Called the device's, it is the driver that says no; the context is as good as before.
  Foreign wrong;
  wrong.dl.dl_tensor.device = {kDLCUDA, 0};
  const auto claimed = taken(wrong, context);
  float numbers[6];
  outcome = call(assay_tensor_read, claimed.get(), numbers, sizeof numbers);
  EXPECT_EQ(outcome.status, ASSAY_E_DEVICE);
  EXPECT_EQ(outcome.domain, ASSAY_DOMAIN_CUDA);
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
}

TEST_F(SharedMemory, OfTheDeviceIsNoBatch) {
  float* images = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&images), kBatch * 64 * sizeof(float)),
            cudaSuccess);
  std::fill_n(images, kBatch * 64, 0.5f);
  Foreign foreign;
  const int64_t shape[] = {kBatch, 8, 8, 1};
  std::ranges::copy(shape, foreign.shape);
  foreign.dl.dl_tensor.data = images;
  foreign.dl.dl_tensor.device = {kDLCUDA, 0};
  foreign.dl.dl_tensor.ndim = 4;
  foreign.dl.dl_tensor.strides = nullptr;
  auto image = taken(foreign, context);
  const assay_tensor* tensors[] = {image.get(), batch.tensors()[1]};
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_tensor* out = nullptr;
  for (const Outcome& outcome :
       {call(assay_trainer_step, trainer.get(), +tensors, size_t{2}, nullptr),
        call(assay_trainer_backward, trainer.get(), +tensors, size_t{2}, nullptr),
        call(assay_trainer_prefetch, trainer.get(), +tensors, size_t{2}),
        call(assay_trainer_eval, trainer.get(), +tensors, size_t{2}, 0u, nullptr),
        call(assay_predictor_run, predictor.get(), slot.get(), +tensors, size_t{1}, &out,
             size_t{1})}) {
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(outcome.actual, "in device memory");
    EXPECT_EQ(outcome.expected, "a tensor in host memory");
  }
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(step(trainer.get(), batch).step, 1);
  // It was not held: it may be written to, and goes with its last handle.
  const std::vector<float> zeros(kBatch * 64);
  ok(assay_tensor_write, image.get(), zeros.data(), zeros.size() * sizeof(float));
  image.reset();
  EXPECT_EQ(foreign.deleted, 1);
  cudaFree(images);
}

// It says which device it is on.
TEST_F(SharedMemory, OfTheSecondGpu) {
  const assay_device_id second{ASSAY_DEVICE_CUDA, 1};
  const auto other = make_context(second);
  const auto model = built_in(other.get());
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
  const auto weight = tensor(model.get(), "output.weight");
  EXPECT_EQ(info_of(weight.get()).device.index, 1);
  Dl dl = exported(weight.get());
  EXPECT_EQ(dl->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(dl->dl_tensor.device.device_id, 1);
  assay_tensor* none = nullptr;
  fails(ASSAY_E_NOT_FOUND, assay_tensor_from_dlpack, context.get(), dl.get(), &none);
  const auto again = make<assay_tensor>(assay_tensor_from_dlpack, other.get(), dl.release());
  EXPECT_EQ(elements_of(again.get()), elements_of(weight.get()));
}

// Two contexts of one device have one memory.
TEST_F(SharedMemory, OfAnotherContextOfTheDevice) {
  auto other = make_context();
  auto theirs = built_in(other.get());
  ok(assay_model_initialize, theirs.get(), uint64_t{1});
  const auto expected = bits(theirs.get(), "output.weight");
  Dl dl = exported(tensor(theirs.get(), "output.weight").get());
  auto weight = make<assay_tensor>(assay_tensor_from_dlpack, context.get(), dl.release());
  EXPECT_EQ(elements_of(weight.get()), expected);
  const std::vector<std::byte> zeros(expected.size());
  ok(assay_tensor_write, weight.get(), zeros.data(), zeros.size());
  EXPECT_EQ(bits(theirs.get(), "output.weight"), zeros);
  const auto blocks = held().blocks;
  theirs.reset();
  other.reset();
  EXPECT_EQ(held().blocks, blocks);
  EXPECT_EQ(elements_of(weight.get()), zeros);
  weight.reset();
  EXPECT_LT(held().blocks, blocks);
}

TEST_F(SharedMemory, TakesResults) {
  const int64_t shape[] = {kBatch, 3};
  Foreign foreign;
  float* memory = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), kBatch * 3 * sizeof(float)), cudaSuccess);
  std::fill_n(memory, kBatch * 3, 0.0f);
  std::ranges::copy(shape, foreign.shape);
  foreign.dl.dl_tensor.strides = nullptr;
  foreign.dl.dl_tensor.data = memory;
  foreign.dl.dl_tensor.device = {kDLCUDA, 0};
  auto result = taken(foreign, context);
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const std::vector<float> expected = logits_of(model.get(), batch);
  const auto run = [&](const assay_model* of, assay_tensor** out) {
    const auto predictor = make<assay_predictor>(assay_predictor_create, of, text(""));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    return call(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, out,
                size_t{1});
  };
  assay_tensor* out = result.get();
  EXPECT_EQ(run(model.get(), &out).message, "");
  EXPECT_EQ(out, result.get());
  EXPECT_EQ(std::vector<float>(memory, memory + kBatch * 3), expected);

  for (const assay_device_id device : {kCpu, assay_device_id{ASSAY_DEVICE_CUDA, 1}}) {
    const auto elsewhere = built_in(make_context(device).get());
    ok(assay_model_initialize, elsewhere.get(), uint64_t{1});
    const Outcome outcome = run(elsewhere.get(), &out);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(outcome.argument, "out");
    EXPECT_EQ(outcome.actual, "in the memory of another device");
  }
  result.reset();
  EXPECT_EQ(foreign.deleted, 1);
  cudaFree(memory);
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
