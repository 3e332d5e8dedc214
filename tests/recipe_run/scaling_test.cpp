// The weak-scaling model: by hand, against the published tables, and on bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/scaling/forecast.h"
#include "tools/recipe_run/scaling/study.h"
#include "tools/recipe_run/verdict/projection.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;

const PublishedScaling& published() {
  static const PublishedScaling data =
      read_published_scaling(fs::path(ASSAY_SOURCE_DIR) / "recipes");
  return data;
}

TEST(CostModel, AllReduceTimes) {
  struct Row {
    double bytes;
    Fabric fabric;
    double ms;
  };
  const Fabric nvlink2{8, 1, 120};
  const Fabric nvlink3{8, 1, 240};
  const Fabric nvlink4{8, 1, 371};
  const Fabric one_edr{32, 4, 0.92 * 12};
  const Fabric eight_hdr{32, 4, 0.92 * 192};
  for (const Row& row :
       {Row{3.9e6 * 4, nvlink2, 0.28}, Row{3.9e6 * 4, nvlink3, 0.17}, Row{3.9e6 * 4, nvlink4, 0.13},
        Row{3.9e6 * 4, one_edr, 3.0}, Row{25.6e6 * 2, nvlink2, 0.80},
        Row{25.6e6 * 2, nvlink3, 0.43}, Row{25.6e6 * 2, one_edr, 9.2},
        Row{25.6e6 * 4, nvlink2, 1.55}, Row{25.6e6 * 4, one_edr, 18.2},
        Row{25.6e6 * 4, eight_hdr, 1.34}, Row{34.5e6 * 4, nvlink2, 2.1},
        Row{34.5e6 * 4, one_edr, 24.5}, Row{110e6 * 2, nvlink2, 3.3}, Row{110e6 * 2, nvlink4, 1.1},
        Row{110e6 * 4, nvlink3, 3.3}, Row{110e6 * 4, one_edr, 78},
        Row{110e6 * 4, eight_hdr, 5.1}}) {
    // Printed with two digits, and with one latency for all buckets together, of a ring throughout.
    const double latencies = 0.06 * std::ceil(row.bytes / 64e6);
    EXPECT_NEAR(all_reduce_ms(row.bytes, row.fabric), row.ms, 0.03 * row.ms + latencies) << row.ms;
  }
  EXPECT_EQ(all_reduce_ms(1e9, {1, 1, 0}), 0);
  EXPECT_THROW(all_reduce_ms(1e9, {2, 1, 0}), std::domain_error);
}

TEST(CostModel, TermsByHand) {
  DeviceWork work{10, 2, 100, 0};  // 100 ms per micro-batch, two of them
  CostConstants c;
  c.straggle = 0.01;
  c.host_ms = 1;
  c.item_ms = 0.1;
  c.sync_ms = 5;
  const Fabric fabric{8, 1, 100};
  // 2 (100 (1 + 0.03) + 3 + 1) + 5
  EXPECT_DOUBLE_EQ(step_ms(work, fabric, c), 219);
  EXPECT_DOUBLE_EQ(predicted_rate(work, fabric, c), 1000 * 8 * 10 * 2 / 219.0);
  c.per_doubling = false;
  EXPECT_DOUBLE_EQ(step_ms(work, fabric, c), 2 * (101 + 1 + 1) + 5.0);
  EXPECT_EQ(predicted_rate(work, {1, 1, 0}, c), 100);
  c.host_rate = 1;
  EXPECT_NEAR(predicted_rate(work, fabric, c), 1, 1e-3) << "the input decides";
  EXPECT_THROW(predicted_rate({1, 1, 0, 0}, fabric, c), std::domain_error);
}

TEST(CostModel, ExposureOfTheAllReduce) {
  const DeviceWork work{1, 1, 10, 128e6};  // 100 ms per step, two buckets
  const Fabric fabric{8, 1, 10};
  const double reduce = all_reduce_ms(128e6, fabric);
  EXPECT_EQ(exposed_ms(work, fabric, Exposure::kHidden, 0), 0);
  EXPECT_EQ(exposed_ms(work, fabric, Exposure::kGated, 1), reduce);
  EXPECT_NEAR(exposed_ms(work, fabric, Exposure::kPartial, 0.1), reduce - 0.1 * 200 / 3, 1e-9);
  EXPECT_NEAR(exposed_ms(work, fabric, Exposure::kPartial, 1), reduce / 2, 1e-9)
      << "the last bucket always shows";
}

// The predictions of the study that proposed the model, from its rounded constants: an independent
// implementation in another language.
TEST(CostModel, RoundedConstantsGiveThePrintedPredictions) {
  const std::vector<double> printed = {
      288,   747,  175,  296,  210,  404,  105,   142,   13439, 26679, 4164, 8271, 2727, 5404,
      10712, 762,  1514, 3005, 2917, 5704, 11162, 21851, 823,   1626,  3211, 6344, 2716, 1248,
      776,   647,  2221, 828,  1051, 268,  1295,  2581,  312,   623,   1350, 7538, 711,  4208,
      656,   3489, 189,  919,  752,  1503, 3926,  7848,  212,   425,   1009, 2018};
  // κ, λ, c_item, c_sync full, c_sync reduced, R_host
  const std::map<std::string, std::array<double, 6>> constants = {
      {"unet_medical dgx-a100", {0, 0, 0.97, 10.1, 10.1, 0}},
      {"unet_medical dgx-1", {0, 0, 1.87, 8.8, 8.8, 0}},
      {"resnet50_v15 dgx-a100", {0.0068, 0.11, 0, 0, 0, 0}},
      {"resnet50_v15 dgx-1", {0.0051, 0.57, 0, 0, 0, 0}},
      {"resnet50_v15 dgx-2", {0, 4.0, 0, 0, 0, 0}},
      {"efficientdet_d0 dgx-a100", {0.008, 0, 0, 0, 0, 4360}},
      {"efficientdet_d0 dgx-1", {0.008, 0, 0, 0, 0, 810}},
      {"electra_base/squad dgx-a100", {0, 0, 0, 6.5, 12.6, 0}},
      {"electra_base/squad dgx-1", {0, 0, 0, 3.5, 14.5, 0}},
      {"electra_base/squad dgx-2", {0, 0, 0, 3.1, 8.5, 0}},
      {"electra_base/pretraining dgx-a100", {0.013, 0, 0, 0, 0, 0}},
      {"electra_base/pretraining dgx-1", {0, 3.5, 0, 0, 0, 0}},
      {"electra_base/pretraining dgx-2", {0.011, 2.7, 0, 0, 0, 0}}};
  size_t next = 0;
  for (const ScalingValue& value : published().values) {
    if (value.kind == StackKind::kCluster) continue;
    ASSERT_LT(next, printed.size());
    const auto& k = constants.at(value.group + " " + value.machine);
    Calibration c = calibrate(value.kind, std::vector{value.observation});  // for the kind's form
    c.constants.straggle = k[0];
    c.constants.host_ms = k[1];
    c.constants.item_ms = k[2];
    c.constants.sync_ms = k[3];
    c.reduced_sync_ms = k[4];
    c.constants.host_rate = k[5];
    const double rate = c.predict(value.observation);
    EXPECT_NEAR(rate, printed[next], 0.005 * printed[next] + 0.5) << value.title;
    ++next;
  }
  EXPECT_EQ(next, printed.size());
}

TEST(Calibration, FindsTheConstantsThatMadeTheData) {
  CostConstants truth;
  truth.straggle = 0.01;
  truth.host_ms = 0.5;
  std::vector<ScalingObservation> observations;
  for (const int devices : {2, 4, 8, 16}) {
    for (const double rate : {1000.0, 4000.0}) {
      ScalingObservation o{{128, 1, rate, 1e8}, {devices, 1, 120}, false, 0};
      o.rate = predicted_rate(o.work, o.fabric, truth);
      observations.push_back(o);
    }
  }
  const Calibration c = calibrate(StackKind::kOverlapped, observations);
  EXPECT_NEAR(c.constants.straggle, truth.straggle, 1e-9);
  EXPECT_NEAR(c.constants.host_ms, truth.host_ms, 1e-6);
  EXPECT_THROW(calibrate(StackKind::kGated, {}), std::domain_error);
}

TEST(Calibration, ConstantsAreNeverBelowZero) {
  // Faster than linear: nothing can explain it, and nothing is invented.
  const ScalingObservation o{{128, 1, 100, 1e8}, {8, 1, 120}, false, 900};
  const Calibration c = calibrate(StackKind::kOverlapped, std::vector{o});
  EXPECT_EQ(c.constants.straggle, 0);
  EXPECT_EQ(c.constants.host_ms, 0);
}

TEST(ScalingStudy, AllPublishedValuesOfOneNode) {
  const ScalingStudy study = study_scaling(published());
  const ScalingErrors fitted = ScalingStudy::errors_fitted(study.single_node);
  EXPECT_EQ(fitted.count, 54);
  EXPECT_LE(fitted.mean, 0.0057);
  EXPECT_LE(fitted.worst, 0.032);
}

// The constants of DGX-1 alone, on machines they never saw.
TEST(ScalingStudy, HeldOutMachines) {
  const ScalingStudy study = study_scaling(published());
  for (const ScalingPrediction& p : study.single_node) {
    const bool seen = p.value->machine == kCalibrationMachine;
    EXPECT_FALSE(seen && p.held_out.has_value()) << p.value->title;
  }
  const ScalingErrors held_out = ScalingStudy::errors_held_out(study.single_node);
  EXPECT_EQ(held_out.count, 34);
  EXPECT_LE(held_out.mean, 0.02);
  EXPECT_LE(held_out.worst, 0.08);
}

// The held-out predictions must not move when the held-out values do.
TEST(ScalingStudy, TheSplitIsHonest) {
  PublishedScaling altered = published();
  for (ScalingValue& value : altered.values) {
    const bool is_seen = value.kind == StackKind::kCluster ? value.observation.fabric.devices < 32
                                                           : value.machine == kCalibrationMachine;
    if (!is_seen) value.observation.rate *= 0.7;
  }
  const ScalingStudy before = study_scaling(published());
  const ScalingStudy after = study_scaling(altered);
  for (size_t i = 0; i < before.single_node.size(); ++i)
    EXPECT_EQ(before.single_node[i].held_out, after.single_node[i].held_out);
  for (size_t i = 0; i < before.cluster.size(); ++i)
    EXPECT_EQ(before.cluster[i].held_out, after.cluster[i].held_out);
}

TEST(ScalingStudy, ClustersOfFourNodes) {
  const ScalingStudy study = study_scaling(published());
  const ScalingErrors fitted = ScalingStudy::errors_fitted(study.cluster);
  EXPECT_EQ(fitted.count, 39);
  EXPECT_LE(fitted.mean, 0.030);
  EXPECT_LE(fitted.worst, 0.11);
  const ScalingErrors held_out = ScalingStudy::errors_held_out(study.cluster);
  EXPECT_LE(held_out.mean, 0.055);
  EXPECT_LE(held_out.worst, 0.18);
  EXPECT_NEAR(ScalingStudy::errors_rule_of_thumb(study.cluster).mean, 0.033, 0.001);
}

TEST(ScalingStudy, Text) {
  const std::string text = study_text(study_scaling(published()));
  EXPECT_THAT(text, HasSubstr("ResNet-50, DGX-2, AMP, batch 256"));
  EXPECT_THAT(text, HasSubstr("34 values, mean 1.8"));
}

Calibration calibration(const std::string& group, const std::string& machine) {
  std::vector<ScalingObservation> observations;
  StackKind kind{};
  for (const ScalingValue& v : published().values) {
    if (v.group != group || v.machine != machine) continue;
    kind = v.kind;
    observations.push_back(v.observation);
  }
  return calibrate(kind, observations);
}

// The published times of 48 DGX A100 (384 devices): phases of 10,000 and 933 steps. Their wait of
// 160 ms is what the slow end was set from, so this checks the form, not a prediction.
TEST(Forecast, BracketsThePublishedLargeRuns) {
  const ScalingMachine& machine = published().machine("dgx-a100");
  const Calibration stack = calibration("electra_base/pretraining", "dgx-a100");
  const auto hours = [&](DeviceWork phase1, DeviceWork phase2, bool reduced, bool slow) {
    const auto rate = [&](const DeviceWork& work) {
      const ScalingForecast f = forecast(work, machine, 384, stack, reduced);
      return slow ? f.interval.lower : f.interval.upper;
    };
    return project_time({{10000.0 * 67584, rate(phase1), {rate(phase1), rate(phase1)}},
                         {933.0 * 27648, rate(phase2), {rate(phase2), rate(phase2)}}},
                        {})
               .seconds /
           3600;
  };
  const DeviceWork amp1{176, 1, 955, 5e8};
  const DeviceWork amp2{24, 3, 171, 5e8};
  EXPECT_GT(1.126, hours(amp1, amp2, true, false));
  EXPECT_LT(1.126, hours(amp1, amp2, true, true));
  const DeviceWork tf1{88, 2, 533, 5e8};
  const DeviceWork tf2{12, 6, 90, 5e8};
  EXPECT_GT(1.61, hours(tf1, tf2, false, false));
  EXPECT_LT(1.61, hours(tf1, tf2, false, true));
}

// From one device alone, with the stack's constants of one machine.
TEST(Forecast, IntervalsHoldThePublishedSingleNodeValues) {
  int inside = 0;
  int count = 0;
  for (const ScalingValue& v : published().values) {
    if (v.kind == StackKind::kCluster) continue;
    const ScalingForecast f =
        forecast(v.observation.work, published().machine(v.machine), v.observation.fabric.devices,
                 calibration(v.group, v.machine), v.observation.reduced_precision);
    EXPECT_LE(f.interval.lower, f.interval.upper);
    inside += f.interval.contains(v.observation.rate) ? 1 : 0;
    ++count;
  }
  EXPECT_GE(inside, count - 2) << "2.01 times on two devices is beyond linear";
}

TEST(Forecast, GrowsAndNeverBeatsLinear) {
  const ScalingMachine& machine = published().machine("dgx-1");
  const Calibration stack = calibration("resnet50_v15", "dgx-1");
  const DeviceWork work{192, 1, 1376, 51e6};
  double last = 0;
  for (int devices = 8; devices <= 4096; devices *= 2) {
    const ScalingForecast f = forecast(work, machine, devices, stack, true);
    EXPECT_GT(f.interval.lower, last) << devices;
    EXPECT_LE(f.interval.upper, 1376.0 * devices);
    EXPECT_EQ(f.nodes, devices / 8);
    last = f.interval.lower;
  }
  EXPECT_NEAR(own_stack_rate(100, 8), 800 / 1.015, 1e-9);
  EXPECT_THAT(forecast_text(published(), 64), HasSubstr("ResNet-50, DGX-1, AMP, batch 192"));
}

class BadScalingFile : public ::testing::Test {
 protected:
  std::string problem(const std::string& text) {
    const fs::path root = fs::path(::testing::TempDir()) / "bad_scaling";
    write_file_atomic(root / "scaling.txtpb", text);
    write_file_atomic(root / "t.tsv", "table\tt\nGPUs\tThroughput\n1\t10\n8\t-\n");
    try {
      read_published_scaling(root);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), Exit::kUsage);
      return error.what();
    }
    return "no error";
  }
  const std::string machine_ =
      R"(machine { id: "m" title: "M" devices: 8 bus { devices: 8 gb_per_s: 1 } } )";
};

TEST_F(BadScalingFile, NamesThePlace) {
  EXPECT_THAT(problem("machine { nodes: 3 }"), HasSubstr("series.proto"));
  EXPECT_THAT(problem(R"(machine { id: "m" devices: 8 })"), HasSubstr("buses do not reach"));
  const auto series = [&](const std::string& inner) {
    return problem(machine_ +
                   R"(group { id: "g" title: "G" kind: GATED file: "t.tsv" series { title: "s" )" +
                   inner + " } }");
  };
  EXPECT_THAT(series(R"(machine: "m" table: "u")"), HasSubstr("has no table 'u'"));
  EXPECT_THAT(series(R"(machine: "n" table: "t")"), HasSubstr("machine 'n'"));
  EXPECT_THAT(series(R"(machine: "m" table: "t" column: "Speed")"), HasSubstr("no column 'Speed'"));
  EXPECT_THAT(series(R"(machine: "m" table: "t" column: "Throughput")"),
              HasSubstr("has no number 1"));
  EXPECT_THAT(
      series(
          R"(machine: "m" table: "t" column: "Throughput" where { column: "GPUs" equals: "8" })"),
      HasSubstr("no number 1"));
}

}  // namespace
}  // namespace reciperun
