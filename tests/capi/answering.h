// A model that answers questions, behind the C interface: BERT's span head or ELECTRA's joint one.
#pragma once

#include "tests/capi/support.h"

namespace assay::test {

class Answering {
 public:
  // `length`: tokens of a window.
  Answering(const assay_context* context, const assay_model* model, int64_t length)
      : context_(context) {
    const std::string config = R"({"sequence_length": )" + std::to_string(length) + "}";
    predictor_ = make<assay_predictor>(assay_predictor_create, model, text(config));
    slot_ = make<assay_slot>(assay_slot_create, predictor_.get());
    const auto described = report(assay_predictor_report, predictor_.get());
    out_.resize(static_cast<size_t>(at(described, "outputs").list_value().values_size()));
  }

  // The report on one question, whose windows are one batch.
  google::protobuf::Struct answer(const assay_text_question* question, std::string_view config) {
    int64_t windows = 0, length = 0;
    ok(assay_text_question_size, question, &windows, &length);
    const auto n = static_cast<size_t>(windows * length);
    std::vector<int32_t> ids(n), types(n), lengths(static_cast<size_t>(windows));
    for (int64_t w = 0; w < windows; ++w)
      ok(assay_text_question_read, question, w, &ids[static_cast<size_t>(w * length)],
         &types[static_cast<size_t>(w * length)], &lengths[static_cast<size_t>(w)]);
    run(ids, types, lengths, {windows, length});
    const auto floats = [&](size_t i) { return static_cast<const float*>(info_[i].data); };
    const auto integers = [&](size_t i) { return static_cast<const int32_t*>(info_[i].data); };
    google::protobuf::Struct answered;
    if (out_.size() == 2) {
      answered =
          report(assay_text_question_answer, question, floats(0), floats(1), n, text(config));
    } else {
      const int64_t beam = info_[0].shape[1];
      const assay_text_spans spans{.struct_size = sizeof spans,
                                   .windows = windows,
                                   .starts = beam,
                                   .ends = beam,
                                   .start = integers(0),
                                   .start_log_prob = floats(1),
                                   .end = integers(2),
                                   .end_log_prob = floats(3),
                                   .class_logit = out_.size() > 4 ? floats(4) : nullptr};
      answered = report(assay_text_question_answer_spans, question, &spans, text(config));
    }
    for (assay_tensor*& tensor : out_) assay_tensor_release(tensor), tensor = nullptr;
    return answered;
  }

 private:
  void run(std::vector<int32_t>& ids, std::vector<int32_t>& types, std::vector<int32_t>& lengths,
           std::array<int64_t, 2> shape) {
    const auto borrow = [&](std::vector<int32_t>& from, int32_t rank) {
      return make<assay_tensor>(assay_tensor_borrow, context_, static_cast<void*>(from.data()),
                                from.size() * sizeof(int32_t), ASSAY_I32, shape.data(), rank,
                                nullptr, uintptr_t{0});
    };
    const auto a = borrow(ids, 2), b = borrow(types, 2), c = borrow(lengths, 1);
    const assay_tensor* in[] = {a.get(), b.get(), c.get()};
    ok(assay_predictor_run, predictor_.get(), slot_.get(), +in, size_t{3}, out_.data(),
       out_.size());
    info_.assign(out_.size(), {.struct_size = sizeof(assay_tensor_info)});
    for (size_t i = 0; i < out_.size(); ++i) ok(assay_tensor_get_info, out_[i], &info_[i]);
  }

  const assay_context* context_;
  Owned<assay_predictor> predictor_;
  Owned<assay_slot> slot_;
  std::vector<assay_tensor*> out_;
  std::vector<assay_tensor_info> info_;
};

}  // namespace assay::test
