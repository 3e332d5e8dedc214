// Every function of the headers, as tests/capi/declarations.py finds them there: with NULL, with
// structs of a wrong size or of a newer header, with handles that another thread has made, and
// while another thread is inside.
#include <array>
#include <atomic>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <tuple>

#include <assay/assay_comm.h>

#include "tests/capi/dlpack.h"
#include "tests/capi/support.h"

namespace assay::test {
namespace {

struct Parameter {
  std::string_view name;
  std::string_view null;  // "may": the header says that it may be NULL; "said": it speaks of NULL
};
struct Declared {
  std::string_view name;
  std::vector<Parameter> parameters;
  std::string_view threads;
  std::string_view errors;  // "ASSAY_E_BUSY ASSAY_E_IO "
};

// ---- Types of parameters ----

template <class T, class... Options>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Options> || ...);
template <class T>
inline constexpr bool kIsHandle =
    kIsOneOf<T, assay_context, assay_graph, assay_model, assay_trainer, assay_predictor, assay_slot,
             assay_tensor, assay_loader, assay_report, assay_text, assay_text_question,
             assay_text_squad, assay_detections, assay_comm>;
template <class T>
using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
template <class T>
concept Handle = std::is_pointer_v<T> && kIsHandle<Pointee<T>>;
template <class T>  // where a new handle comes to stand
concept Place =
    std::is_pointer_v<T> && Handle<Pointee<T>> && !std::is_const_v<std::remove_pointer_t<T>>;
template <class T>
concept Versioned = std::is_pointer_v<T> && requires(T pointer) {
  pointer->struct_size;
  pointer->next;
};
template <class T>
concept Function = std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>;

constexpr int64_t kElements = 4;

// ---- One handle of each kind, fit to be called with ----

class Handles {
 public:
  Handles() {
    std::string pixels("\0\0\x08\x03\0\0\0\4\0\0\0\x1c\0\0\0\x1c", 16),
        classes("\0\0\x08\x01\0\0\0\4", 8);
    pixels.append(4 * 28 * 28, '\7');
    classes.append(4, '\1');
    std::filesystem::create_directory(folder.at("source"));
    for (const std::string prefix : {"source/train", "source/t10k"}) {
      std::ofstream(folder.at(prefix + "-images-idx3-ubyte")) << pixels;
      std::ofstream(folder.at(prefix + "-labels-idx1-ubyte")) << classes;
    }
    std::ofstream(folder.at("squad.json")) << R"({"version": "v2.0", "data": [{"paragraphs": [
        {"context": "a b", "qas": [{"id": "1", "question": "a", "is_impossible": true, "answers": []}]}]}]})";
    ok(assay_dataset_convert, context.get(), text("fashion_mnist"), text(folder.at("source")),
       text(folder.at("data")), text(""), nullptr, 0, nullptr);
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kBatch, .seed = 5, .learning_rate = 0.05};
    hold(make<assay_model>(assay_model_named, context.get(), text("cnn"), text(kSmallCnn)));
    hold(make<assay_trainer>(assay_trainer_create, get<assay_model>(), &options, text(kSgd)));
    hold(make<assay_predictor>(assay_predictor_create, get<assay_model>(), text("")));
    hold(make<assay_slot>(assay_slot_create, get<assay_predictor>()));
    hold(make<assay_loader>(assay_loader_create, context.get(), text(folder.at("data")),
                            text("train"), text(R"({"batch_size": 2, "workers": 1, "epochs": 1})"),
                            text("")));
    hold(make<assay_graph>(assay_graph_create, context.get(), text("mine")));
    hold(make<assay_text>(assay_text_parse, text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"),
                          text("")));
    hold(make<assay_text_question>(
        assay_text_question_create, get<assay_text>(), text("a"), text("b"),
        text(R"({"sequence_length": 8, "stride": 2, "max_question": 2})")));
    hold(make<assay_text_squad>(assay_text_squad_open, text(folder.at("squad.json"))));
    hold(make<assay_detections>(assay_detections_create));
    hold(make<assay_report>(assay_model_list));
    const int64_t shape[] = {kElements};
    hold(make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 1));
    assay_comm_id id{};
    ok(assay_comm_new_id, text("local"), &id);
    ok(assay_comm_create, context.get(), &id, 0, 1, int64_t{60} * 1000 * 1000 * 1000, &comm_);
  }
  ~Handles() { assay_comm_free(comm_); }

  // Leaves them in states in which little can be done: the graph is finished, the channel given up,
  // the loader at its end, the model without weights.
  void spend() {
    assay_graph* const graph = get<assay_graph>();
    assay_value point, label, scores, loss;
    ok(assay_graph_input, graph, text("point"), text(R"({"shape": [2]})"), &point);
    ok(assay_graph_input, graph, text("label"),
       text(R"({"dtype": "i32", "label": true, "range": [0, 2]})"), &label);
    ok(assay_graph_layer, graph, text("linear"), text("head"), text(R"({"features": 2})"),
       static_cast<const assay_value*>(&point), size_t{1}, &scores, size_t{1});
    const assay_value both[] = {scores, label};
    ok(assay_graph_layer, graph, text("softmax_cross_entropy"), text("loss"), text(""), +both,
       size_t{2}, &loss, size_t{1});
    ok(assay_graph_output, graph, text("loss"), loss, assay_value{0}, text(""));
    ok(assay_graph_output, graph, text("scores"), scores, assay_value{0}, text(""));
    hold(make<assay_model>(assay_graph_finish, graph));
    ok(assay_comm_abort, comm_);
    const assay_tensor* batch_of_loader[2];
    ok(assay_loader_seek, get<assay_loader>(), int64_t{0});
    while (
        call(assay_loader_next, get<assay_loader>(), +batch_of_loader, size_t{2}, nullptr).status ==
        ASSAY_OK) {
    }
  }

  template <class T>
  T* get() {
    if constexpr (std::is_same_v<T, assay_context>)
      return context.get();
    else if constexpr (std::is_same_v<T, assay_comm>)
      return comm_;
    else
      return std::get<Owned<T>>(held_).get();
  }

  TemporaryFolder folder;
  Owned<assay_context> context = make_context();
  SmallBatch batch{context.get()};

 private:
  template <class T>
  void hold(Owned<T> handle) {
    std::get<Owned<T>>(held_) = std::move(handle);
  }

  std::tuple<Owned<assay_model>, Owned<assay_trainer>, Owned<assay_predictor>, Owned<assay_slot>,
             Owned<assay_loader>, Owned<assay_graph>, Owned<assay_text>, Owned<assay_text_question>,
             Owned<assay_text_squad>, Owned<assay_detections>, Owned<assay_report>,
             Owned<assay_tensor>>
      held_;
  assay_comm* comm_ = nullptr;
};

// ---- One call ----

enum class Fault { kNone, kNull, kSmall, kUnset, kExtension, kNewer };

constexpr size_t kNowhere = size_t(-1);

// Calls with arguments of which one may be wrong, and looks at what a failure left.
class Caller {
 public:
  explicit Caller(Handles& handles) : handles_(handles) {}

  template <class... P>
  Outcome operator()(const Declared& declared, assay_status (*f)(P...), size_t wrong = kNowhere,
                     Fault fault = Fault::kNone) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      declared_ = &declared, wrong_ = wrong, fault_ = fault;
      Outcome outcome = call(f, argument<std::tuple_element_t<I, std::tuple<P...>>>(I)...);
      (look_after<std::tuple_element_t<I, std::tuple<P...>>>(I, outcome), ...);
      return outcome;
    }
    (std::make_index_sequence<sizeof...(P) - 1>());
  }

 private:
  template <class T>
  T argument(size_t i) {
    const Fault fault = i == wrong_ ? fault_ : Fault::kNone;
    if constexpr (std::is_pointer_v<T>) {
      if (fault == Fault::kNull) return nullptr;
    }
    if constexpr (Function<T>) {
      return nullptr;
    } else if constexpr (Handle<T>) {
      return handles_.get<Pointee<T>>();
    } else if constexpr (std::is_same_v<T, const assay_tensor* const*>) {
      return handles_.batch.tensors();
    } else if constexpr (Place<T>) {
      std::memset(memory_[i], 0, sizeof memory_[i]);  // tensors are also taken as they are
      if (!std::is_same_v<Pointee<Pointee<T>>, assay_tensor>)
        std::memset(memory_[i], 0x5a, sizeof(void*));
      return reinterpret_cast<T>(memory_[i]);
    } else if constexpr (Versioned<T>) {
      using S = Pointee<T>;
      std::memset(memory_[i], 0, sizeof memory_[i]);
      auto* value = reinterpret_cast<S*>(memory_[i]);
      value->struct_size = fault == Fault::kSmall ? 2 : fault == Fault::kUnset ? 0 : sizeof(S);
      if (fault == Fault::kExtension) value->next = &extension_;
      if (fault == Fault::kNewer) value->struct_size += 8, memory_[i][sizeof(S) + 3] = 1;
      return value;
    } else if constexpr (std::is_pointer_v<T>) {
      std::memset(memory_[i], 0, sizeof memory_[i]);
      return reinterpret_cast<T>(memory_[i]);
    } else if constexpr (std::is_same_v<T, assay_str>) {
      const std::string_view name = declared_->parameters[i].name;
      return text(name.ends_with("_json") ? "" : name == "kind" ? "local" : "x");
    } else if constexpr (std::is_same_v<T, assay_device_id>) {
      return kCpu;
    } else {
      const std::string_view name = declared_->parameters[i].name;
      if (name == "n" && declared_->name == "assay_text_question_answer") return static_cast<T>(8);
      if (name == "bytes") return static_cast<T>(sizeof(float) * kElements);  // of the tensor
      return static_cast<T>(name == "window" || name == "index" ? 0 : 1);  // of which there is one
    }
  }

  // A place of a new handle is empty after a failure; what came there is given up.
  template <class T>
  void look_after(size_t i, const Outcome& outcome) {
    if constexpr (Place<T> && !std::is_const_v<std::remove_pointer_t<Pointee<T>>>) {
      if (i == wrong_ && fault_ == Fault::kNull) return;
      auto* handle = *reinterpret_cast<T>(memory_[i]);
      if (outcome.status != ASSAY_OK) {
        EXPECT_EQ(static_cast<void*>(handle), nullptr)
            << "parameter " << i << ": " << outcome.message;
      } else if constexpr (std::is_same_v<Pointee<Pointee<T>>, assay_comm>) {
        assay_comm_free(handle);
      } else {
        Free()(handle);
      }
    } else if constexpr (std::is_same_v<T, DLManagedTensorVersioned**>) {
      if (outcome.status != ASSAY_OK) return;
      DLManagedTensorVersioned* const given = *reinterpret_cast<T>(memory_[i]);
      given->deleter(given);
    }
  }

  Handles& handles_;
  const Declared* declared_ = nullptr;
  size_t wrong_ = kNowhere;
  Fault fault_ = Fault::kNone;
  assay_ext extension_{.id = 77, .struct_size = sizeof(assay_ext)};
  alignas(64) unsigned char memory_[12][1024];
};

class EveryFunction : public testing::Test {
 protected:
  EveryFunction() { std::filesystem::current_path(handles->folder.at("")); }
  ~EveryFunction() override { std::filesystem::current_path(before); }

  // Handles are made, used and freed on threads of their own: none is tied to the one that made it.
  struct OnThreads {
    OnThreads() {
      std::thread([this] { handles.emplace(); }).join();
    }
    ~OnThreads() {
      std::thread([this] { handles.reset(); }).join();
    }
    Handles* operator->() { return &*handles; }
    std::optional<Handles> handles;
  };

  std::filesystem::path before = std::filesystem::current_path();
  OnThreads handles;
  Caller call_with{*handles.handles};
};

// What is done with each function; `check(declared, function)` is called for all of them.
template <class Each>
struct Check {
  template <class R, class... P>
  void operator()(const Declared& declared, R (*function)(P...)) {
    SCOPED_TRACE(declared.name);
    ASSERT_EQ(declared.parameters.size(), sizeof...(P));
    ++functions;
    using All = std::tuple<P..., void>;
    if constexpr (std::is_same_v<R, assay_status> && sizeof...(P) > 1) {
      if constexpr (std::is_same_v<std::tuple_element_t<sizeof...(P) - 1, All>, assay_error**>) {
        [&]<size_t... I>(std::index_sequence<I...>) {
          (each.template parameter<std::tuple_element_t<I, All>>(declared, function, I), ...);
        }
        (std::make_index_sequence<sizeof...(P) - 1>());
      }
    } else if constexpr (sizeof...(P) == 1) {
      each.alone(function);
    }
  }
  Each& each;
  int functions = 0;
};
template <class Each>
int every_function(Each& each) {
  Check<Each> check{each};
#include "every_function.inc"
  return check.functions;
}

struct NullIsRefused {
  template <class T, class F>
  void parameter(const Declared& declared, F function, size_t i) {
    if constexpr (std::is_pointer_v<T>) {
      const Parameter& parameter = declared.parameters[i];
      const Outcome outcome = call_with(declared, function, i, Fault::kNull);
      const bool refused = outcome.status == ASSAY_E_INVALID && outcome.argument == parameter.name;
      if (Handle<T> || parameter.null.empty()) {
        EXPECT_TRUE(refused) << parameter.name << ": " << outcome.message;
        EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_CALLER}) << parameter.name;
      } else if (parameter.null == "may") {
        EXPECT_FALSE(refused) << parameter.name << ": " << outcome.message;
      }
      EXPECT_NE(outcome.status, ASSAY_E_INTERNAL) << parameter.name << ": " << outcome.message;
      ++calls;
    }
  }
  // Frees accept NULL, and so does what returns no status; the others say that it is invalid.
  template <class R, class T>
  void alone(R (*function)(T*)) {
    ++calls;
    if constexpr (std::is_same_v<R, assay_status>) {
      EXPECT_EQ(function(nullptr), ASSAY_E_INVALID);
    } else {
      function(nullptr);
    }
  }
  void alone(assay_str (*)(assay_status)) {}

  Caller& call_with;
  int calls = 0;
};

struct StructsAreChecked {
  template <class T, class F>
  void parameter(const Declared& declared, F function, size_t i) {
    if constexpr (Versioned<T>) {
      const std::string_view name = declared.parameters[i].name;
      for (const Fault fault : {Fault::kSmall, Fault::kUnset}) {
        const Outcome outcome = call_with(declared, function, i, fault);
        EXPECT_EQ(outcome.status, ASSAY_E_INVALID) << outcome.message;
        EXPECT_EQ(outcome.argument, name) << outcome.message;
        EXPECT_EQ(outcome.expected, "sizeof the struct");
      }
      EXPECT_THAT(
          call_with(declared, function, i, Fault::kExtension),
          testing::AllOf(testing::Field(&Outcome::status, ASSAY_E_VERSION),
                         testing::Field(&Outcome::message, testing::HasSubstr("extension 77"))));
      if (std::is_const_v<std::remove_pointer_t<T>>) {  // what is written has no unknown fields
        EXPECT_THAT(
            call_with(declared, function, i, Fault::kNewer),
            testing::AllOf(testing::Field(&Outcome::status, ASSAY_E_VERSION),
                           testing::Field(&Outcome::message, testing::HasSubstr("newer header"))));
      }
      ++structs;
    }
  }
  template <class F>
  void alone(F) {}

  Caller& call_with;
  int structs = 0;
};

// Whatever the state of the handles is, the answer is one that the header names.
struct ErrorsAreNamed {
  template <class T, class F>
  void parameter(const Declared& declared, F function, size_t i) {
    if (i != 0) return;
    const Outcome outcome = call_with(declared, function);
    if (outcome.status == ASSAY_OK) return;
    std::string code = "ASSAY_E_" + string(assay_status_name(outcome.status)) + " ";
    std::ranges::transform(code, code.begin(), [](unsigned char c) { return std::toupper(c); });
    EXPECT_NE(declared.errors.find(code), std::string_view::npos) << code << outcome.message;
    EXPECT_FALSE(outcome.message.empty());
    if (std::is_same_v<T, assay_graph*>) {  // it is finished
      EXPECT_EQ(outcome.status, ASSAY_E_INVALID) << outcome.message;
      ++refused;
    }
  }
  template <class F>
  void alone(F) {}

  Caller& call_with;
  int refused = 0;
};

// While other calls hold the trainer and its model, the slot, or whatever else is used alone.
struct OthersAreKeptOut {
  template <class T, class F>
  void parameter(const Declared& declared, F function, size_t i) {
    if constexpr (Handle<T>) {
      if (declared.threads.find("alone") == std::string_view::npos) return;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      Outcome outcome;
      do {
        outcome = call_with(declared, function);
      } while (outcome.status != ASSAY_E_BUSY && std::chrono::steady_clock::now() < deadline);
      EXPECT_EQ(outcome.status, ASSAY_E_BUSY) << i << ": " << outcome.message;
      EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_RETRY});
      ++calls;
    }
  }
  template <class F>
  void alone(F) {}

  Caller& call_with;
  int calls = 0;
};

TEST_F(EveryFunction, RefusesNullUnlessTheHeaderAllowsIt) {
  NullIsRefused each{call_with};
  EXPECT_GE(every_function(each), 100);
  EXPECT_GE(each.calls, 190);
  assay_step_info info{.struct_size = sizeof info};  // all of that has changed nothing
  ok(assay_trainer_step, handles->get<assay_trainer>(), handles->batch.tensors(), size_t{2}, &info);
}

TEST_F(EveryFunction, RefusesStructsOfAnotherSizeOrVersion) {
  StructsAreChecked each{call_with};
  every_function(each);
  EXPECT_GE(each.structs, 12);
}

TEST_F(EveryFunction, NamesItsErrorsWhenLittleCanBeDone) {
  handles->spend();
  ErrorsAreNamed each{call_with};
  every_function(each);
  EXPECT_GE(each.refused, 4);
}

TEST_F(EveryFunction, RefusesToMeetAnother) {
  std::atomic<bool> over = false;
  const auto hold = [&](auto use) {
    return std::thread([&over, use] {
      while (!over) {
        assay_report* report = nullptr;
        use(&report);
        assay_report_free(report);
      }
    });
  };
  std::array holders{
      hold([&](assay_report** out) {
        assay_trainer_profile(handles->get<assay_trainer>(), 100, out, nullptr);
      }),
      hold([&](assay_report** out) {
        assay_slot_profile(handles->get<assay_slot>(), 64, 100, out, nullptr);
      }),
      hold([&](auto) { assay_loader_seek(handles->get<assay_loader>(), 0, nullptr); }),
      hold([&](assay_report** out) {
        assay_graph_report(handles->get<assay_graph>(), out, nullptr);
      }),
      hold([&](auto) {
        assay_text_squad_save(handles->get<assay_text_squad>(), text("answers.json"), nullptr);
      }),
      hold([&](auto) {
        assay_detections_save(handles->get<assay_detections>(), text("boxes.json"), nullptr);
      }),
      hold([&](auto) {
        float elements[kElements];
        assay_tensor_read(handles->get<assay_tensor>(), elements, sizeof elements, nullptr);
      })};
  OthersAreKeptOut each{call_with};
  every_function(each);
  EXPECT_GE(each.calls, 30);
  over = true;
  for (std::thread& holder : holders) holder.join();
}

}  // namespace
}  // namespace assay::test
