#include <filesystem>
#include <fstream>
#include <set>

#include "tests/capi/support.h"

namespace assay::test {

namespace {

using testing::HasSubstr;

std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

// A made-up source in the format of Fashion-MNIST: image i has all pixels i, label i % 10.
class DataTest : public testing::Test {
 protected:
  DataTest() {
    std::filesystem::create_directory(source);
    write_split("train", 21);
    write_split("t10k", 7);
  }
  void write_split(const std::string& prefix, uint32_t images) {
    std::string pixels = big_endian({0x803, images, 28, 28}), classes = big_endian({0x801, images});
    for (uint32_t i = 0; i < images; ++i) {
      pixels.append(28 * 28, static_cast<char>(i));
      classes += static_cast<char>(i % 10);
    }
    std::ofstream(source + "/" + prefix + "-images-idx3-ubyte") << pixels;
    std::ofstream(source + "/" + prefix + "-labels-idx1-ubyte") << classes;
  }
  void convert() {
    ok(assay_dataset_convert, context.get(), text("fashion_mnist"), text(source), text(target),
       text(""), nullptr, 0, nullptr);
  }
  Owned<assay_loader> make_loader(std::string_view config, std::string_view split = "train") {
    return make<assay_loader>(assay_loader_create, context.get(), text(target), text(split),
                              text(config), text(""));
  }
  // The labels of the next batch; empty at the end of the data.
  std::vector<int32_t> next(assay_loader* loader) {
    const assay_tensor* tensors[2] = {};
    assay_batch_info info{.struct_size = sizeof info};
    const Outcome outcome = call(assay_loader_next, loader,
                                 static_cast<const assay_tensor**>(tensors), size_t{2}, &info);
    if (outcome.status == ASSAY_E_END_OF_DATA) return {};
    EXPECT_EQ(outcome.status, ASSAY_OK) << outcome.message;
    std::vector<int32_t> labels(static_cast<size_t>(info.rows));
    ok(assay_tensor_read, tensors[1], labels.data(), labels.size() * sizeof(int32_t));
    return labels;
  }

  TemporaryFolder folder;
  std::string source = folder.at("source"), target = folder.at("target");
  Owned<assay_context> context = make_context();
};

TEST_F(DataTest, ConvertReportVerify) {
  const auto known = report(assay_dataset_list);
  static const std::set<std::string> kSamples{
      "images", "photographs", "objects", "micrographs", "masked_pairs", "sequences", "windows"};
  bool has_options = false;
  EXPECT_GE(at(known, "datasets").list_value().values_size(), 1);
  for (const auto& data_set : at(known, "datasets").list_value().values()) {
    const std::string samples = at(data_set.struct_value(), "samples").string_value();
    EXPECT_TRUE(kSamples.contains(samples)) << samples;
    for (const auto& option : at(data_set.struct_value(), "options").list_value().values())
      has_options |= at(option.struct_value(), "key").string_value() == "vocabulary";
  }
  EXPECT_TRUE(has_options);
  int64_t last_done = -1, total = 0;
  struct Seen {
    int64_t* done;
    int64_t* total;
  } seen{&last_done, &total};
  const auto progress = [](uintptr_t user, assay_str phase, int64_t done, int64_t of) {
    EXPECT_GT(phase.size, 0u);
    *reinterpret_cast<Seen*>(user)->done = done;
    *reinterpret_cast<Seen*>(user)->total = of;
    return int32_t{0};
  };
  const auto made =
      report(assay_dataset_convert, context.get(), text("fashion_mnist"), text(source),
             text(target), text(R"({"shards": 2})"), static_cast<assay_progress>(progress),
             reinterpret_cast<uintptr_t>(&seen));
  EXPECT_EQ(last_done, total);
  EXPECT_EQ(at(made, "dataset").string_value(), "fashion_mnist");
  const auto manifest = report(assay_dataset_report, text(target));
  const auto& train = at(manifest, "splits").list_value().values(0).struct_value();
  EXPECT_EQ(at(train, "records").string_value(), "21");
  EXPECT_EQ(at(train, "shards").list_value().values_size(), 2);
  ok(assay_dataset_verify, context.get(), text(target), nullptr, 0);

  const std::string shard =
      at(at(train, "shards").list_value().values(1).struct_value(), "file").string_value();
  std::fstream(target + "/" + shard, std::ios::in | std::ios::out).seekp(40).put('!');
  EXPECT_THAT(fails(ASSAY_E_FORMAT, assay_dataset_verify, context.get(), text(target), nullptr, 0),
              HasSubstr(shard));
}

TEST_F(DataTest, TheHostStopsAConversion) {
  const auto stop = [](uintptr_t, assay_str, int64_t, int64_t) { return int32_t{-42}; };
  const Outcome outcome =
      call(assay_dataset_convert, context.get(), text("fashion_mnist"), text(source), text(target),
           text(""), static_cast<assay_progress>(stop), 0, nullptr);
  EXPECT_EQ(outcome.status, ASSAY_E_CANCELLED);
  EXPECT_EQ(outcome.native_code, -42);
  assay_report* out = nullptr;
  fails(ASSAY_E_NOT_FOUND, assay_dataset_report, text(target), &out);
  convert();
}

// Sums of files come first and may take minutes.
TEST_F(DataTest, TheHostStopsAVerificationAtOnce) {
  convert();
  const auto stop = [](uintptr_t user, assay_str, int64_t, int64_t) {
    ++*reinterpret_cast<int*>(user);
    return int32_t{-42};
  };
  int calls = 0;
  const Outcome outcome =
      call(assay_dataset_verify, context.get(), text(target), static_cast<assay_progress>(stop),
           reinterpret_cast<uintptr_t>(&calls));
  EXPECT_EQ(outcome.status, ASSAY_E_CANCELLED);
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(outcome.message, HasSubstr("summing"));
}

TEST_F(DataTest, AnInterruptStopsAConversion) {
  // From the progress function: as good as from another thread, and repeatable.
  const auto interrupt = [](uintptr_t user, assay_str, int64_t, int64_t) {
    EXPECT_EQ(assay_context_interrupt(reinterpret_cast<assay_context*>(user)), ASSAY_OK);
    return int32_t{0};
  };
  fails(ASSAY_E_CANCELLED, assay_dataset_convert, context.get(), text("fashion_mnist"),
        text(source), text(target), text(""), static_cast<assay_progress>(interrupt),
        reinterpret_cast<uintptr_t>(context.get()), nullptr);
  convert();
}

TEST_F(DataTest, BadConversions) {
  const auto fail_convert = [&](std::string_view name, std::string_view from, std::string_view to,
                                std::string_view options) {
    return call(assay_dataset_convert, context.get(), text(name), text(from), text(to),
                text(options), nullptr, 0, nullptr)
        .status;
  };
  EXPECT_EQ(fail_convert("mnits", source, target, ""), ASSAY_E_NOT_FOUND);
  EXPECT_EQ(fail_convert("fashion_mnist", folder.at("nothing"), target, ""), ASSAY_E_NOT_FOUND);
  EXPECT_EQ(fail_convert("fashion_mnist", source, "", ""), ASSAY_E_INVALID);
  EXPECT_EQ(fail_convert("fashion_mnist", source, target, R"({"shard": 2})"), ASSAY_E_INVALID);
}

TEST_F(DataTest, BatchesTrainAModel) {
  convert();
  const auto loader = make_loader(R"({"batch_size": 5, "seed": 3})");
  EXPECT_FALSE(report(assay_loader_report, loader.get()).fields().contains("seconds"));
  const auto model = make<assay_model>(assay_model_named, context.get(), text("cnn"),
                                       text(R"({"conv": [2], "hidden": [0]})"));
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = 5, .learning_rate = 0.01};
  const auto trainer = make<assay_trainer>(assay_trainer_create, model.get(), &options,
                                           text(R"({"optimizer": {"name": "sgd"}})"));
  const assay_tensor* batch[2];
  assay_batch_info info{.struct_size = sizeof info};
  for (int i = 0; i < 5; ++i) {
    ok(assay_loader_next, loader.get(), batch, size_t{2}, &info);
    ok(assay_trainer_step, trainer.get(), batch, size_t{2}, nullptr);
  }
  EXPECT_EQ(info.epoch, 1);  // 4 batches each
  EXPECT_EQ(info.batch, 0);
  EXPECT_EQ(info.valid, 5);
  const auto described = report(assay_loader_report, loader.get());
  EXPECT_EQ(number(described, "samples"), 21);
  EXPECT_EQ(number(described, "batches_per_epoch"), 4);
  EXPECT_EQ(number(described, "samples_delivered"), 25);
  const auto& config = at(described, "config").struct_value();
  EXPECT_EQ(at(config, "order").string_value(), "shuffled");
  EXPECT_EQ(number(config, "cache_mib"), 512);
  EXPECT_FALSE(config.fields().contains("buffer"));  // of other orders
  EXPECT_GT(number(described, "samples_per_second"), 0);
  EXPECT_EQ(at(described, "arrays").list_value().values_size(), 2);
  EXPECT_TRUE(
      at(at(described, "arrays").list_value().values(1).struct_value(), "label").bool_value());
}

TEST_F(DataTest, EndOfDataAndPadding) {
  convert();
  const auto loader = make_loader(
      R"({"batch_size": 4, "order": "sequential", "last_batch": "pad", "epochs": 1})", "test");
  EXPECT_EQ(next(loader.get()), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(next(loader.get()), (std::vector<int32_t>{4, 5, 6, -1}));
  EXPECT_TRUE(next(loader.get()).empty());
  EXPECT_TRUE(next(loader.get()).empty());
  ok(assay_loader_seek, loader.get(), int64_t{0});
  EXPECT_EQ(next(loader.get()), (std::vector<int32_t>{0, 1, 2, 3}));
  for (const int64_t beyond : {1, 7}) {
    const Outcome outcome = call(assay_loader_seek, loader.get(), beyond);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(outcome.argument, "epoch");
  }
  fails(ASSAY_E_INVALID, assay_loader_seek, loader.get(), int64_t{-1});
}

TEST_F(DataTest, CursorGivesTheSameBatches) {
  convert();
  for (const char* workers : {"0", "3"}) {
    const std::string config =
        R"({"batch_size": 2, "seed": 9, "workers": )" + std::string(workers) + "}";
    const auto loader = make_loader(config), resumed = make_loader(config);
    for (int i = 0; i < 13; ++i) next(loader.get());
    size_t size = 0;
    ok(assay_loader_cursor, loader.get(), nullptr, size_t{0}, &size);
    std::string cursor(size, '\0');
    fails(ASSAY_E_INVALID, assay_loader_cursor, loader.get(), static_cast<void*>(cursor.data()),
          size - 1, &size);
    ok(assay_loader_cursor, loader.get(), static_cast<void*>(cursor.data()), cursor.size(), &size);
    ok(assay_loader_restore, resumed.get(), static_cast<const void*>(cursor.data()), cursor.size());
    for (int i = 0; i < 9; ++i) EXPECT_EQ(next(loader.get()), next(resumed.get()));

    const auto other = make_loader(R"({"batch_size": 2, "seed": 10})");
    fails(ASSAY_E_INVALID, assay_loader_restore, other.get(),
          static_cast<const void*>(cursor.data()), cursor.size());
    const std::string junk(40, '\377');
    EXPECT_EQ(fails(ASSAY_E_FORMAT, assay_loader_restore, other.get(),
                    static_cast<const void*>(junk.data()), junk.size()),
              "src is 40 bytes that are no position, expected what assay_loader_cursor gave");
    fails(ASSAY_E_INVALID, assay_loader_restore, other.get(), nullptr, size_t{4});
  }
}

TEST_F(DataTest, BatchesAreReadOnlyAndOutliveTheLoader) {
  convert();
  auto loader = make_loader(R"({"batch_size": 2, "order": "sequential"})");
  const assay_tensor* batch[2];
  ok(assay_loader_next, loader.get(), batch, size_t{2}, nullptr);
  const Owned<assay_tensor> labels(assay_tensor_retain(batch[1]));
  int32_t values[2] = {7, 7};
  fails(ASSAY_E_INVALID, assay_tensor_write, labels.get(), values, sizeof values);
  loader.reset();
  context.reset();
  ok(assay_tensor_read, labels.get(), values, sizeof values);
  EXPECT_THAT(values, testing::ElementsAre(0, 1));
}

TEST_F(DataTest, BadLoaders) {
  convert();
  assay_loader* out = nullptr;
  const auto fail_loader = [&](assay_status status, std::string_view where, std::string_view split,
                               std::string_view config, std::string_view transform) {
    return fails(status, assay_loader_create, context.get(), text(where), text(split), text(config),
                 text(transform), &out);
  };
  const std::string_view good = R"({"batch_size": 2})";
  fail_loader(ASSAY_E_NOT_FOUND, source, "train", good, "");
  EXPECT_THAT(fail_loader(ASSAY_E_INVALID, "", "train", good, ""), HasSubstr("folder"));
  EXPECT_THAT(fail_loader(ASSAY_E_INVALID, target + std::string(1, '\0'), "train", good, ""),
              HasSubstr("folder"));
  EXPECT_THAT(fail_loader(ASSAY_E_NOT_FOUND, target, "trian", good, ""), HasSubstr("train"));
  EXPECT_THAT(fail_loader(ASSAY_E_INVALID, target, "train", "", ""), HasSubstr("batch_size"));
  EXPECT_THAT(fail_loader(ASSAY_E_INVALID, target, "train", R"({"batch": 2})", ""),
              HasSubstr("batch"));
  EXPECT_THAT(fail_loader(ASSAY_E_INVALID, target, "train", good, R"({"flip": 1})"),
              HasSubstr("flip"));
  const auto loader = make_loader(good);
  const assay_tensor* batch[3];
  fails(ASSAY_E_INVALID, assay_loader_next, loader.get(), batch, size_t{3}, nullptr);
  fails(ASSAY_E_INVALID, assay_loader_next, loader.get(), nullptr, size_t{2}, nullptr);
}

}  // namespace
// A host that knows one format of its own: "RAWP", height, width, then grey bytes.
int32_t read_raw(uintptr_t user, const void* file, size_t size,
                 void (*give)(void* to, const assay_picture* page), void* to) {
  const auto* bytes = static_cast<const unsigned char*>(file);
  if (size < 6 || std::string_view(static_cast<const char*>(file), 4) != "RAWP") return 1;
  assay_picture picture{.struct_size = sizeof picture};
  picture.height = bytes[4];
  picture.width = bytes[5];
  picture.channels = static_cast<int32_t>(user);
  picture.bits = 8;
  picture.data = bytes + 6;
  give(to, &picture);
  return 0;
}

class PhotographTest : public testing::Test {
 protected:
  // Class folders with files of the host's own format.
  void put(const std::string& name, const std::string& bytes) {
    const std::string path = folder.at("source/train/" + name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << bytes;
  }
  Owned<assay_context> context_with(uintptr_t channels) {
    assay_host host{.struct_size = sizeof host, .user = channels};
    host.read_image = read_raw;
    return make<assay_context>(assay_context_create, nullptr, &host, nullptr, size_t{0});
  }
  Outcome convert(const assay_context* context) {
    return call(assay_dataset_convert, context, text("imagenet"), text(folder.at("source")),
                text(folder.at("set")), text(""), nullptr, 0, nullptr);
  }

  TemporaryFolder folder;
};

TEST_F(PhotographTest, TheHostDecodesOtherFormats) {
  put("a/1.png", "RAWP\x02\x03" + std::string(6, '\x50'));
  put("b/2.png", "RAWP\x04\x04" + std::string(16, '\x90'));
  put("b/3.png", "else");
  const auto context = context_with(1);
  const Outcome outcome = convert(context.get());
  ASSERT_EQ(outcome.status, ASSAY_OK) << outcome.message;
  const auto manifest = report(assay_dataset_report, text(folder.at("set")));
  const auto& split = at(manifest, "splits").list_value().values(0).struct_value();
  EXPECT_EQ(at(split, "records").string_value(), "2");
  const auto& shard = at(split, "shards").list_value().values(0).struct_value();
  EXPECT_EQ(at(shard, "findings").list_value().values_size(), 2);

  const auto loader =
      make<assay_loader>(assay_loader_create, context.get(), text(folder.at("set")), text("train"),
                         text(R"({"batch_size": 2, "order": "sequential", "epochs": 1})"),
                         text(R"({"crop": "stretch", "size": 4, "scale": 1, "channels": 4})"));
  const assay_tensor* tensors[2] = {};
  ok(assay_loader_next, loader.get(), static_cast<const assay_tensor**>(tensors), size_t{2},
     nullptr);
  std::vector<float> pixels(2 * 4 * 4 * 4);
  std::vector<int32_t> labels(2);
  ok(assay_tensor_read, tensors[0], pixels.data(), pixels.size() * sizeof(float));
  ok(assay_tensor_read, tensors[1], labels.data(), labels.size() * sizeof(int32_t));
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(pixels[row * 64], labels[row] == 0 ? 0x50 : 0x90);
    EXPECT_EQ(pixels[row * 64 + 3], 0);
  }

  ok(assay_dataset_export, context.get(), text(folder.at("set")), text(folder.at("rec")), text(""),
     nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.at("rec/train.rec")));
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_dataset_export, context.get(), text(folder.at("set")),
                    text(folder.at("rec")), text(""), nullptr, 0),
              HasSubstr("is there already"));
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_dataset_export, context.get(), text(folder.at("set")),
                    text(folder.at("rec2")), text(R"({"format": "lmdb"})"), nullptr, 0),
              HasSubstr("\"lmdb\", expected \"recordio\""));
  const std::string set = at(split, "content_sha256").string_value();
  ok(assay_dataset_convert, context.get(), text("imagenet"), text(folder.at("rec")),
     text(folder.at("set2")), text(""), nullptr, 0, nullptr);
  const auto again = report(assay_dataset_report, text(folder.at("set2")));
  EXPECT_EQ(at(at(again, "splits").list_value().values(0).struct_value(), "content_sha256")
                .string_value(),
            set);
}

TEST_F(PhotographTest, AWrongPictureOfTheHostIsItsFailure) {
  put("a/1.png", "RAWP\x02\x03" + std::string(6, '\x50'));
  const auto context = context_with(2);  // channels that no picture has
  const Outcome outcome = convert(context.get());
  EXPECT_EQ(outcome.status, ASSAY_E_CALLBACK);
  EXPECT_THAT(outcome.message, HasSubstr("2 channels of 8 bits"));
}

TEST_F(DataTest, OnlyPhotographsBecomeRecordIo) {
  convert();
  EXPECT_THAT(fails(ASSAY_E_UNSUPPORTED, assay_dataset_export, context.get(), text(target),
                    text(folder.at("rec")), text(""), nullptr, 0),
              HasSubstr("is no JPEG image"));
}

}  // namespace assay::test
