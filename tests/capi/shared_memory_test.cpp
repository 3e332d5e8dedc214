// Memory of a GPU that other libraries see, as DLPack's structs: in both directions, and when.
#include <cuda_runtime.h>

#include <cstring>
#include <limits>
#include <thread>

#include "tests/capi/dlpack_tensors.h"
#include "tests/capi/on_the_gpu.h"

namespace assay::test {
namespace {

using cuda::emulation::held;
using cuda::emulation::is_device_memory;
using testing::ElementsAre;
using testing::HasSubstr;

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

}  // namespace
}  // namespace assay::test
