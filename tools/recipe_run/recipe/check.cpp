// What a resolved recipe must satisfy beyond its syntax (load.h): known words, ranges of numbers,
// references between its parts.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

class Checker {
 public:
  explicit Checker(const ResolvedRecipe& resolved)
      : resolved_(resolved), recipe_(resolved.recipe) {}

  void run() const {
    for (const std::string& path : recipe_.free_override()) {
      const std::string problem = path_problem(*v1::Recipe::descriptor(), path);
      need(problem.empty(), "free_override", fmt::format("'{}': {}", path, problem));
    }
    if (recipe_.abstract()) return;
    check_execution();
    check_data();
    check_trials();
    for (const v1::Bench& bench : recipe_.bench()) check_bench(bench, "bench." + bench.id());
    for (const v1::Expect& expect : recipe_.expect())
      check_expectation(expect, "expect." + expect.id());
  }

 private:
  // Raises unless `ok`; the message starts with the place that set `path`.
  void need(bool ok, const std::string& path, const std::string& what,
            const std::string& hint = {}) const {
    if (!ok) throw Error(Exit::kUsage, resolved_.place_of(path) + path + ": " + what, hint);
  }

  // `word` is one of `known`, or empty.
  void need_known(const std::string& word, const std::vector<std::string>& known,
                  const std::string& path) const {
    if (word.empty() || std::find(known.begin(), known.end(), word) != known.end()) return;
    const std::string similar = closest(word, known);
    need(false, path, "'" + word + "' is unknown",
         similar.empty() ? "one of: " + join(known, ", ") : "did you mean '" + similar + "'?");
  }

  void check_execution() const {
    need(!recipe_.model().arch().empty(), "model.arch", "not set", "name a model of the engine");
    if (recipe_.training().phase().empty()) check_training(recipe_.training(), "training");
    for (const v1::Phase& phase : recipe_.training().phase()) {
      const std::string path = "training.phase." + phase.name();
      check_training(phase.training(), path + ".training");
      need(phase_data(recipe_, phase) != nullptr, path + ".data",
           "there is no data '" + phase.data() + "'");
    }
    need(recipe_.numerics().compute() != v1::Numerics::COMPUTE_UNSET, "numerics.compute", "not set",
         "FP32, TF32, AMP_FP16 or AMP_BF16");
    need_known(recipe_.numerics().gradient_wire(), {"fp32", "fp16", "bf16"},
               "numerics.gradient_wire");
    const v1::Topology& topology = recipe_.topology();
    need_known(topology.parallel(), {"none", "data"}, "topology.parallel");
    need(topology.parallel() != "none" || devices_of(recipe_) == 1, "topology.parallel",
         "'none' with several devices", "\"data\"");
    need(recipe_.evaluation().first_epoch() >= 0, "evaluation.first_epoch", "must not be negative");
  }

  void check_training(const v1::Training& training, const std::string& path) const {
    const bool has_steps = training.has_steps() && training.steps() > 0;
    const bool has_epochs =
        training.has_epochs() && training.epochs() > 0 && training.epochs() < 1e6;
    const std::string given = training.has_epochs()  ? ".epochs"
                              : training.has_steps() ? ".steps"
                                                     : "";
    need(has_steps || has_epochs, path + given, "needs steps or epochs, greater than 0");
    need(training.batch_per_device() > 0, path + ".batch_per_device", "must be at least 1");
    need(!training.optimizer().name().empty(), path + ".optimizer.name", "not set",
         "sgd, adam, adamw or lamb");
    check_words(training, path);
    need(training.optimizer().lr() > 0, path + ".optimizer.lr", "must be greater than 0");
    check_ranges(training, path);
  }

  void check_words(const v1::Training& training, const std::string& path) const {
    const v1::Optimizer& optimizer = training.optimizer();
    const std::string below = path + ".optimizer.";
    const std::vector<std::string> kinds = {"bn", "layer_norm", "bias", "scalar"};
    need_known(optimizer.name(), {"sgd", "adam", "adamw", "lamb"}, below + "name");
    need_known(optimizer.lr_rule(), {"absolute", "per_256_global_batch"}, below + "lr_rule");
    need_known(optimizer.convention(), {"pytorch", "tensorflow"}, below + "convention");
    for (const std::string& kind : optimizer.no_decay())
      need_known(kind, kinds, below + "no_decay");
    for (const std::string& kind : optimizer.no_trust_ratio())
      need_known(kind, kinds, below + "no_trust_ratio");
    need(optimizer.no_trust_ratio().empty() || optimizer.name() == "lamb", below + "no_trust_ratio",
         "belongs to lamb");
    for (const v1::Loss& loss : training.loss()) check_loss(loss, path + ".loss");
    need(!training.ema_warmup() || training.ema_decay() > 0, path + ".ema_warmup",
         "needs ema_decay");
    need_known(training.schedule().kind(),
               {"constant", "step", "polynomial", "linear", "cosine", "exponential"},
               path + ".schedule.kind");
    need_known(training.schedule().warmup_unit(), {"step", "epoch", "fraction"},
               path + ".schedule.warmup_unit");
  }

  void check_loss(const v1::Loss& loss, const std::string& path) const {
    need(!loss.kind().empty(), path + ".kind", "not set");
    need_known(loss.kind(),
               {"softmax_cross_entropy", "sigmoid_cross_entropy", "focal", "huber", "l2"},
               path + ".kind");
    need(!loss.of().empty(), path + ".of", "not set", "name an output of the model");
    need(loss.weight() > 0, path + ".weight", "must be greater than 0");
  }

  void check_ranges(const v1::Training& training, const std::string& path) const {
    const v1::Optimizer& optimizer = training.optimizer();
    const std::pair<const char*, double> fractions[] = {
        {".label_smoothing", training.label_smoothing()},
        {".ema_decay", training.ema_decay()},
        {".optimizer.momentum", optimizer.momentum()},
        {".optimizer.beta1", optimizer.beta1()},
        {".optimizer.beta2", optimizer.beta2()}};
    for (const auto& [name, value] : fractions)
      need(value >= 0 && value < 1, path + name, "must be at least 0 and below 1");
    const std::pair<const char*, double> amounts[] = {
        {".mixup_alpha", training.mixup_alpha()},
        {".clip_global_norm", training.clip_global_norm()},
        {".clip_variable_norm", training.clip_variable_norm()},
        {".optimizer.epsilon", optimizer.epsilon()},
        {".optimizer.weight_decay", optimizer.weight_decay()},
        {".schedule.warmup", training.schedule().warmup()},
        {".schedule.start_lr", training.schedule().start_lr()},
        {".schedule.end_lr", training.schedule().end_lr()}};
    for (const auto& [name, value] : amounts)
      need(value >= 0 && value < 1e12, path + name, "must not be negative");
  }

  bool has_role(const std::set<std::string>& roles) const {
    return std::any_of(recipe_.data().begin(), recipe_.data().end(),
                       [&](const v1::DataRef& data) { return roles.contains(data.role()); });
  }

  void check_data() const {
    need(has_role({"train", "bench"}), "data", "no entry with role \"train\" or \"bench\"");
    static const std::set<std::string> kRoles = {"train", "validation", "eval", "test", "bench"};
    for (const v1::DataRef& data : recipe_.data()) {
      need(kRoles.contains(data.role()), "data." + data.id() + ".role",
           "'" + data.role() + "' is unknown", "train, validation, eval, test or bench");
      need(!data.lock().empty(), "data." + data.id() + ".lock", "not set", "name the data set");
    }
    const v1::Evaluation& evaluation = recipe_.evaluation();
    need(evaluation.metric().empty() || evaluation.evaluator() == "training_loss" ||
             !evaluation.data().empty() || has_role({"eval", "test", "validation"}),
         "evaluation", "there is no data with role \"eval\" or \"test\" to evaluate on");
  }

  void check_trials() const {
    const v1::Trials& trials = recipe_.trials();
    const bool needed =
        std::any_of(recipe_.expect().begin(), recipe_.expect().end(),
                    [](const v1::Expect& e) { return e.bench().empty() && !e.has_ratio(); });
    need(trials.count() <= 1000, "trials.count", "must be at most 1000");
    need(trials.count() >= 1 || !needed, "trials.count", "is 0, but there are rows over trials",
         "1 to 1000; 0 only in a recipe whose rows are all measured by benches");
    need(trials.max_count() == 0 || trials.max_count() >= trials.count(), "trials.max_count",
         "is below trials.count");
    const std::set<uint64_t> distinct(trials.seed().begin(), trials.seed().end());
    need(std::ssize(distinct) == trials.seed_size(), "trials.seed", "a seed is listed twice",
         "equal seeds give equal results: they are not independent trials");
  }

  void check_bench(const v1::Bench& bench, const std::string& path) const {
    const auto& batches = bench.batch();
    need(bench.mode() != v1::Bench::MODE_UNSET, path + ".mode", "not set", "TRAIN or INFER");
    need(!batches.empty() && std::count(batches.begin(), batches.end(), 0u) == 0, path + ".batch",
         "needs at least one batch size, each at least 1");
    need(bench.measure_steps() >= 1, path + ".measure_steps", "must be at least 1");
    need(bench.repeats() >= 1, path + ".repeats", "must be at least 1");
    for (const v1::Quantile& q : bench.quantile()) check_quantile(q, path + ".quantile");
  }

  void check_quantile(const v1::Quantile& q, const std::string& path) const {
    need(q.def() != v1::Quantile::DEF_UNSET, path, "def is not set",
         "name the estimator, e.g. NEAREST_RANK");
    need(q.p() > 0 && q.p() < 1, path, "p must lie between 0 and 1");
  }

  void need_row(const std::string& path, const std::string& id, bool needs_spread) const {
    const v1::Expect* target = find_expectation(recipe_, id);
    need(target != nullptr, path, "there is no expectation '" + id + "'");
    need(!needs_spread || target->has_mean_std() || target->has_sample(), path,
         "'" + id + "' has no standard deviation to lend",
         "point to a row with mean_std or sample");
  }

  void check_expectation(const v1::Expect& expect, const std::string& path) const {
    need(!expect.metric().empty(), path + ".metric", "not set");
    need(!expect.unit().empty(), path + ".unit", "not set", "\"1\" for a plain fraction");
    need(expect.direction() != v1::Expect::DIRECTION_UNSET, path + ".direction", "not set",
         "HIGHER, LOWER or EITHER is better");
    need(expect.bench().empty() || find_bench(recipe_, expect.bench()) != nullptr, path + ".bench",
         "there is no bench '" + expect.bench() + "'");
    if (!expect.spread_from().empty()) need_row(path + ".spread_from", expect.spread_from(), true);
    if (expect.has_extreme()) need_row(path + ".extreme", expect.extreme().of(), true);
    if (expect.has_ratio()) {  // a term in another recipe is looked for when that one is read
      const v1::Ratio& ratio = expect.ratio();
      if (ratio.num_recipe().empty()) need_row(path + ".ratio", ratio.num(), false);
      if (ratio.den_recipe().empty()) need_row(path + ".ratio", ratio.den(), false);
    }
    if (expect.has_tail()) check_quantile(expect.tail().q(), path + ".tail");
    check_margin(expect, path);
    const bool published = has_published_value(expect);
    need(expect.has_at() || !published, path + ".at",
         "a published value without the cell it was copied from",
         "add 'at' with source, row, column and the printed characters");
    if (expect.has_at()) need_source(expect.at(), path + ".at.source");
    for (const v1::Locator& seen : expect.seen()) need_source(seen, path + ".seen");
    need(!expect.gate() || published, path + ".gate",
         "a row without a published value cannot decide the exit code",
         "remove gate, or add the value");
  }

  void check_margin(const v1::Expect& expect, const std::string& path) const {
    const v1::Margin& margin = expect.margin();
    need(margin.absolute() >= 0 && margin.relative() >= 0, path + ".margin",
         "must not be negative");
    need(margin.absolute() == 0 || margin.relative() == 0, path + ".margin",
         "is both absolute and relative", "keep one");
    if (!is_timing(expect)) return;
    // Of the kinds that rows with a time, a rate or a ratio have; 0 where nothing is printed.
    const double value = expect.has_single() ? expect.single().v()
                         : expect.has_tail() ? expect.tail().v()
                                             : expect.ratio().v();
    need(margin.relative() < 1 && (value <= 0 || margin.absolute() < value), path + ".margin",
         "is as large as the published value: nothing could differ from it",
         fmt::format("a share of it below 1, or less than its {} {}", shortest(value),
                     expect.unit()));
  }

  void need_source(const v1::Locator& at, const std::string& path) const {
    std::vector<std::string> ids;
    for (const v1::Source& source : recipe_.source()) ids.push_back(source.id());
    need(std::find(ids.begin(), ids.end(), at.source()) != ids.end(), path,
         "there is no source '" + at.source() + "'",
         ids.empty() ? "add a 'source'" : "there are: " + join(ids, ", "));
  }

  const ResolvedRecipe& resolved_;
  const v1::Recipe& recipe_;
};

}  // namespace

void check_recipe(const ResolvedRecipe& resolved) { Checker(resolved).run(); }

}  // namespace reciperun
