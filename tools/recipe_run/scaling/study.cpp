#include "tools/recipe_run/scaling/study.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

using Values = std::vector<const ScalingValue*>;
using Wanted = std::function<bool(const ScalingValue&)>;

Calibration fit(const Values& values, const Wanted& wanted) {
  std::vector<ScalingObservation> observations;
  for (const ScalingValue* v : values) {
    if (wanted(*v)) observations.push_back(v->observation);
  }
  return calibrate(values.front()->kind, observations);
}

std::vector<Values> groups_of(const PublishedScaling& published) {
  std::vector<Values> groups;
  for (const ScalingValue& value : published.values) {
    if (groups.empty() || groups.back().front()->group != value.group) groups.emplace_back();
    groups.back().push_back(&value);
  }
  return groups;
}

void study_single_node(const Values& values, ScalingStudy& study) {
  const auto on = [](const std::string& machine) {
    return [machine](const ScalingValue& v) { return v.machine == machine; };
  };
  const Calibration transferred = fit(values, on(kCalibrationMachine));
  for (const ScalingValue* v : values) {
    ScalingPrediction p;
    p.value = v;
    p.fitted = fit(values, on(v->machine)).predict(v->observation);
    // What one host can feed says nothing about another host.
    if (v->machine != kCalibrationMachine && v->kind != StackKind::kInputBound)
      p.held_out = transferred.predict(v->observation);
    study.single_node.push_back(p);
  }
}

// T_2n = T_n + 0.3 (T_n - T_n/2), from the values of the same series at fewer devices.
std::optional<double> rule_of_thumb(const Values& values, const ScalingValue& largest) {
  const auto step = [&](int devices) -> std::optional<double> {
    for (const ScalingValue* v : values) {
      if (v->title == largest.title && v->observation.fabric.devices == devices)
        return devices * v->observation.work.batch / v->observation.rate;
    }
    return std::nullopt;
  };
  const int devices = largest.observation.fabric.devices;
  const auto half = step(devices / 2);
  const auto quarter = step(devices / 4);
  if (!half || !quarter) return std::nullopt;
  return devices * largest.observation.work.batch / (*half + 0.3 * (*half - *quarter));
}

void study_cluster(const Values& values, ScalingStudy& study) {
  int most = 0;
  for (const ScalingValue* v : values) most = std::max(most, v->observation.fabric.devices);
  const auto is_largest = [most](const ScalingValue& v) {
    return v.observation.fabric.devices == most;
  };
  const Calibration all = fit(values, [](const ScalingValue&) { return true; });
  const Calibration smaller = fit(values, [&](const ScalingValue& v) { return !is_largest(v); });
  for (const ScalingValue* v : values) {
    if (!is_largest(*v)) continue;
    study.cluster.push_back({v, all.predict(v->observation), smaller.predict(v->observation),
                             rule_of_thumb(values, *v)});
  }
}

ScalingErrors errors_of(
    const std::vector<ScalingPrediction>& predictions,
    const std::function<std::optional<double>(const ScalingPrediction&)>& which) {
  ScalingErrors out;
  for (const ScalingPrediction& p : predictions) {
    const std::optional<double> predicted = which(p);
    if (!predicted) continue;
    const double error = p.error(*predicted);
    ++out.count;
    out.mean += std::abs(error);
    out.bias += error;
    out.worst = std::max(out.worst, std::abs(error));
  }
  if (out.count > 0) {
    out.mean /= out.count;
    out.bias /= out.count;
  }
  return out;
}

std::string percent(double fraction) { return signed_fixed(100 * fraction, 1) + " %"; }

// A prediction and its error; blanks without one.
std::string cells(const ScalingPrediction& p, const std::optional<double>& predicted) {
  if (!predicted) return pad_left("", 18);
  return pad_left(significant(*predicted, 5), 10) + pad_left(percent(p.error(*predicted)), 8);
}

std::string numbers(const ScalingPrediction& p) {
  const ScalingObservation& o = p.value->observation;
  std::string text = pad_left(std::to_string(o.fabric.devices), 4) +
                     pad_left(significant(o.rate, 5), 11) +
                     pad_left(fixed(o.rate / o.work.single_rate, 2), 7) + cells(p, p.fitted) +
                     cells(p, p.held_out) + cells(p, p.rule_of_thumb);
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

// Beside each title its numbers, or below it where that would not fit.
std::string table(const std::vector<ScalingPrediction>& predictions, bool thumb, int columns) {
  std::string heading = pad_left("N", 4) + pad_left("published", 11) + pad_left("×", 7) +
                        pad_left("fitted", 10) + pad_left("error", 8) + pad_left("held out", 10) +
                        pad_left("error", 8);
  if (thumb) heading += pad_left("thumb", 10) + pad_left("error", 8);
  int width = 0;
  for (const ScalingPrediction& p : predictions)
    width = std::max(width, display_width(p.value->title));
  const bool below = columns > 0 && width + display_width(heading) > columns;
  std::string text = pad_right("", below ? 0 : width) + heading + "\n";
  std::string title;
  for (const ScalingPrediction& p : predictions) {
    if (below && p.value->title != title) text += p.value->title + "\n";
    title = p.value->title;
    text += (below ? "" : pad_right(title, width)) + numbers(p) + "\n";
  }
  return text;
}

std::string summary(const std::string& what, const ScalingErrors& e) {
  return pad_right(what, 50) + std::to_string(e.count) + " values, mean " + fixed(100 * e.mean, 2) +
         " %, worst " + fixed(100 * e.worst, 1) + " %, bias " + percent(e.bias) + "\n";
}

}  // namespace

ScalingErrors ScalingStudy::errors_fitted(const std::vector<ScalingPrediction>& predictions) {
  return errors_of(predictions, [](const ScalingPrediction& p) { return p.fitted; });
}

ScalingErrors ScalingStudy::errors_held_out(const std::vector<ScalingPrediction>& predictions) {
  return errors_of(predictions, [](const ScalingPrediction& p) { return p.held_out; });
}

ScalingErrors ScalingStudy::errors_rule_of_thumb(
    const std::vector<ScalingPrediction>& predictions) {
  return errors_of(predictions, [](const ScalingPrediction& p) { return p.rule_of_thumb; });
}

ScalingStudy study_scaling(const PublishedScaling& published) {
  ScalingStudy study;
  for (const Values& values : groups_of(published)) {
    if (values.front()->kind == StackKind::kCluster) {
      study_cluster(values, study);
    } else {
      study_single_node(values, study);
    }
  }
  return study;
}

std::string study_text(const ScalingStudy& study, int columns) {
  return "Images or sequences per second on N devices, published and predicted\n\nOne node\n" +
         table(study.single_node, false, columns) + "\nFour nodes, 32 devices\n" +
         table(study.cluster, true, columns) + "\n" +
         summary("one node, fitted", ScalingStudy::errors_fitted(study.single_node)) +
         summary("one node, constants of DGX-1 on other machines",
                 ScalingStudy::errors_held_out(study.single_node)) +
         summary("32 devices, fitted", ScalingStudy::errors_fitted(study.cluster)) +
         summary("32 devices, constants from 8 and 16",
                 ScalingStudy::errors_held_out(study.cluster)) +
         summary("32 devices, T16 + 0.3 (T16 - T8)",
                 ScalingStudy::errors_rule_of_thumb(study.cluster));
}

}  // namespace reciperun
