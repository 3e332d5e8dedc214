// Conversions of COCO and of files in its form: what becomes a record, what is left out and
// counted, and what is refused. Made-up annotations of the pictures in tests/fixtures/images; real
// ones where coco-tiny lies in ../shared/data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <map>
#include <random>

#include "datasets/datasets.h"
#include "datasets/source_files.h"
#include "sdk/base/file.h"
#include "sdk/base/sha256.h"
#include "sdk/data/coco_instances.h"
#include "sdk/data/detection_records.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/loader.h"
#include "sdk/data/manifest.pb.h"
#include "tests/data/coco_files.h"
#include "tests/data/support.h"

namespace assay::datasets {
namespace {

using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Findings = std::map<std::string, int64_t>;

std::string fixture(const std::string& name) {
  return read_file(ASSAY_SOURCE_DIR "/tests/fixtures/images/" + name);
}

std::string image_json(int64_t id, const std::string& name, int height, int width) {
  return cat(R"({"id": )", id, R"(, "file_name": ")", name, R"(", "height": )", height,
             R"(, "width": )", width, "}");
}

std::string box_json(int64_t id, int64_t image, int64_t category, const std::string& box,
                     bool crowd = false) {
  return cat(R"({"id": )", id, R"(, "image_id": )", image, R"(, "category_id": )", category,
             R"(, "bbox": [)", box, R"(], "area": 12.5, "iscrowd": )", crowd ? 1 : 0,
             R"(, "segmentation": [[1, 2, 3, 4, 5, 6]]})");
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string instances(
    const std::vector<std::string>& images, const std::vector<std::string>& boxes,
    const std::string& categories = R"({"id": 3, "name": "car"}, {"id": 1, "name": "person"})") {
  return cat(R"({"images": [)", joined(images), R"(], "annotations": [)", joined(boxes),
             R"(], "categories": [)", categories, "]}");
}

Findings findings_of(const data::DatasetSplit& split) {
  Findings counts;
  for (const auto& shard : split.shards())
    for (const auto& finding : shard.findings()) counts[finding.kind()] += finding.count();
  return counts;
}

std::string examples_of(const data::DatasetSplit& split) {
  std::string text;
  for (const auto& shard : split.shards())
    for (const auto& finding : shard.findings())
      for (const auto& example : finding.examples()) text += example + "\n";
  return text;
}

class CocoTest : public testing::Test {
 protected:
  const DatasetEntry& coco_ = find_dataset("coco");

  void put(const std::string& path, const std::string& bytes) {
    make_directories(parent_path(folder_.at("source/" + path)));
    test::write_quickly(folder_.at("source/" + path), bytes);
  }
  void put_instances(const std::string& split, const std::string& json) {
    put("annotations/instances_" + split + "2017.json", json);
  }
  ConvertOptions options(const std::string& output = "set") const {
    return {.source = folder_.at("source"), .output = folder_.at(output), .threads = 2};
  }
  // Sets keys of the conversion.
  ConvertOptions with_keys(const std::string& json) const {
    ConvertOptions given = options();
    given.keys = coco_.make_keys();
    parse_json(json, *given.keys, "keys");
    return given;
  }
  Error refusal(const ConvertOptions& given) {
    Error error = error_of([&] { coco_.convert(given); });
    EXPECT_NE(error.code(), Code::kOk);
    EXPECT_FALSE(path_exists(folder_.at("set/dataset.json")));
    return error;
  }
  std::string refusal() { return refusal(options()).message(); }

  // By their numbers in the split; files of `kept` are what records point into.
  std::vector<data::DetectionRecord> records(const std::string& split, int64_t categories = 90,
                                             const std::string& output = "set") {
    const auto manifest = data::read_manifest(folder_.at(output));
    const auto source = data::open_split(folder_.at(output), manifest, split);
    std::vector<data::DetectionRecord> all;
    std::string payload;
    for (int64_t i = 0; i < source->size(); ++i) {
      source->read(i, payload);
      data::DetectionRecord& record = all.emplace_back();
      kept_.push_back(std::make_unique<data::Example>());
      data::read_detection(payload, categories, *kept_.back(), record);
    }
    return all;
  }

  test::TemporaryFolder folder_;
  std::vector<std::unique_ptr<data::Example>> kept_;
};

TEST_F(CocoTest, RecordsHaveTheBoxesOfTheirImages) {
  put("train2017/a.jpg", fixture("colour_420.jpg"));
  put("train2017/b.jpg", fixture("grey.jpg"));
  put("val2017/c.jpg", fixture("one_pixel.jpg"));
  put_instances(
      "train",
      instances({image_json(9, "a.jpg", 107, 150), image_json(4, "b.jpg", 107, 150)},
                {box_json(1, 4, 3, "15, 10.7, 30, 21.4"), box_json(2, 9, 1, "0, 0, 150, 107"),
                 box_json(3, 4, 1, "75, 53.5, 75, 53.5", true)}));
  put_instances("val", instances({image_json(5, "c.jpg", 1, 1)}, {}));
  const auto manifest = coco_.convert(options());
  EXPECT_EQ(manifest.dataset(), "coco");
  EXPECT_EQ(manifest.classes(), 3);
  EXPECT_THAT(manifest.class_names(), ElementsAre("person", "", "car"));
  ASSERT_EQ(manifest.splits_size(), 2);
  EXPECT_EQ(findings_of(manifest.splits(0)), (Findings{{"grey", 1}}));
  EXPECT_EQ(findings_of(manifest.splits(1)), Findings{});

  const auto train = records("train", 3);
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0].source_id, 9);
  EXPECT_EQ(train[0].jpeg, fixture("colour_420.jpg"));
  ASSERT_EQ(train[0].objects.size(), 1u);
  EXPECT_EQ(train[0].objects[0].ymax, 1);
  EXPECT_EQ(train[0].objects[0].category, 1);
  ASSERT_EQ(train[1].objects.size(), 2u);
  const data::DetectionObject &car = train[1].objects[0], &crowd = train[1].objects[1];
  EXPECT_EQ(car.ymin, 0.1f);
  EXPECT_EQ(car.xmin, 0.1f);
  EXPECT_EQ(car.ymax, static_cast<float>((10.7 + 21.4) / 107));
  EXPECT_EQ(car.xmax, 0.3f);
  EXPECT_EQ(car.category, 3);
  EXPECT_FALSE(car.crowd);
  EXPECT_TRUE(crowd.crowd);
  const data::Example& example = *kept_[1];
  EXPECT_THAT(data::floats_feature(example, "image/object/area"), ElementsAre(12.5f, 12.5f));
  EXPECT_EQ(data::bytes_feature(example, "image/filename"), "b.jpg");
  EXPECT_EQ(data::int64_feature(example, "image/height"), 107);
  EXPECT_EQ(data::int64_feature(example, "image/width"), 150);
  const auto& text = data::find_feature(example, "image/object/class/text")->bytes_list();
  EXPECT_THAT(text.value(), ElementsAre("car", "person"));

  const auto val = records("val", 3);
  ASSERT_EQ(val.size(), 1u);
  EXPECT_THAT(val[0].objects, IsEmpty());
  // What is scored with lies beside them.
  EXPECT_EQ(data::read_attached(folder_.at("set"), manifest, "val.json"),
            read_file(folder_.at("source/annotations/instances_val2017.json")));
  data::verify_dataset(folder_.at("set"), {});
}

TEST_F(CocoTest, BoxesThatAreNoneAreDroppedAndCounted) {
  put("val2017/a.jpg", fixture("colour_420.jpg"));
  const std::vector<std::string> boxes{
      "10, 10, 0, 5",   "10, 10, 5, 0",    "10, 10, -5, 5",    "10, 10, 5, -5",
      "-1, 10, 5, 5",   "10, -0.25, 5, 5", "145.5, 10, 5, 5",  "10, 102.01, 5, 5",
      "145, 102, 5, 5", "0, 0, 150, 107",  "1000, 1000, 1, 1", "149.999, 0, 0.001, 1e-9"};
  std::vector<std::string> annotations;
  for (size_t i = 0; i < boxes.size(); ++i)
    annotations.push_back(box_json(static_cast<int64_t>(i) + 1, 1, 1, boxes[i]));
  put_instances("val", instances({image_json(1, "a.jpg", 107, 150)}, annotations));
  const auto manifest = coco_.convert(options());
  EXPECT_EQ(findings_of(manifest.splits(0)),
            (Findings{{"empty or inverted box", 4}, {"box outside of its image", 5}}));
  EXPECT_THAT(examples_of(manifest.splits(0)),
              HasSubstr("annotation 7 of image 1: [145.5, 10, 5, 5] in 150 x 107\n"));
  const auto val = records("val", 3);
  ASSERT_EQ(val.size(), 1u);
  ASSERT_EQ(val[0].objects.size(), 3u);
  EXPECT_EQ(val[0].objects[0].xmax, 1);
  EXPECT_EQ(val[0].objects[0].ymax, 1);
}

TEST_F(CocoTest, ImagesOfEveryKind) {
  put("val2017/cmyk.jpg", fixture("cmyk.jpg"));
  put("val2017/cut.jpg", fixture("colour_420.jpg").substr(0, 4000));
  put("val2017/other.jpg", fixture("colour_420.jpg"));
  put("val2017/png.jpg", fixture("png_named.JPEG"));
  put("val2017/text.jpg", "<html>404</html>");
  put("val2017/empty.jpg", "");
  put("val2017/tall.jpg", fixture("tall.jpg"));
  put_instances("val",
                instances({image_json(1, "cmyk.jpg", 60, 45), image_json(2, "cut.jpg", 107, 150),
                           image_json(3, "other.jpg", 150, 107), image_json(4, "png.jpg", 30, 40),
                           image_json(5, "text.jpg", 30, 40), image_json(6, "empty.jpg", 1, 1),
                           image_json(7, "tall.jpg", 210, 5)},
                          {box_json(1, 7, 1, "0, 0, 1, 210")}));
  ConvertOptions with_reader = options();
  with_reader.read_image = [](std::string_view file) {
    require(file.starts_with("\x89PNG"), Code::kFormat, "unknown");
    return std::vector<data::PixelPage>{{30, 40, 3, 8, std::string(30 * 40 * 3, '\x40')}};
  };
  const auto manifest = coco_.convert(with_reader);
  EXPECT_EQ(findings_of(manifest.splits(0)),
            (Findings{{"CMYK", 1}, {"left out", 4}, {"re-encoded as JPEG", 1}}));
  EXPECT_THAT(examples_of(manifest.splits(0)),
              AllOf(HasSubstr("val2017/other.jpg: it has 150 x 107 pixels, by "
                              "annotations/instances_val2017.json 107 x 150"),
                    HasSubstr("val2017/cut.jpg: ")));
  const auto val = records("val", 3);
  ASSERT_EQ(val.size(), 3u);
  EXPECT_EQ(val[0].source_id, 1);
  EXPECT_EQ(val[1].source_id, 4);
  EXPECT_EQ(val[2].source_id, 7);
}

TEST_F(CocoTest, RefusesWhatCannotBeConverted) {
  EXPECT_THAT(refusal(), HasSubstr("source is not there"));
  put("train2017/a.jpg", fixture("one_pixel.jpg"));
  EXPECT_THAT(refusal(), HasSubstr("neither annotations/instances_train2017.json nor"));
  const std::string one = image_json(1, "a.jpg", 1, 1);
  put_instances("train", instances({one, image_json(2, "b.jpg", 1, 1)}, {}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("holds no train2017/b.jpg, which is image 2 of"),
                               HasSubstr("set train_images to the folder")));
  put_instances("train", instances({image_json(1, "../train2017/a.jpg", 1, 1)}, {}));
  EXPECT_THAT(refusal(), HasSubstr("holds no train2017/../train2017/a.jpg"));
  put_instances("train", instances({one}, {}, R"({"id": 0, "name": "background"})"));
  EXPECT_THAT(refusal(), HasSubstr("the category \"background\" has the id 0, expected 1 to"));
  put_instances("train", instances({one}, {}, ""));
  EXPECT_THAT(refusal(), HasSubstr("split train has no categories"));
  put_instances("train", R"({"images": [], )");
  EXPECT_THAT(refusal(),
              HasSubstr("annotations/instances_train2017.json: line 1, column 16, near images: "));
  std::vector<std::string> many;
  for (int64_t i = 0; i < 100; ++i) many.push_back(box_json(i, 1, 1, "0, 0, 1, 1"));
  put_instances("train", instances({one}, many));
  EXPECT_THAT(refusal(),
              HasSubstr("image 1 (a.jpg) has 100 boxes that are not crowds, expected at"));
  many.back() = box_json(99, 1, 1, "0, 0, 1, 1", true);
  many.push_back(box_json(100, 1, 1, "0, 0, 2, 1"));
  put_instances("train", instances({one}, many));
  put_instances("val", instances({one}, {}, R"({"id": 1, "name": "dog"})"));
  put("val2017/a.jpg", fixture("one_pixel.jpg"));
  EXPECT_THAT(refusal(), HasSubstr("category 1 is \"dog\" here and \"person\" in another"));
  put_instances("val", instances({one}, {}, R"({"id": 1, "name": "person"})"));
  EXPECT_EQ(coco_.convert(options()).splits_size(), 2);
}

TEST_F(CocoTest, CaptionsAreRefusedWithTheReason) {
  put("annotations/captions_train2017.json",
      R"({"info": {}, "images": [{"id": 1, "file_name": "a.jpg", "height": 1, "width": 1}],
          "annotations": [{"image_id": 1, "id": 48, "caption": "A very clean bathroom."}]})");
  const Error error = refusal(with_keys(R"({"train": "annotations/captions_train2017.json"})"));
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(
      error.message(),
      AllOf(HasSubstr("annotations/captions_train2017.json, line 2, column 27: "),
            HasSubstr("are captions, which have no boxes"), HasSubstr("instances_train2017")));
}

TEST_F(CocoTest, FilesMayHaveOtherNames) {
  put("pictures/x/a.jpg", fixture("one_pixel.jpg"));
  put("mine.json", instances({image_json(1, "x/a.jpg", 1, 1)}, {}));
  EXPECT_EQ(refusal(with_keys(R"({"val": "none.json"})")).code(), Code::kNotFound);
  const auto manifest =
      coco_.convert(with_keys(R"({"val": "mine.json", "val_images": "pictures"})"));
  EXPECT_EQ(manifest.splits(0).name(), "val");
}

// Records of Google's and NVIDIA's converters, as tests/fixtures/detection has them.
TEST_F(CocoTest, RecordsOfOtherConvertersAreTaken) {
  const auto detection = [](const std::string& name) {
    return read_file(ASSAY_SOURCE_DIR "/tests/fixtures/detection/" + name + ".example");
  };
  std::string broken = detection("google");
  broken.replace(broken.find("\xff\xd8"), 2, "??");
  const auto put_records = [&](const std::string& name, const std::vector<std::string>& payloads) {
    std::string framed;
    for (const std::string& payload : payloads) data::append_record(payload, framed);
    put(name, framed);
  };
  put_records("train-00000-of-00002.tfrecord", {detection("nvidia"), detection("no_lists")});
  put_records("train-00001-of-00002.tfrecord", {broken, detection("google")});
  put_records("coco_val.record-00000-of-00001", {detection("empty_lists")});
  const auto manifest = coco_.convert(options());
  EXPECT_EQ(manifest.classes(), 90);
  EXPECT_EQ(manifest.class_names(89), "toothbrush");
  EXPECT_EQ(manifest.class_names(1), "");  // Google's does not say
  EXPECT_EQ(findings_of(manifest.splits(0)), (Findings{{"left out", 1}}));
  EXPECT_THAT(examples_of(manifest.splits(0)),
              HasSubstr("train-00001-of-00002.tfrecord, record 0"));
  const auto train = records("train");
  ASSERT_EQ(train.size(), 3u);
  EXPECT_EQ(train[0].objects.size(), 2u);
  EXPECT_EQ(train[2].objects[0].category, 2);
  EXPECT_EQ(manifest.splits(1).records(), 1);
  std::string payload;
  data::open_split(folder_.at("set"), manifest, "train")->read(2, payload);
  EXPECT_EQ(payload, detection("google"));  // as it was

  put_records("train-00001-of-00002.tfrecord", {"junk"});
  EXPECT_THAT(error_of([&] { coco_.convert(options("other")); }).message(),
              HasSubstr("train-00001-of-00002.tfrecord, record 0: the 4 bytes"));
}

// Interrupted after the first shard, the next call continues there.
TEST_F(CocoTest, ContinuesWhereItWasStopped) {
  std::vector<std::string> images;
  for (int64_t i = 1; i <= 20; ++i) {
    put(cat("val2017/", i, ".jpg"), fixture("one_pixel.jpg"));
    images.push_back(image_json(i, cat(i, ".jpg"), 1, 1));
  }
  put_instances("val", instances(images, {}));
  ConvertOptions stopping = options();
  stopping.shards = 4;
  stopping.progress = [](const data::Progress& state) { return state.done < 10; };
  EXPECT_EQ(error_of([&] { coco_.convert(stopping); }).code(), Code::kCancelled);
  EXPECT_TRUE(path_exists(folder_.at("set/conversion.json")));
  std::vector<int64_t> begun;
  stopping.progress = [&](const data::Progress& state) {
    begun.push_back(state.done);
    return true;
  };
  const auto manifest = coco_.convert(stopping);
  EXPECT_EQ(manifest.splits(0).records(), 20);
  EXPECT_FALSE(path_exists(folder_.at("set/conversion.json")));
  ConvertOptions whole = options("whole");
  whole.shards = 1;
  EXPECT_EQ(coco_.convert(whole).splits(0).content_sha256(), manifest.splits(0).content_sha256());
  begun.clear();
  coco_.convert(stopping);  // is there already
  EXPECT_THAT(begun, IsEmpty());
}

void write_zip(const std::string& path, const std::map<std::string, std::string>& files) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, bytes] : files)
    zip_file_add(archive, name.c_str(), zip_source_buffer(archive, bytes.data(), bytes.size(), 0),
                 0);
  ASSERT_EQ(zip_close(archive), 0);
}

TEST(SourceFiles, ReadsFoldersAndTheirArchives) {
  const test::TemporaryFolder folder;
  test::write_quickly(folder.at("a"), "plain");
  const std::map<std::string, std::string> packed{
      {"a", "packed"}, {"b/c", std::string(10000, 'x')}, {"empty", ""}};
  write_zip(folder.at("z.zip"), packed);
  const SourceFiles files(folder.path());
  EXPECT_EQ(files.read("a", 100), "plain");
  EXPECT_EQ(files.read("b/c", 10000), packed.at("b/c"));
  EXPECT_EQ(files.size("b/c"), 10000u);
  EXPECT_EQ(files.read("empty", 100), "");
  EXPECT_FALSE(files.has("b"));
  EXPECT_FALSE(files.has(""));
  EXPECT_FALSE(files.has("../" + file_name(folder.path()) + "/a"));
  EXPECT_FALSE(files.has(folder.at("a")));
  EXPECT_EQ(error_of([&] { files.read("none", 100); }).code(), Code::kNotFound);
  EXPECT_THAT(error_of([&] { files.read("b/c", 9999); }).message(),
              HasSubstr("has 10000 bytes, expected at most 9999"));
  EXPECT_EQ(SourceFiles(folder.at("z.zip")).read("a", 100), "packed");
}

TEST(SourceFiles, DamagedArchivesAreErrors) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { SourceFiles(folder.at("none")); }).code(), Code::kNotFound);
  test::write_quickly(folder.at("text.zip"), "no archive");
  EXPECT_THAT(error_of([&] { SourceFiles(folder.at("text.zip")); }).message(),
              HasSubstr("text.zip cannot be opened as a zip archive"));
  remove_file(folder.at("text.zip"));
  std::string content;
  std::mt19937 random;  // nothing to compress
  for (int i = 0; i < 3000; ++i) content += static_cast<char>(random());
  write_zip(folder.at("z.zip"), {{"a", content}});
  const std::string whole = read_file(folder.at("z.zip"));
  int refused = 0, changed = 0;
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    test::write_quickly(folder.at("z.zip"), damaged);
    try {
      const SourceFiles files(folder.at("z.zip"));
      changed += files.has("a") && files.read("a", 1 << 20) != content;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::kFormat) << error.message();
      ++refused;
    }
  }
  EXPECT_EQ(changed, 0);    // the checksum is looked at
  EXPECT_GT(refused, 400);  // of 440
}

// The real annotations and images, from the archive and unpacked.
TEST_F(CocoTest, CocoTiny) {
  if (!test::has_coco()) GTEST_SKIP() << test::coco_archive() << " is not there";
  ConvertOptions packed = options();
  packed.source = test::coco_archive();
  const auto manifest = coco_.convert(packed);
  EXPECT_EQ(manifest.classes(), 90);
  EXPECT_EQ(manifest.class_names(0), "person");
  EXPECT_EQ(manifest.class_names(89), "toothbrush");
  EXPECT_EQ(manifest.class_names(11), "");
  for (const std::string split : {"train", "val"}) {
    const data::CocoInstances file =
        data::parse_coco_instances(test::coco_annotations(split), split);
    const auto made = records(split);
    ASSERT_EQ(made.size(), 40u);
    for (size_t i = 0; i < made.size(); ++i) {
      const data::CocoImage& image = file.images[i];
      EXPECT_EQ(made[i].source_id, image.id);
      EXPECT_EQ(made[i].jpeg, test::coco_files().at(split + "2017/" + image.file_name));
      const auto objects = file.objects_of(i);
      ASSERT_EQ(made[i].objects.size(), objects.size());
      for (size_t k = 0; k < objects.size(); ++k) {
        const data::DetectionObject& object = made[i].objects[k];
        EXPECT_EQ(object.category, objects[k].category_id);
        EXPECT_EQ(object.crowd, objects[k].crowd);
        EXPECT_NEAR(object.xmax * static_cast<double>(image.width), objects[k].x + objects[k].width,
                    1e-4);
      }
    }
  }
  for (const auto& split : manifest.splits()) EXPECT_EQ(findings_of(split), Findings{});

  for (const auto& [name, bytes] : test::coco_files()) put(name, bytes);
  const auto unpacked = coco_.convert(options("unpacked"));
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(unpacked.splits(i).content_sha256(), manifest.splits(i).content_sha256());

  // Batches as a detector is trained on.
  const data::Transform transform =
      coco_.make_transform(manifest, R"({"size": [128, 256], "scale_jitter": [0.1, 2]})");
  data::Loader loader(data::open_split(folder_.at("set"), manifest, "train"), transform,
                      {.batch_size = 8, .epochs = 1});
  int64_t images = 0, boxes = 0;
  while (const data::Batch* batch = loader.next()) {
    EXPECT_EQ(batch->array("image").dims, (Dims{8, 128, 256, 3}));
    const auto* counts = batch->array("count").as<int32_t>();
    for (int i = 0; i < 8; ++i, ++images) boxes += counts[i];
  }
  EXPECT_EQ(images, 40);
  EXPECT_GT(boxes, 150);  // of 364, as far as the windows show them
}

}  // namespace
}  // namespace assay::datasets
