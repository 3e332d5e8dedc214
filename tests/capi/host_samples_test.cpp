// Loaders of samples that a function of the host gives.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

constexpr std::string_view kPairs =
    R"({"arrays": [{"name": "x", "shape": [2]}, {"name": "y", "dtype": "i32", "label": true}]})";

// Data of a host: a function of the test, and how often it was released.
class HostData {
 public:
  using Give = std::function<void(std::string_view, assay_dtype, const void*, size_t)>;

  HostData(int64_t count, std::function<int32_t(int64_t, const Give&)> sample)
      : sample_(std::move(sample)) {
    samples.user = reinterpret_cast<uintptr_t>(this);
    samples.count = count;
    samples.sample = [](uintptr_t user, int64_t index, assay_give give, void* to) {
      const auto part = [&](std::string_view name, assay_dtype dtype, const void* data, size_t n) {
        give(to, text(name), dtype, data, n);
      };
      return reinterpret_cast<HostData*>(user)->sample_(index, part);
    };
    samples.release = [](uintptr_t user) { ++reinterpret_cast<HostData*>(user)->released; };
  }

  assay_samples samples{.struct_size = sizeof samples};
  std::atomic<int> released{0};

 private:
  std::function<int32_t(int64_t, const Give&)> sample_;
};

int32_t give_pair(int64_t i, const HostData::Give& give) {
  const float x[] = {static_cast<float>(i), -static_cast<float>(i)};
  const auto y = static_cast<int32_t>(i);
  give("y", ASSAY_I32, &y, 1);
  give("x", ASSAY_F32, x, 2);
  return 0;
}

std::string bytes_of(const assay_tensor* tensor) {
  assay_tensor_info info{.struct_size = sizeof info};
  ok(assay_tensor_get_info, tensor, &info);
  std::string bytes(info.bytes, '\0');
  ok(assay_tensor_read, tensor, static_cast<void*>(bytes.data()), bytes.size());
  return bytes;
}

// All that the next batches say, at most `most`, each as its bytes.
std::vector<std::string> batches_of(assay_loader* loader, size_t arrays, size_t most = 1000) {
  std::vector<std::string> batches;
  const assay_tensor* tensors[8];
  while (batches.size() < most) {
    assay_batch_info info{.struct_size = sizeof info};
    const Outcome outcome = call(assay_loader_next, loader, +tensors, arrays, &info);
    if (outcome.status == ASSAY_E_END_OF_DATA) break;
    EXPECT_EQ(outcome.status, ASSAY_OK) << outcome.message;
    if (outcome.status != ASSAY_OK) break;
    std::string bytes = std::to_string(info.epoch) + "/" + std::to_string(info.batch) + "/" +
                        std::to_string(info.valid) + ":";
    for (size_t k = 0; k < arrays; ++k) bytes += bytes_of(tensors[k]);
    batches.push_back(std::move(bytes));
  }
  return batches;
}

std::string cursor_of(const assay_loader* loader) {
  size_t size = 0;
  ok(assay_loader_cursor, loader, nullptr, size_t{0}, &size);
  std::string cursor(size, '\0');
  ok(assay_loader_cursor, loader, static_cast<void*>(cursor.data()), cursor.size(), &size);
  return cursor;
}

void restore(assay_loader* loader, const std::string& cursor) {
  ok(assay_loader_restore, loader, static_cast<const void*>(cursor.data()), cursor.size());
}

class HostSamplesTest : public testing::Test {
 protected:
  void convert(std::string_view name, std::string_view options = "") {
    ok(assay_dataset_convert, context.get(), text(name), text(folder.at("source")),
       text(folder.at("set")), text(options), nullptr, 0, nullptr);
  }
  Owned<assay_loader> of_set(std::string_view config, std::string_view transform) {
    return make<assay_loader>(assay_loader_create, context.get(), text(folder.at("set")),
                              text("train"), text(config), text(transform));
  }
  Owned<assay_loader> of_host(HostData& data, std::string_view kind, std::string_view config,
                              std::string_view transform = "") {
    return make<assay_loader>(assay_loader_from_samples, context.get(), &data.samples, text(kind),
                              text(config), text(transform));
  }
  Outcome next(assay_loader* loader, size_t arrays = 2) {
    return call(assay_loader_next, loader, +tensors, arrays, nullptr);
  }
  void put(const std::string& name, const std::string& bytes) {
    const std::string path = folder.at("source/" + name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << bytes;
  }

  TemporaryFolder folder;
  Owned<assay_context> context = make_context();
  const assay_tensor* tensors[8];
};

std::string fixture(const std::string& name) {
  std::ifstream file(ASSAY_SOURCE_DIR "/tests/fixtures/images/" + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- The same bits as of record files ----

// In the format of Fashion-MNIST.
class HostImagesTest : public HostSamplesTest {
 protected:
  static constexpr int kImages = 21;

  static std::string pixels(int64_t i) {
    std::string bytes(28 * 28, '\0');
    for (size_t k = 0; k < bytes.size(); ++k)
      bytes[k] = static_cast<char>(static_cast<size_t>(i) * 37 + k * 11 + k / 28);
    return bytes;
  }

  HostImagesTest() {
    for (const std::string prefix : {"train", "t10k"}) {
      std::string images("\0\0\x08\x03\0\0\0\x15\0\0\0\x1c\0\0\0\x1c", 16),
          classes("\0\0\x08\x01\0\0\0\x15", 8);
      for (int i = 0; i < kImages; ++i) images += pixels(i), classes += static_cast<char>(i % 10);
      put(prefix + "-images-idx3-ubyte", images);
      put(prefix + "-labels-idx1-ubyte", classes);
    }
    convert("fashion_mnist", R"({"shards": 3})");
  }

  HostData data{kImages, [](int64_t i, const HostData::Give& give) {
                  const std::string bytes = pixels(i);
                  const int64_t label = i % 10;
                  give("label", ASSAY_I64, &label, 1);
                  give("image", ASSAY_U8, bytes.data(), bytes.size());
                  return 0;
                }};
  const std::string_view kind = R"({"kind": "images", "image": [28, 28, 1], "classes": 10})";
  const std::string_view random =
      R"({"crop_padding": 3, "flip_horizontal": 0.5, "rotation_degrees": 20, "mean": [0.3],
          "stddev": [0.4], "erasing_probability": 0.5})";
};

TEST_F(HostImagesTest, AreThoseOfADataSet) {
  for (
      const std::string order :
      {R"("order": "sequential", "last_batch": "pad", "epochs": 1)",
       R"("seed": 4, "last_batch": "wrap", "epochs": 2)",
       R"("seed": 5, "rank": 1, "world_size": 2, "last_batch": "pad", "epochs": 2)",
       R"("seed": 6, "order": "stream", "buffer": 7, "epochs": 3)",
       R"("seed": 7, "order": "rotating", "rank": 2, "world_size": 3, "epochs": 3)",
       R"("seed": 8, "record": [20, 3, 3, 0, 11], "accumulate": 2, "batch_size": 1, "epochs": 2)"}) {
    const bool has_size = order.find("batch_size") != std::string::npos;
    const std::string config = "{" + order + (has_size ? "" : R"(, "batch_size": 4)");
    const auto expected = batches_of(of_set(config + "}", random).get(), 2);
    EXPECT_GE(expected.size(), 3u) << order;
    for (const std::string how :
         {R"("workers": 0)", R"("workers": 1, "prefetch": 1)", R"("workers": 4, "cache_mib": 0)"}) {
      const auto loader = of_host(data, kind, config + ", " + how + "}", random);
      ASSERT_EQ(batches_of(loader.get(), 2), expected) << order << " " << how;
    }
  }
  const std::string_view one_epoch = R"({"batch_size": 5, "epochs": 1})";
  const std::string_view raw = R"({"raw": true, "crop_padding": 2})";
  EXPECT_EQ(batches_of(of_host(data, kind, one_epoch, raw).get(), 3),
            batches_of(of_set(one_epoch, raw).get(), 3));
}

// Positions say nothing of where the samples come from.
TEST_F(HostImagesTest, GoOnWhereADataSetStopped) {
  const std::string_view config = R"({"batch_size": 4, "seed": 9, "epochs": 3})";
  const auto whole = of_set(config, random);
  batches_of(whole.get(), 2, 7);
  const std::string cursor = cursor_of(whole.get());
  const auto expected = batches_of(whole.get(), 2);
  EXPECT_EQ(expected.size(), 8u);
  const auto resumed = of_host(data, kind, config, random);
  batches_of(resumed.get(), 2, 2);
  restore(resumed.get(), cursor);
  EXPECT_EQ(cursor_of(resumed.get()), cursor);
  EXPECT_EQ(batches_of(resumed.get(), 2), expected);

  const auto described = report(assay_loader_report, resumed.get());
  EXPECT_FALSE(described.fields().contains("dataset") || described.fields().contains("split"));
  EXPECT_EQ(number(described, "samples"), kImages);
  const auto& label = at(described, "arrays").list_value().values(1).struct_value();
  EXPECT_TRUE(at(label, "label").bool_value());
}

TEST_F(HostSamplesTest, PhotographsAreThoseOfADataSet) {
  const std::vector<std::string> files = {"colour_420.jpg", "grey.jpg", "tall.jpg",
                                          "restart_420.jpg"};
  put("train/a/1.jpg", fixture(files[0])), put("train/a/2.jpg", fixture(files[1]));
  put("train/b/1.jpg", fixture(files[2])), put("train/b/2.jpg", fixture(files[3]));
  convert("imagenet");
  // im2rec's order of the files.
  const auto order =
      of_set(R"({"batch_size": 4, "order": "sequential"})", R"({"crop": "stretch", "size": 1})");
  EXPECT_EQ(next(order.get()).status, ASSAY_OK);
  std::vector<int32_t> labels(4);
  std::memcpy(labels.data(), bytes_of(tensors[1]).data(), 16);
  HostData data(4, [&](int64_t i, const HostData::Give& give) {
    // Of its class the first comes first.
    const int32_t label = labels[static_cast<size_t>(i)];
    const auto before = std::count(labels.begin(), labels.begin() + i, label);
    const std::string file = fixture(files[static_cast<size_t>(2 * label + before)]);
    give("jpeg", ASSAY_U8, file.data(), file.size());
    give("label", ASSAY_I32, &label, 1);
    return 0;
  });
  const std::string_view config =
      R"({"batch_size": 3, "seed": 2, "epochs": 2, "last_batch": "pad"})";
  const std::string_view kind = R"({"kind": "photographs", "classes": 2})";
  for (const std::string_view transform :
       {R"({"crop": "random", "size": 32, "flip_horizontal": 0.5, "mean": [0.4, 0.5, 0.6]})",
        R"({"size": 24, "resize_shorter": 30, "channels": 4})"}) {
    EXPECT_EQ(batches_of(of_host(data, kind, config, transform).get(), 2),
              batches_of(of_set(config, transform).get(), 2));
  }
}

TEST_F(HostSamplesTest, ObjectsAreThoseOfADataSet) {
  const std::string jpeg = fixture("colour_420.jpg");  // 107 rows of 150 pixels
  put("train2017/1.jpg", jpeg);
  put("annotations/instances_train2017.json", R"({
    "images": [{"id": 17, "file_name": "1.jpg", "height": 107, "width": 150}],
    "categories": [{"id": 3, "name": "car"}, {"id": 5, "name": "aeroplane"}],
    "annotations": [
      {"id": 1, "image_id": 17, "category_id": 3, "bbox": [0, 0, 150, 107], "area": 9, "iscrowd": 0},
      {"id": 2, "image_id": 17, "category_id": 5, "bbox": [75, 0, 75, 107], "area": 9, "iscrowd": 0}]})");
  convert("coco");
  HostData data(1, [&](int64_t, const HostData::Give& give) {
    const float zeros[] = {0, 0}, ones[] = {1, 1}, xmin[] = {0, 0.5f};
    const int64_t labels[] = {3, 5};
    give("image/encoded", ASSAY_U8, jpeg.data(), jpeg.size());
    give("image/object/bbox/ymin", ASSAY_F32, zeros, 2);
    give("image/object/bbox/xmin", ASSAY_F32, xmin, 2);
    give("image/object/bbox/ymax", ASSAY_F32, ones, 2);
    give("image/object/bbox/xmax", ASSAY_F32, ones, 2);
    give("image/object/class/label", ASSAY_I64, labels, 2);
    give("image/source_id", ASSAY_U8, "17", 2);
    give("image/format", ASSAY_U8, "jpeg", 4);  // as such records say, and nothing reads
    return 0;
  });
  const std::string_view config = R"({"batch_size": 1, "seed": 2, "epochs": 4})";
  const std::string_view transform =
      R"({"size": [64, 96], "scale_jitter": [0.5, 2], "flip_horizontal": 0.5, "origin": true})";
  const auto expected = batches_of(of_set(config, transform).get(), 6);
  EXPECT_EQ(expected.size(), 4u);
  const auto loader = of_host(data, R"({"kind": "objects", "classes": 5})", config, transform);
  EXPECT_EQ(batches_of(loader.get(), 6), expected);
}

std::string slice(char which) {  // of a mask for 'm'
  std::string bytes(512 * 512, '\0');
  for (size_t k = 0; k < bytes.size(); ++k)
    bytes[k] = static_cast<char>(which == 'm' ? (k / 97 % 2 ? 255 : 0) : which + k / 7);
  return bytes;
}

TEST_F(HostSamplesTest, MicrographsAreThoseOfADataSet) {
  for (const std::string name : {"image/1.png", "image/2.png"})
    put("train/" + name, name.substr(6));
  for (const std::string name : {"label/1.png", "label/2.png"}) put("train/" + name, "m");
  assay_host host{.struct_size = sizeof host};
  host.read_image = [](uintptr_t, const void* file, size_t,
                       void (*give)(void* to, const assay_picture* page), void* to) {
    const std::string pixels = slice(*static_cast<const char*>(file));
    const assay_picture picture{.struct_size = sizeof picture,
                                .height = 512,
                                .width = 512,
                                .channels = 1,
                                .bits = 8,
                                .data = pixels.data()};
    give(to, &picture);
    return int32_t{0};
  };
  context = make<assay_context>(assay_context_create, nullptr, &host, nullptr, size_t{0});
  convert("isbi2012_em");
  HostData data(2, [](int64_t i, const HostData::Give& give) {
    const std::string image = slice(i == 0 ? '1' : '2'), mask = slice('m');
    const int32_t side = 512;
    give("image", ASSAY_U8, image.data(), image.size());
    give("mask", ASSAY_U8, mask.data(), mask.size());
    give("height", ASSAY_I32, &side, 1);
    give("width", ASSAY_I32, &side, 1);
    return 0;
  });
  const std::string_view config = R"({"batch_size": 2, "epochs": 2})";
  const std::string_view transform =
      R"({"size": 60, "padded": 84, "flip_vertical": 0.5, "max_cut": 0.2, "max_brightness": 0.1})";
  EXPECT_EQ(batches_of(of_host(data, R"({"kind": "micrographs"})", config, transform).get(), 2),
            batches_of(of_set(config, transform).get(), 2));
}

// ---- Arrays ----

TEST_F(HostSamplesTest, ArraysComeAsTheyAre) {
  HostData data(5, [](int64_t i, const HostData::Give& give) {
    const float f[] = {0.5f, static_cast<float>(i), -1, 2, 3, 4};
    const int64_t wide = int64_t{1} << 40 | i;
    const auto byte = static_cast<uint8_t>(200 + i);
    const auto label = static_cast<int32_t>(i);
    give("label", ASSAY_I32, &label, 1);
    give("byte", ASSAY_U8, &byte, 1);
    give("wide", ASSAY_I64, &wide, 1);
    give("f", ASSAY_F32, f, 6);
    return 0;
  });
  const auto loader =
      of_host(data,
              R"({"kind": "arrays", "arrays": [
                   {"name": "byte", "dtype": "u8", "shape": [1]}, {"name": "f", "shape": [2, 3]},
                   {"name": "wide", "dtype": "i64"},
                   {"name": "label", "dtype": "i32", "label": true}]})",
              R"({"batch_size": 3, "order": "sequential", "last_batch": "pad", "epochs": 1})");
  EXPECT_EQ(next(loader.get(), 4).status, ASSAY_OK);
  EXPECT_EQ(next(loader.get(), 4).status, ASSAY_OK);
  EXPECT_EQ(bytes_of(tensors[0]), std::string("\xcb\xcc\0", 3));
  const float f[18] = {0.5f, 3, -1, 2, 3, 4, 0.5f, 4, -1, 2, 3, 4};
  const int64_t wide[] = {int64_t{1} << 40 | 3, int64_t{1} << 40 | 4, 0};
  const int32_t label[] = {3, 4, -1};
  EXPECT_EQ(bytes_of(tensors[1]), std::string(reinterpret_cast<const char*>(f), sizeof f));
  EXPECT_EQ(bytes_of(tensors[2]), std::string(reinterpret_cast<const char*>(wide), sizeof wide));
  EXPECT_EQ(bytes_of(tensors[3]), std::string(reinterpret_cast<const char*>(label), sizeof label));
  assay_tensor_info info{.struct_size = sizeof info};
  ok(assay_tensor_get_info, tensors[1], &info);
  EXPECT_EQ(std::vector<int64_t>(info.shape, info.shape + info.ndim),
            (std::vector<int64_t>{3, 2, 3}));
  EXPECT_EQ(next(loader.get(), 4).status, ASSAY_E_END_OF_DATA);
}

TEST_F(HostSamplesTest, WhatIsKeptIsAskedForOnce) {
  std::atomic<int> asked{0};
  HostData data(6, [&](int64_t i, const HostData::Give& give) {
    ++asked;
    return give_pair(i, give);
  });
  const std::string_view config = R"({"batch_size": 3, "epochs": 4, "workers": 0)";
  batches_of(of_host(data, kPairs, std::string(config) + "}").get(), 2);
  EXPECT_EQ(asked, 6);
  asked = 0;
  batches_of(of_host(data, kPairs, std::string(config) + R"(, "cache_mib": 0})").get(), 2);
  EXPECT_EQ(asked, 24);
}

// ---- Failures ----

TEST_F(HostSamplesTest, AFailedSampleIsAskedForAgain) {
  for (const std::string workers : {"0", "1", "3"}) {
    std::atomic<bool> broken{true};
    HostData data(9, [&](int64_t i, const HostData::Give& give) {
      give_pair(i, give);
      return i == 5 && broken ? -77 : 0;
    });
    const std::string config =
        R"({"batch_size": 3, "order": "sequential", "epochs": 1, "workers": )";
    const auto loader = of_host(data, kPairs, config + workers + "}");
    std::vector<std::string> seen = batches_of(loader.get(), 2, 1);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Outcome outcome = next(loader.get());
      EXPECT_EQ(outcome.status, ASSAY_E_CALLBACK);
      EXPECT_EQ(outcome.native_code, -77);
      EXPECT_THAT(outcome.message, HasSubstr("sample 5: the host's function returned -77"));
    }
    broken = false;
    for (std::string& batch : batches_of(loader.get(), 2)) seen.push_back(std::move(batch));
    EXPECT_EQ(seen, batches_of(of_host(data, kPairs, config + "0}").get(), 2));
  }
}

TEST_F(HostSamplesTest, WhatDoesNotFitIsSaid) {
  const float x[] = {1, 2, 3};
  const int32_t y[] = {1};
  const auto said = [&](std::string_view kind, std::function<void(const HostData::Give&)> give,
                        assay_status status = ASSAY_E_CALLBACK) {
    HostData data(1, [&](int64_t, const HostData::Give& to) {
      give(to);
      return 0;
    });
    const Outcome outcome = next(of_host(data, kind, R"({"batch_size": 1})").get());
    EXPECT_EQ(outcome.status, status) << outcome.message;
    EXPECT_THAT(outcome.message, HasSubstr("sample 0: "));
    return outcome.message;
  };
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("x", ASSAY_F32, x, 2); }),
              HasSubstr("\"y\" was not given"));
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("x", ASSAY_F32, x, 3); }),
              HasSubstr("\"x\" was given as f32[3], expected f32[2]"));
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("x", ASSAY_I32, x, 2); }),
              HasSubstr("as i32[2], expected f32[2]"));
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("x", 99, x, 2); }), HasSubstr("as unknown[2]"));
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("x", ASSAY_F32, x, SIZE_MAX); }),
              HasSubstr("expected f32[2]"));
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("x", ASSAY_F32, nullptr, 2); }),
              HasSubstr("data must not be NULL"));
  EXPECT_THAT(said(kPairs,
                   [&](auto& give) {
                     give("x", ASSAY_F32, x, 2), give("y", ASSAY_I32, y, 1);
                     give("x", ASSAY_F32, x, 2);
                   }),
              HasSubstr("given twice"));
  EXPECT_THAT(said(kPairs, [&](auto& give) { give("z\n", ASSAY_F32, x, 2); }),
              HasSubstr("array \"z\\x0A\" was given, expected \"x\" or \"y\""));

  const std::string_view images = R"({"kind": "images", "image": [1, 1, 2], "classes": 2})";
  const auto image = [&](size_t bytes, int32_t label) {
    return said(
        images,
        [&](auto& give) {
          give("image", ASSAY_U8, "12345", bytes), give("label", ASSAY_I32, &label, 1);
        },
        ASSAY_E_FORMAT);
  };
  EXPECT_THAT(image(3, 0), HasSubstr("holds 3 bytes, expected 2"));
  EXPECT_THAT(image(2, 2), HasSubstr("label 2 is out of range"));
  EXPECT_THAT(image(2, -1), HasSubstr("label -1 is out of range"));
  EXPECT_THAT(said(
                  images, [](auto&) {}, ASSAY_E_FORMAT),
              HasSubstr("\"image\" is missing: the host's function did not give it"));
  EXPECT_THAT(said(images, [&](auto& give) { give("image", ASSAY_F64, "12345678", 1); }),
              HasSubstr("as f64, expected u8, i32, i64 or f32"));
  EXPECT_THAT(said(images, [&](auto& give) { give("image", ASSAY_I64, x, SIZE_MAX); }),
              HasSubstr("at most 2^28 bytes"));
  EXPECT_THAT(said(images, [&](auto& give) { give("height\n", ASSAY_I32, y, 1); }),
              HasSubstr("feature \"height\\x0A\" was given, expected \"image\" or \"label\""));
  EXPECT_THAT(
      said(images,
           [&](auto& give) { give("label", ASSAY_I32, y, 1), give("label", ASSAY_I32, y, 1); }),
      HasSubstr("\"label\" was given twice"));
}

TEST_F(HostSamplesTest, SenselessLoadersAreRefused) {
  HostData data(3, give_pair);
  const auto refused = [&](std::string_view kind, std::string_view config = R"({"batch_size": 1})",
                           std::string_view transform = "") {
    assay_loader* out = nullptr;
    const Outcome outcome = call(assay_loader_from_samples, context.get(),
                                 static_cast<const assay_samples*>(&data.samples), text(kind),
                                 text(config), text(transform), &out);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID) << outcome.message;
    EXPECT_EQ(out, nullptr);
    return outcome.argument + ": " + outcome.message;
  };
  EXPECT_THAT(refused(""), HasSubstr("arrays: "));
  EXPECT_THAT(refused(R"({"kind": "pictures"})"), HasSubstr("kind: "));
  EXPECT_THAT(refused(R"({"kind": "images", "classes": 2})"), HasSubstr("image: "));
  EXPECT_THAT(refused(R"({"kind": "images", "image": [2, 2], "classes": 2})"),
              HasSubstr("image: "));
  EXPECT_THAT(refused(R"({"kind": "images", "image": [16384, 16384, 2], "classes": 2})"),
              HasSubstr("at most 2^28 bytes"));
  EXPECT_THAT(refused(R"({"kind": "images", "image": [2, 2, 1]})"), HasSubstr("classes: "));
  EXPECT_THAT(refused(R"({"kind": "micrographs", "classes": 2})"), HasSubstr("classes: "));
  for (const std::string_view array :
       {R"({"dtype": "i32"})", R"({"name": "x", "dtype": "f64"})", R"({"name": "x", "shape": [0]})",
        R"({"name": "x", "shape": [-1]})", R"({"name": "x", "shape": [268435457]})",
        R"({"name": "x", "shape": [65536, 65536]})",
        R"({"name": "x", "shape": [1, 1, 1, 1, 1, 1, 1, 1]})", R"({"name": "x", "label": true})",
        R"({"name": "x"}, {"name": "x"})",
        R"({"name": "x", "shape": [67108864]}, {"name": "y"})"}) {
    EXPECT_THAT(refused(R"({"arrays": [)" + std::string(array) + "]}"), HasSubstr("arrays"));
  }
  EXPECT_THAT(refused(kPairs, R"({"batch_size": 4})"), HasSubstr("batch_size: "));
  EXPECT_THAT(refused(kPairs, R"({"batch_size": 1, "record": [3]})"), HasSubstr("record: "));
  EXPECT_THAT(refused(kPairs, R"({"batch_size": 1})", R"({"flip_horizontal": 1})"),
              HasSubstr("transform_json: "));
  for (const int64_t count : {int64_t{0}, int64_t{-1}, int64_t{1} << 32, INT64_MAX}) {
    data.samples.count = count;
    EXPECT_THAT(refused(kPairs), HasSubstr("samples->count: "));
  }
  data.samples.count = 3;
  data.samples.sample = nullptr;
  EXPECT_THAT(refused(kPairs), HasSubstr("samples->sample: "));
  EXPECT_EQ(data.released, 0);
}

// An order that needs no list of the samples takes no memory for their number.
TEST_F(HostSamplesTest, ThereMayBeManySamples) {
  HostData data((int64_t{1} << 32) - 2, give_pair);
  const auto loader = of_host(
      data, kPairs,
      R"({"batch_size": 2, "order": "stream", "buffer": 1, "rank": 1, "world_size": 2147483647})");
  EXPECT_EQ(next(loader.get()).status, ASSAY_OK);
  const float x[] = {1, -1};
  EXPECT_EQ(bytes_of(tensors[0]).substr(0, 8),
            std::string(reinterpret_cast<const char*>(x), sizeof x));
}

// ---- Lifetimes ----

TEST_F(HostSamplesTest, IsReleasedOnceWhenNothingNeedsIt) {
  HostData data(4, give_pair);
  auto loader = of_host(data, kPairs, R"({"batch_size": 2})");
  EXPECT_EQ(next(loader.get()).status, ASSAY_OK);
  Owned<assay_tensor> kept(assay_tensor_retain(tensors[1]));
  loader.reset(), context.reset();
  EXPECT_EQ(data.released, 0);
  std::thread([&] { kept.reset(); }).join();
  EXPECT_EQ(data.released, 1);

  context = make_context();
  data.samples.struct_size = offsetof(assay_samples, release);  // of an older header
  of_host(data, kPairs, R"({"batch_size": 2})").reset();
  EXPECT_EQ(data.released, 1);
}

// A worker cannot wait for itself.
TEST_F(HostSamplesTest, TheFunctionMayDropTheLast) {
  for (const bool by_tensor : {false, true}) {
    std::promise<std::function<void()>> dropping;
    HostData data(8, [&](int64_t i, const HostData::Give& give) {
      if (i == 3) dropping.get_future().get()();
      return give_pair(i, give);
    });
    auto loader = of_host(
        data, kPairs,
        R"({"batch_size": 1, "order": "sequential", "workers": 1, "prefetch": 4, "epochs": 1})");
    EXPECT_EQ(next(loader.get()).status, ASSAY_OK);
    if (by_tensor) {
      dropping.set_value([kept = assay_tensor_retain(tensors[1]), free = loader.release()] {
        assay_loader_free(free);
        assay_tensor_release(kept);
      });
    } else {
      dropping.set_value([own = loader.release()] {
        fails(ASSAY_E_BUSY, assay_loader_seek, own, int64_t{0});
        const assay_tensor* none[1];
        fails(ASSAY_E_BUSY, assay_loader_next, own, +none, size_t{1}, nullptr);
        assay_loader_free(own);
      });
    }
    while (data.released == 0) std::this_thread::yield();
    EXPECT_EQ(data.released, 1);
  }
}

// What a function of the host may do meanwhile.
TEST_F(HostSamplesTest, TheFunctionMayUseTheLibrary) {
  assay_loader* own = nullptr;
  HostData data(4, [&](int64_t i, const HostData::Give& give) {
    report(assay_env_report, static_cast<const assay_context*>(context.get()));
    if (i == 3) {
      EXPECT_EQ(assay_loader_interrupt(own), ASSAY_OK);
    }
    assay_report* none = nullptr;
    fails(ASSAY_E_BUSY, assay_loader_report, static_cast<const assay_loader*>(own), &none);
    return give_pair(i, give);
  });
  const auto loader =
      of_host(data, kPairs, R"({"batch_size": 2, "order": "sequential", "workers": 0})");
  own = loader.get();
  EXPECT_EQ(next(loader.get()).status, ASSAY_OK);
  EXPECT_EQ(next(loader.get()).status, ASSAY_E_CANCELLED);
}

}  // namespace
}  // namespace assay::test
