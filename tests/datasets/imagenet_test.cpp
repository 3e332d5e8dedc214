#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "datasets/datasets.h"
#include "datasets/image_list.h"
#include "datasets/python_random.h"
#include "sdk/base/file.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"
#include "sdk/data/loader.h"
#include "sdk/data/manifest.pb.h"
#include "sdk/data/recordio.h"
#include "tests/data/support.h"

namespace assay::datasets {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

std::string fixture(const std::string& name) {
  return read_file(ASSAY_SOURCE_DIR "/tests/fixtures/images/" + name);
}

// Values of CPython 3.11: random.seed(100); x = list(range(n)); random.shuffle(x).
TEST(PythonRandom, ShufflesAsPython) {
  EXPECT_THAT(python_shuffled(100, 10), ElementsAre(4, 0, 5, 9, 3, 1, 6, 8, 7, 2));
  EXPECT_THAT(python_shuffled(0, 10), ElementsAre(7, 8, 1, 5, 3, 4, 2, 0, 9, 6));
  const auto many = python_shuffled(100, 700);  // more than the generator's state
  EXPECT_EQ(many[0], 591);
  EXPECT_EQ(many[11], 616);
  EXPECT_EQ(many[699], 149);
  EXPECT_THAT(python_shuffled(100, 1), ElementsAre(0));
  EXPECT_TRUE(python_shuffled(100, 0).empty());
}

struct Record {
  int64_t label, id;
  std::string jpeg;
  bool operator==(const Record&) const = default;
};

class ImagenetTest : public testing::Test {
 protected:
  const DatasetEntry& imagenet_ = find_dataset("imagenet");

  std::string source(const std::string& name = "") const { return folder_.at("source/" + name); }
  void put(const std::string& path, const std::string& bytes) {
    make_directories(parent_path(source(path)));
    test::write_quickly(source(path), bytes);
  }
  // Two classes, named so that sorting matters, with one file of each kind.
  void put_class_folders() {
    put("train/n02/b.JPEG", fixture("colour_420.jpg"));
    put("train/n02/a.jpeg", fixture("grey.jpg"));
    put("train/n01/c.jpg", fixture("cmyk.jpg"));
    put("train/n01/d.JPG", fixture("progressive_420.jpg"));
    put("train/n01/notes.txt", "not an image");
    put("val/n02/x.JPEG", fixture("one_pixel.jpg"));
  }
  ConvertOptions options(const std::string& output = "set") const {
    return {.source = folder_.at("source"), .output = folder_.at(output), .threads = 2};
  }
  std::string refusal() {
    const Error error = error_of([&] { imagenet_.convert(options()); });
    EXPECT_NE(error.code(), Code::kOk);
    EXPECT_FALSE(path_exists(folder_.at("set/dataset.json")));
    return error.message();
  }
  std::vector<Record> records(const std::string& split, const std::string& output = "set") const {
    const auto manifest = data::read_manifest(folder_.at(output));
    const auto source = data::open_split(folder_.at(output), manifest, split);
    std::vector<Record> all;
    std::string payload;
    data::Example example;
    for (int64_t i = 0; i < source->size(); ++i) {
      source->read(i, payload);
      data::parse_example(payload, example);
      all.push_back({data::int64_feature(example, "label"), data::int64_feature(example, "id"),
                     data::bytes_feature(example, "jpeg")});
    }
    return all;
  }

  TemporaryFolder folder_;
};

std::map<std::string, int64_t> findings_of(const data::DatasetSplit& split) {
  std::map<std::string, int64_t> counts;
  for (const auto& shard : split.shards()) {
    for (const auto& finding : shard.findings()) counts[finding.kind()] += finding.count();
  }
  return counts;
}

TEST_F(ImagenetTest, ClassFoldersInTheOrderOfIm2rec) {
  put_class_folders();
  const auto manifest = imagenet_.convert(options());
  EXPECT_EQ(manifest.classes(), 2);
  EXPECT_THAT(manifest.class_names(), ElementsAre("n01", "n02"));
  EXPECT_EQ(manifest.sources(0).file(), "train");
  // Walked n01/c, n01/d, n02/a, n02/b; Python shuffles 0 1 2 3 with seed 100 to 0 2 3 1.
  EXPECT_THAT(records("train"),
              ElementsAre(Record{0, 0, fixture("cmyk.jpg")}, Record{1, 2, fixture("grey.jpg")},
                          Record{1, 3, fixture("colour_420.jpg")},
                          Record{0, 1, fixture("progressive_420.jpg")}));
  EXPECT_THAT(records("val"), ElementsAre(Record{1, 0, fixture("one_pixel.jpg")}));
  EXPECT_EQ(findings_of(manifest.splits(0)),
            (std::map<std::string, int64_t>{{"CMYK", 1}, {"grey", 1}}));
  data::verify_dataset(folder_.at("set"), {});
}

TEST_F(ImagenetTest, OtherFormatsAreReencodedAndBrokenFilesLeftOut) {
  put("train/n01/good.jpg", fixture("colour_420.jpg"));
  put("train/n01/is_png.JPEG", fixture("png_named.JPEG"));
  put("train/n01/cut.jpg", fixture("colour_420.jpg").substr(0, 4000));
  put("train/n01/empty.jpg", "");
  put("train/n01/text.jpg", "<html>404</html>");
  ConvertOptions with_reader = options();
  with_reader.read_image = [](std::string_view file) {
    require(file.starts_with("\x89PNG"), Code::kFormat, "unknown");
    return std::vector<data::PixelPage>{
        {2, 3, 1, 16, std::string("\x10\x20\x10\x40\x10\x60\x10\x80\x10\xa0\x10\xc0", 12)}};
  };
  const auto manifest = imagenet_.convert(with_reader);
  EXPECT_EQ(manifest.splits(0).records(), 2);
  EXPECT_EQ(findings_of(manifest.splits(0)),
            (std::map<std::string, int64_t>{{"left out", 3}, {"re-encoded as JPEG", 1}}));
  const auto& findings = manifest.splits(0).shards(0).findings();
  std::string examples;
  for (const auto& finding : findings) {
    for (const auto& example : finding.examples()) examples += example + "\n";
  }
  EXPECT_THAT(examples, HasSubstr("train/n01/cut.jpg: the JPEG cannot be decoded: "));
  EXPECT_THAT(examples, HasSubstr("train/n01/empty.jpg: "));
  for (const Record& record : records("train")) {
    if (record.id == 0 || record.jpeg == fixture("colour_420.jpg")) continue;
    data::JpegDecoder decoder;
    EXPECT_EQ(decoder.open(record.jpeg).width, 3);
    decoder.start({0, 0, 2, 3});
    EXPECT_NEAR(decoder.next_row()[0], 0x20, 2);  // the upper byte of 16-bit pixels
  }
}

TEST_F(ImagenetTest, WithoutAReaderOtherFormatsAreLeftOut) {
  put("train/n01/good.jpg", fixture("colour_420.jpg"));
  put("train/n01/is_png.JPEG", fixture("png_named.JPEG"));
  const auto manifest = imagenet_.convert(options());
  EXPECT_THAT(manifest.splits(0).shards(0).findings(0).examples(0),
              HasSubstr("no decoder of other formats"));
}

TEST_F(ImagenetTest, ListsAndClassMaps) {
  put("classes.tsv", "index\twnid\tname\n1\tn05\tfish\n0\tn09\tbird\n2\tn01\tfrog\n");
  put("images/one.jpg", fixture("colour_422.jpg"));
  put("val/two.jpg", fixture("colour_444.jpg"));
  put("train.lst", "17\t2.000000\timages/one.jpg\n4\t1\tval/two.jpg\n");
  put("val.lst", "3\t0\ttwo.jpg\r\n");  // relative to the folder of the split
  const auto manifest = imagenet_.convert(options());
  EXPECT_THAT(manifest.class_names(), ElementsAre("bird", "fish", "frog"));
  EXPECT_THAT(records("train"), ElementsAre(Record{2, 17, fixture("colour_422.jpg")},
                                            Record{1, 4, fixture("colour_444.jpg")}));
  EXPECT_THAT(records("val"), ElementsAre(Record{0, 3, fixture("colour_444.jpg")}));
}

TEST_F(ImagenetTest, FolderListAndRecordIoGiveTheSameContent) {
  put_class_folders();
  const auto from_folders = imagenet_.convert(options());
  std::string payload;
  make_directories(folder_.at("rec"));
  data::RecordIoWriter train(folder_.at("rec/train"));
  for (const Record& record : records("train")) {
    data::pack_recordio_image(static_cast<uint64_t>(record.id), static_cast<float>(record.label),
                              record.jpeg, payload);
    train.write(static_cast<uint64_t>(record.id), payload);
  }
  train.finish();
  ConvertOptions from_records = options("set2");
  from_records.source = folder_.at("rec");
  const auto again = imagenet_.convert(from_records);
  EXPECT_EQ(again.classes(), 2);
  EXPECT_EQ(again.splits(0).content_sha256(), from_folders.splits(0).content_sha256());
}

TEST_F(ImagenetTest, LoadsForTrainingAndEvaluation) {
  put_class_folders();
  const auto manifest = imagenet_.convert(options());
  data::LoaderConfig config;
  config.batch_size = 2;
  config.epochs = 1;
  config.seed = 3;
  const auto images = [&](int workers, const char* transform) {
    config.workers = workers;
    data::Loader loader(data::open_split(folder_.at("set"), manifest, "train"),
                        imagenet_.make_transform(manifest, transform), config);
    std::string bytes;
    while (const data::Batch* batch = loader.next()) {
      const auto& image = batch->array("image");
      bytes.append(reinterpret_cast<const char*>(image.data), image.bytes);
    }
    return bytes;
  };
  const char* training = R"({"crop": "random", "size": 48, "flip_horizontal": 0.5})";
  EXPECT_EQ(images(0, training), images(3, training));  // bits do not depend on threads
  EXPECT_EQ(images(0, R"({"size": 48})").size(), 4u * 48 * 48 * 3 * 4);
  EXPECT_EQ(error_of([&] { imagenet_.make_transform(manifest, R"({"crop_padding": 4})"); }).code(),
            Code::kInvalid);
}

TEST_F(ImagenetTest, BadSourcesAreNamed) {
  make_directories(source());
  EXPECT_THAT(refusal(), HasSubstr("holds none of train, val and test"));
  make_directories(source("train"));
  EXPECT_THAT(refusal(), HasSubstr("train holds no class folders"));
  make_directories(source("train/n01"));
  EXPECT_THAT(refusal(), HasSubstr("n01 holds no images"));
  put("train/n01/a.jpg", "junk");
  EXPECT_THAT(refusal(), HasSubstr("none of its 1 entries is usable"));
  put("train/n01/a.jpg", fixture("grey.jpg"));
  put("val/n03/a.jpg", fixture("grey.jpg"));
  EXPECT_THAT(refusal(), HasSubstr("\"n03\" is none of the 1 classes"));
  put("classes.tsv", "0\tn01\tfish\n1\tn03\tbird\n");
  put("val/loose.jpg", fixture("grey.jpg"));
  EXPECT_THAT(refusal(), HasSubstr("loose.jpg lies outside of the class folders"));
}

TEST_F(ImagenetTest, BadClassMapsAreNamed) {
  put("train/n01/a.jpg", fixture("grey.jpg"));
  for (const auto& [map, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "names no classes"},
           {"index\tfolder\n", "names no classes"},
           {"0\tn01\n0\tn02\n", "line 2: index 0 comes twice"},
           {"0\tn01\n1\tn01\n", "line 2: \"n01\" comes twice"},
           {"0\tn01\n2\tn02\n", "line 2: index 2 comes twice or leaves a gap"},
           {"0\n", "line 1: expected index, folder and name"},
           {"0\tn01\nx\tn02\n", "line 2: expected"},
           {"1\tn01\nheading\tx\n", "line 2: expected"},
           {"0\tn99\n", "\"n01\" is none of the 1 classes"}}) {
    put("classes.tsv", map);
    EXPECT_THAT(refusal(), HasSubstr(message)) << map;
  }
}

TEST_F(ImagenetTest, BadListsAreNamed) {
  put("a.jpg", fixture("grey.jpg"));
  for (const auto& [list, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "lists no images"},
           {"0\t1\n", "line 1 has 2 fields"},
           {"0\t1\t2\ta.jpg\n", "line 1 has 4 fields"},
           {"0\t0\ta.jpg\nx\t0\ta.jpg\n", "line 2: \"x\" is no number"},
           {"0\t0.5\ta.jpg\n", "\"0.5\" is no label"},
           {"0\t-1\ta.jpg\n", "\"-1\" is no label"},
           {"0\tnan\ta.jpg\n", "\"nan\" is no label"},
           {"0\t0\t/etc/passwd\n", "is no path inside of"},
           {"0\t0\tx/../../a.jpg\n", "is no path inside of"},
           {"0\t0\tb.jpg\n", "there is no"}}) {
    put("train.lst", list);
    EXPECT_THAT(refusal(), HasSubstr(message)) << list;
  }
  put("train.lst", "0\t1\ta.jpg\n");
  put("classes.tsv", "0\tn01\n");
  EXPECT_THAT(refusal(), HasSubstr("label 1 is out of range, classes.tsv names 1 classes"));
}

// Where nothing names the classes, all labels are read first: that may take long, too.
TEST_F(ImagenetTest, LookingForLabelsReportsAndCanBeCancelled) {
  std::string payload, bytes;
  for (uint64_t id = 0; id < 300; ++id) {
    data::pack_recordio_image(id, static_cast<float>(id % 3), fixture("one_pixel.jpg"), payload);
    data::append_recordio(payload, bytes);
  }
  put("val.rec", bytes);
  std::vector<int64_t> seen;
  ConvertOptions reporting = options();
  reporting.progress = [&](const data::Progress& progress) {
    if (progress.phase == "labels of val") seen.push_back(progress.done);
    return true;
  };
  EXPECT_EQ(imagenet_.convert(reporting).classes(), 3);
  EXPECT_THAT(seen, ElementsAre(0, 256, 300));
  ConvertOptions cancelling = options("other");
  cancelling.progress = [](const data::Progress& progress) { return progress.done < 256; };
  const Error error = error_of([&] { imagenet_.convert(cancelling); });
  EXPECT_EQ(error.code(), Code::kCancelled);
  EXPECT_THAT(error.message(), HasSubstr("labels of val"));
  EXPECT_FALSE(path_exists(folder_.at("other")));
}

TEST_F(ImagenetTest, ManyClassesAreReadAtOnce) {
  constexpr int kClasses = 200000;  // comparing each with all would take minutes
  std::string map;
  for (int i = 0; i < kClasses; ++i) map += cat(i, "\tfolder of class ", i, "\n");
  put("classes.tsv", map);
  const auto begin = std::chrono::steady_clock::now();
  const ClassMap classes = read_class_map(source("classes.tsv"));
  for (int i = 0; i < kClasses; ++i)
    ASSERT_EQ(classes.label_of(cat("folder of class ", i), "test"), i);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(ImagenetTest, BadRecordFilesAreNamed) {
  std::string payload, bytes;
  data::pack_recordio_image(0, 0, fixture("grey.jpg"), payload);
  data::append_recordio(payload, bytes);
  put("val.rec", bytes.substr(0, bytes.size() - 5));
  EXPECT_THAT(refusal(), HasSubstr("val.rec, record 0 at byte 0"));
  data::pack_recordio_image(0, 0.5f, "x", payload);
  bytes.clear();
  data::append_recordio(payload, bytes);
  put("val.rec", bytes);
  EXPECT_THAT(refusal(), HasSubstr("record 0: it has 1 labels, the first 0.5"));
  put("classes.tsv", "0\tn01\n");
  data::pack_recordio_image(0, 3, fixture("grey.jpg"), payload);
  bytes.clear();
  data::append_recordio(payload, bytes);
  put("val.rec", bytes);
  EXPECT_THAT(refusal(), HasSubstr("label 3 is out of range, there are 1 classes"));
}

}  // namespace
}  // namespace assay::datasets
