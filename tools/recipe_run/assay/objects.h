// What the C interface makes of a recipe: models, loaders, forward passes, and what its reports say
// of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/abi.h"
#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun::engine {

// The handles and calls that all tools share, under this folder's own names.
using assay::tools::call;
using assay::tools::Context;
using assay::tools::device_of;
using assay::tools::FoundObjects;
using assay::tools::Loader;
using assay::tools::made;
using assay::tools::Model;
using assay::tools::Predictor;
using assay::tools::report_of;
using assay::tools::Slot;
using assay::tools::string;
using assay::tools::Tensor;
using assay::tools::Text;
using assay::tools::text;
using assay::tools::TextQuestion;
using assay::tools::TextSquad;
using assay::tools::Trainer;
using google::protobuf::Struct;

// Of a report: the objects of a list, a text, an integer and a list of them (which reports print as
// text where they have 64 bits).
std::vector<Struct> objects_of(const Struct& report, const std::string& list);
const std::string& name_of(const Struct& object, const std::string& key = "name");
int64_t integer_of(const Struct& object, const std::string& key);
std::vector<int64_t> integers_of(const Struct& object, const std::string& key);

Model new_model(const assay_context* context, const v1::Recipe& recipe);
Struct model_report(const assay_model* model);
int64_t encoder_layers(const assay_model* model);  // 0 of a model that has none

// Fails (kUsage) if the first weights that the report tells of are not drawn as model.init says.
void check_init(const v1::Model& model, const Struct& report);

// The conversion that makes a data set: the one whose name it has, or begins with before an
// underscore ("bert_pretraining_128"); "" if there is none.
std::string conversion_of(const std::string& data_set);
// How the engine prepares the records of a data set: "images", "photographs", "micrographs",
// "objects", "masked_pairs", "sequences", "windows"; "" of one it does not know.
std::string prepared_as(const std::string& data_set);

fs::path folder_of(const v1::Recipe& recipe, const v1::DataRef& data);

Loader new_loader(const assay_context* context, const v1::Recipe& recipe, const v1::DataRef& data,
                  const LoaderConfig& config);
// Records of the split. Error kDataMismatch if the data set has no such split.
int64_t split_samples(const v1::Recipe& recipe, const v1::DataRef& data);
int64_t loader_samples(const assay_loader* loader);

// The tensors of a loader's last batch, which are the loader's.
class Batch {
 public:
  // Room for what its batches hold. A model may take only the first of it: the records know more
  // (SQuAD's windows, whether there is an answer; photographs with boxes, which image it is).
  explicit Batch(const assay_loader* loader, const assay_model* model = nullptr);

  void next(assay_loader* loader, assay_batch_info* info = nullptr);

  const assay_tensor* const* data() const { return tensors_.data(); }
  size_t size() const { return taken_; }  // what the model takes
  size_t whole_size() const { return tensors_.size(); }

 private:
  std::vector<const assay_tensor*> tensors_;
  size_t taken_;
};

// Fails if a split of the recipe is not there or does not hold as many samples as the recipe
// expects, and for a pipeline that this engine does not offer.
void check_data(const v1::Recipe& recipe);

// Fails (kDataMismatch) if data of text were made with more pieces than the model has rows for, or
// with special pieces at other places than its configuration says: it would mask the wrong words.
void check_vocabulary(const v1::Recipe& recipe, const Struct& model);

// The records of a trial's fold; none, which means all, without folds. Fails if the split does not
// hold as many samples as the recipe expects.
Share share_of(const v1::Recipe& recipe, const v1::DataRef& data, uint64_t fold);

// Where batches of training come from: a GPU takes images as bytes, where the pipeline allows it,
// and makes numbers of them itself.
struct Feeding {
  std::string transform;  // "": the recipe's whole pipeline
  std::string raw_images;
};
Feeding feeding_for(const v1::DataRef& data, bool on_gpu);
Loader new_training_loader(const assay_context* context, const v1::Recipe& recipe,
                           const Feeding& feeding, LoaderConfig config);

// The first rows of a batch's first tensors, in the loader's memory: valid as long as the batch.
std::vector<Tensor> first_rows(const assay_context* context, const Batch& batch, size_t tensors,
                               int64_t rows);

// Forward passes of a model with its present weights. The context must outlive them.
class Forward {
 public:
  Forward(const assay_model* model, const std::string& predictor_config);

  size_t inputs() const { return inputs_; }
  // Of one batch, which begins with the inputs. The results hold until the next run.
  std::vector<Tensor> run(const assay_tensor* const* batch);
  std::vector<Tensor> run(const std::vector<Tensor>& batch);

 private:
  Predictor predictor_;
  Slot slot_;
  size_t inputs_, outputs_;
};
assay_tensor_info info_of(const assay_tensor* tensor);
Tensor new_tensor(const assay_context* context, const std::vector<int64_t>& shape);  // f32, host

}  // namespace reciperun::engine
