// What must never change: numbers, the rule of structs, the life of errors.
#include <thread>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

TEST(Abi, CodesAndNamesAreFrozen) {
  const std::pair<assay_status, std::string> frozen[] = {
      {0, "ok"},          {-1, "invalid"},   {-2, "unsupported"}, {-3, "oom_host"},
      {-4, "oom_device"}, {-5, "device"},    {-6, "io"},          {-7, "format"},
      {-8, "version"},    {-9, "not_found"}, {-10, "busy"},       {-11, "cancelled"},
      {-12, "timeout"},   {-13, "comm"},     {-14, "callback"},   {-15, "nondeterministic"},
      {-16, "poisoned"},  {-17, "internal"}, {-18, "nonfinite"},  {-19, "end_of_data"},
      {-20, "unknown"},   {1, "unknown"}};
  for (const auto& [code, name] : frozen) EXPECT_EQ(string(assay_status_name(code)), name);
  EXPECT_EQ(ASSAY_E_INVALID, -1);
  EXPECT_EQ(ASSAY_E_BUSY, -10);
  EXPECT_EQ(ASSAY_E_NONFINITE, -18);
  EXPECT_EQ(ASSAY_E_END_OF_DATA, -19);
}

TEST(Abi, ConstantsAreFrozen) {
  EXPECT_EQ(ASSAY_F32, 1);
  EXPECT_EQ(ASSAY_U8, 7);
  EXPECT_EQ(ASSAY_KIND_VALUE, 1);
  EXPECT_EQ(ASSAY_KIND_STATISTIC, 6);
  EXPECT_EQ(ASSAY_PRECISION_FP32, 1);
  EXPECT_EQ(ASSAY_PRECISION_AMP_BF16, 4);
  EXPECT_EQ(ASSAY_PART_TRAINER_STATE, 16);
  EXPECT_EQ(ASSAY_DOMAIN_HOST, 8);
  EXPECT_EQ(ASSAY_ERROR_CALLER, 4);
}

// Appending a field is fine; these are the offsets of ABI 1.0.
TEST(Abi, LayoutsAreFrozen) {
  EXPECT_EQ(offsetof(assay_error_info, message), 40u);
  EXPECT_EQ(offsetof(assay_error_info, hint), 120u);
  EXPECT_EQ(offsetof(assay_device_info, n_threads), 88u);
  EXPECT_EQ(offsetof(assay_host, log), 24u);
  EXPECT_EQ(offsetof(assay_context_options, mem_limit), 24u);
  EXPECT_EQ(offsetof(assay_context_options, determinism), 32u);
  EXPECT_EQ(offsetof(assay_mem_stats, blocks), 40u);
  EXPECT_EQ(offsetof(assay_tensor_info, flags), 56u);
  EXPECT_EQ(offsetof(assay_trainer_options, precision), 56u);
  EXPECT_EQ(offsetof(assay_step_info, flags), 80u);
  EXPECT_EQ(offsetof(assay_eval_info, seconds), 48u);
  EXPECT_EQ(offsetof(assay_batch_info, wait_seconds), 48u);
}

TEST(Abi, Versions) {
  EXPECT_EQ(assay_abi_version(), ASSAY_ABI_VERSION);
  EXPECT_EQ(assay_abi_version() >> 16, 1u);
  EXPECT_THAT(string(assay_version_string()), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

// ---- Structs ----

struct LongerOptions {
  assay_context_options known;
  uint64_t unknown;
};

assay_status create(const assay_context_options* options, assay_error** err) {
  assay_context* context = nullptr;
  const assay_status status = assay_context_create(options, nullptr, nullptr, 0, &context, err);
  EXPECT_EQ(status == ASSAY_OK, context != nullptr);
  assay_context_free(context);
  return status;
}

TEST(Structs, ShorterOnesOfOlderHeadersAreRead) {
  assay_context_options options{.struct_size = offsetof(assay_context_options, mem_limit)};
  options.mem_limit = 1;  // beyond the size: must not be read
  ok(create, &options);
}

TEST(Structs, LongerOnesMustBeZeroAtTheEnd) {
  LongerOptions options{};
  options.known.struct_size = sizeof options;
  ok(create, &options.known);
  options.unknown = uint64_t{1} << 40;  // the sixth byte
  EXPECT_THAT(fails(ASSAY_E_VERSION, create, &options.known),
              HasSubstr("offset " + std::to_string(sizeof(assay_context_options) + 5)));
}

TEST(Structs, ForgottenSizesAreRefused) {
  for (const size_t size : {size_t{0}, size_t{8}, sizeof(void*) + sizeof(size_t) - 1, SIZE_MAX}) {
    const assay_context_options options{.struct_size = size};
    EXPECT_THAT(fails(ASSAY_E_INVALID, create, &options), HasSubstr("struct_size"));
  }
}

TEST(Structs, UnknownExtensionsAreRefused) {
  const assay_ext extension{.id = 77, .struct_size = sizeof extension};
  assay_context_options options{.struct_size = sizeof options, .next = &extension};
  EXPECT_THAT(fails(ASSAY_E_VERSION, create, &options), HasSubstr("77"));
}

TEST(Structs, OutputsAreFilledUpToTheCallersSize) {
  const auto context = make_context();
  assay_mem_stats small;
  std::memset(static_cast<void*>(&small), 0x55, sizeof small);
  small.struct_size = offsetof(assay_mem_stats, limit);
  small.next = nullptr;
  ok(assay_context_mem_stats, context.get(), kCpu, &small);
  EXPECT_EQ(small.struct_size, offsetof(assay_mem_stats, limit));
  EXPECT_EQ(small.in_use, 0u);
  EXPECT_EQ(small.limit, 0x5555555555555555u);

  struct {
    assay_mem_stats known;
    uint64_t unknown;
  } large{};
  large.known.struct_size = sizeof large;
  large.unknown = 3;
  ok(assay_context_mem_stats, context.get(), kCpu, &large.known);
  EXPECT_EQ(large.unknown, 0u);
}

TEST(Structs, OutputsFollowTheRuleToo) {
  const auto context = make_context();
  assay_mem_stats stats{.struct_size = 3};
  fails(ASSAY_E_INVALID, assay_context_mem_stats, context.get(), kCpu, &stats);
  const assay_ext extension{.id = 5, .struct_size = sizeof extension};
  stats = {.struct_size = sizeof stats, .next = &extension};
  fails(ASSAY_E_VERSION, assay_context_mem_stats, context.get(), kCpu, &stats);
}

// ---- Errors ----

TEST(Errors, OutliveEverythingAndTravelBetweenThreads) {
  auto context = make_context();
  assay_error* error = nullptr;
  assay_model* model = nullptr;
  EXPECT_EQ(assay_model_named(context.get(), text("no-such-model"), text(""), &model, &error),
            ASSAY_E_NOT_FOUND);
  context.reset();
  std::thread([&] {
    assay_error_info info{.struct_size = sizeof info};
    EXPECT_EQ(assay_error_get(error, &info), ASSAY_OK);
    EXPECT_EQ(info.code, ASSAY_E_NOT_FOUND);
    EXPECT_EQ(info.flags, uint32_t{ASSAY_ERROR_CALLER});
    EXPECT_THAT(string(info.message), HasSubstr("no-such-model"));
    EXPECT_THAT(string(info.message), HasSubstr("cnn"));
    assay_error_free(error);
  }).join();
}

// support.h expects every text of an error to be one readable line.
TEST(Errors, RepeatWhatIsUnprintableInEscapes) {
  const auto context = make_context();
  assay_model* model = nullptr;
  const Outcome outcome =
      call(assay_model_named, context.get(), text({"a\n\0\xFF", 4}), text(""), &model);
  EXPECT_THAT(outcome.message, HasSubstr("\"a\\x0A\\x00\\xFF\""));
  EXPECT_EQ(outcome.actual, "a\\x0A\\x00\\xFF");
}

TEST(Errors, NobodyNeedsToTakeThem) {
  assay_context* context = reinterpret_cast<assay_context*>(8);
  const assay_device_id cuda{ASSAY_DEVICE_CUDA, 0};
  EXPECT_EQ(assay_context_create(nullptr, nullptr, &cuda, 1, &context, nullptr),
            ASSAY_E_UNSUPPORTED);
  EXPECT_EQ(context, nullptr);
  assay_error_free(nullptr);
}

TEST(Errors, BadUseOfErrorGet) {
  assay_error_info info{.struct_size = sizeof info};
  EXPECT_EQ(assay_error_get(nullptr, &info), ASSAY_E_INVALID);
  assay_error* error = nullptr;
  EXPECT_EQ(assay_model_list(nullptr, &error), ASSAY_E_INVALID);
  EXPECT_EQ(assay_error_get(error, nullptr), ASSAY_E_INVALID);
  info.struct_size = 1;
  EXPECT_EQ(assay_error_get(error, &info), ASSAY_E_INVALID);
  assay_error_free(error);
}

// ---- Devices and contexts ----

TEST(Devices, TheCpuIsFirstAndUnusableOnesSayWhy) {
  assay_device_info info{.struct_size = sizeof info};
  ok(assay_device_enum, size_t{0}, &info);
  EXPECT_EQ(info.id.kind, ASSAY_DEVICE_CPU);
  EXPECT_EQ(info.unavailable_reason.size, 0u);
  EXPECT_GT(info.name.size, 0u);
  EXPECT_GT(info.mem_total, info.mem_free);
  EXPECT_GE(info.n_threads, 1);
  size_t count = 1;
  while (call(assay_device_enum, count, &info).status == ASSAY_OK) {
    if (info.id.kind == ASSAY_DEVICE_CUDA && info.unavailable_reason.size > 0) {
      assay_context* context = nullptr;
      EXPECT_THAT(fails(ASSAY_E_UNSUPPORTED, assay_context_create, nullptr, nullptr, &info.id,
                        size_t{1}, &context),
                  HasSubstr(string(info.unavailable_reason)));
    }
    ++count;
  }
  fails(ASSAY_E_NOT_FOUND, assay_device_enum, count, &info);
}

TEST(Contexts, RefuseWhatTheyCannotDo) {
  assay_context* context = nullptr;
  const assay_device_id devices[] = {kCpu, {ASSAY_DEVICE_CPU, 1}, {9, 0}};
  fails(ASSAY_E_UNSUPPORTED, assay_context_create, nullptr, nullptr, devices, size_t{2}, &context);
  fails(ASSAY_E_INVALID, assay_context_create, nullptr, nullptr, devices + 1, size_t{1}, &context);
  fails(ASSAY_E_INVALID, assay_context_create, nullptr, nullptr, devices + 2, size_t{1}, &context);
  const assay_device_id* none = nullptr;
  fails(ASSAY_E_INVALID, assay_context_create, nullptr, nullptr, none, size_t{1}, &context);
  assay_context_options options{.struct_size = sizeof options, .n_threads = -1};
  fails(ASSAY_E_INVALID, assay_context_create, &options, nullptr, nullptr, size_t{0}, &context);
  options = {.struct_size = sizeof options, .log_level = 9};
  fails(ASSAY_E_INVALID, assay_context_create, &options, nullptr, nullptr, size_t{0}, &context);
  options = {.struct_size = sizeof options, .determinism = 3};
  EXPECT_THAT(fails(ASSAY_E_INVALID, create, &options), HasSubstr("determinism"));
  options = {.struct_size = sizeof options, .reserved = 1};
  EXPECT_THAT(fails(ASSAY_E_INVALID, create, &options), HasSubstr("reserved"));
}

TEST(Contexts, SayWhetherTheyAreDeterministic) {
  for (const int32_t determinism :
       {0, int32_t{ASSAY_DETERMINISM_ON}, int32_t{ASSAY_DETERMINISM_OFF}}) {
    const assay_context_options options{.struct_size = sizeof options, .determinism = determinism};
    const auto context =
        make<assay_context>(assay_context_create, &options, nullptr, &kCpu, size_t{1});
    const auto model = make<assay_model>(assay_model_named, context.get(), text("cnn"), text(""));
    const auto checked = report(assay_model_check, model.get(), kCpu, int32_t{ASSAY_MODE_PREDICT},
                                text(R"({"max_batch": 1})"));
    EXPECT_EQ(at(checked, "determinism").string_value(),
              determinism == ASSAY_DETERMINISM_OFF ? "off" : "run-to-run");
  }
}

TEST(Contexts, EnvironmentReport) {
  const assay_context_options options{.struct_size = sizeof options, .n_threads = 1};
  const auto context =
      make<assay_context>(assay_context_create, &options, nullptr, &kCpu, size_t{1});
  const auto environment = report(assay_env_report, context.get());
  EXPECT_EQ(at(environment, "library_version").string_value(), string(assay_version_string()));
  EXPECT_EQ(at(environment, "abi_version").string_value(), "1.0");
  EXPECT_EQ(number(at(environment, "device").struct_value(), "threads"), 1);
  EXPECT_THAT(at(at(environment, "device").struct_value(), "driver").string_value(),
              HasSubstr("oneDNN"));
}

TEST(Contexts, LogIsPerContextAndFiltered) {
  std::vector<std::string> lines;
  const assay_host host{
      .struct_size = sizeof host,
      .user = reinterpret_cast<uintptr_t>(&lines),
      .log = [](uintptr_t user, int32_t level, assay_str component, assay_str message) {
        reinterpret_cast<std::vector<std::string>*>(user)->push_back(
            std::to_string(level) + " " + string(component) + ": " + string(message));
      }};
  assay_context_options options{.struct_size = sizeof options, .log_level = ASSAY_LOG_DEBUG};
  make<assay_context>(assay_context_create, &options, &host, nullptr, size_t{0});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("4 context: "));
  options.log_level = 0;
  make<assay_context>(assay_context_create, &options, &host, nullptr, size_t{0});
  EXPECT_EQ(lines.size(), 1u);
}

}  // namespace
}  // namespace assay::test
