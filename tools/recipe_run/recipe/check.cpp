#include "tools/recipe_run/recipe/check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/path.h"

namespace reciperun {
namespace {

class Checker {
 public:
  explicit Checker(const ResolvedRecipe& resolved)
      : resolved_(resolved), recipe_(resolved.recipe) {}

  void run() const {
    check_free_overrides();
    if (recipe_.abstract()) return;
    check_execution();
    check_data();
    check_trials();
    check_benches();
    for (const v1::Expect& expect : recipe_.expect()) check_expectation(expect);
    check_gates();
  }

 private:
  // Raises unless `ok`; the message starts with the place that set `path` or, if unset, with the
  // recipe's file.
  void require(bool ok, const std::string& path, const std::string& what,
               const std::string& hint = {}) const {
    if (ok) return;
    const Origin* origin = find_origin(resolved_.origins, path);
    for (std::string up = path; origin == nullptr && up.find('.') != std::string::npos;) {
      up.resize(up.rfind('.'));  // what is missing has no place; what it is missing from has one
      origin = find_origin(resolved_.origins, up);
    }
    throw Error(
        Exit::kUsage,
        (origin != nullptr ? origin->place() : resolved_.file.string()) + ": " + path + ": " + what,
        hint);
  }

  void check_free_overrides() const {
    for (const std::string& path : recipe_.free_override()) {
      require(path_problem(*v1::Recipe::descriptor(), path).empty(), "free_override",
              "'" + path + "': " + path_problem(*v1::Recipe::descriptor(), path));
    }
  }

  void check_execution() const {
    require(!recipe_.model().arch().empty(), "model.arch", "not set", "name a model of the engine");
    if (recipe_.training().phase().empty()) check_training(recipe_.training(), "training");
    for (const v1::Phase& phase : recipe_.training().phase())
      check_training(phase.training(), "training.phase." + phase.name() + ".training");
    require(recipe_.numerics().compute() != v1::Numerics::COMPUTE_UNSET, "numerics.compute",
            "not set", "FP32, TF32, AMP_FP16 or AMP_BF16");
    require_known(recipe_.numerics().gradient_wire(), {"fp32", "fp16", "bf16"},
                  "numerics.gradient_wire");
    const v1::Topology& topology = recipe_.topology();
    require_known(topology.parallel(), {"none", "data"}, "topology.parallel");
    require(topology.parallel() != "none" ||
                (topology.nodes() <= 1 && topology.devices_per_node() <= 1),
            "topology.parallel", "'none' with several devices", "\"data\"");
    require(recipe_.evaluation().first_epoch() >= 0, "evaluation.first_epoch",
            "must not be negative");
  }

  void check_training(const v1::Training& training, const std::string& path) const {
    const bool has_steps = training.length_case() == v1::Training::kSteps && training.steps() > 0;
    const bool has_epochs = training.length_case() == v1::Training::kEpochs &&
                            training.epochs() > 0 && training.epochs() < 1e6;
    require(has_steps || has_epochs, path, "needs steps or epochs, greater than 0");
    require(training.batch_per_device() > 0, path + ".batch_per_device", "must be at least 1");
    require(!training.optimizer().name().empty(), path + ".optimizer.name", "not set",
            "sgd, adam, adamw or lamb");
    check_words(training, path);
    require(training.optimizer().lr() > 0, path + ".optimizer.lr", "must be greater than 0");
    check_ranges(training, path);
  }

  // `word` is one of `known`, or empty.
  void require_known(const std::string& word, const std::vector<std::string>& known,
                     const std::string& path) const {
    if (word.empty() || std::find(known.begin(), known.end(), word) != known.end()) return;
    const std::string similar = closest(word, known);
    require(false, path, "'" + word + "' is unknown",
            similar.empty() ? "one of: " + join(known, ", ") : "did you mean '" + similar + "'?");
  }

  void check_words(const v1::Training& training, const std::string& path) const {
    const v1::Optimizer& optimizer = training.optimizer();
    const std::string below = path + ".optimizer.";
    require_known(optimizer.name(), {"sgd", "adam", "adamw", "lamb"}, below + "name");
    require_known(optimizer.lr_rule(), {"absolute", "per_256_global_batch"}, below + "lr_rule");
    require_known(optimizer.convention(), {"pytorch", "tensorflow"}, below + "convention");
    for (const std::string& kind : optimizer.no_decay())
      require_known(kind, {"bn", "layer_norm", "bias", "scalar"}, below + "no_decay");
    for (const std::string& kind : optimizer.no_trust_ratio())
      require_known(kind, {"bn", "layer_norm", "bias", "scalar"}, below + "no_trust_ratio");
    require(optimizer.no_trust_ratio().empty() || optimizer.name() == "lamb",
            below + "no_trust_ratio", "belongs to lamb");
    for (const v1::Loss& loss : training.loss()) check_loss(loss, path + ".loss");
    require(!training.ema_warmup() || training.ema_decay() > 0, path + ".ema_warmup",
            "needs ema_decay");
    const v1::Schedule& schedule = training.schedule();
    require_known(schedule.kind(),
                  {"constant", "step", "polynomial", "linear", "cosine", "exponential"},
                  path + ".schedule.kind");
    require_known(schedule.warmup_unit(), {"step", "epoch", "fraction"},
                  path + ".schedule.warmup_unit");
  }

  void check_loss(const v1::Loss& loss, const std::string& path) const {
    require(!loss.kind().empty(), path + ".kind", "not set");
    require_known(loss.kind(),
                  {"softmax_cross_entropy", "sigmoid_cross_entropy", "focal", "huber", "l2"},
                  path + ".kind");
    require(!loss.of().empty(), path + ".of", "not set", "name an output of the model");
    require(loss.weight() > 0, path + ".weight", "must be greater than 0");
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
      require(value >= 0 && value < 1, path + name, "must be at least 0 and below 1");
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
      require(value >= 0 && value < 1e12, path + name, "must not be negative");
  }

  void check_data() const {
    const auto has_role = [&](std::initializer_list<const char*> roles) {
      return std::any_of(recipe_.data().begin(), recipe_.data().end(),
                         [&](const v1::DataRef& data) {
                           return std::find(roles.begin(), roles.end(), data.role()) != roles.end();
                         });
    };
    require(has_role({"train", "bench"}), "data", "no entry with role \"train\" or \"bench\"");
    static const std::set<std::string> kRoles = {"train", "validation", "eval", "test", "bench"};
    for (const v1::DataRef& data : recipe_.data()) {
      require(kRoles.count(data.role()) == 1, "data." + data.id() + ".role",
              "'" + data.role() + "' is unknown", "train, validation, eval, test or bench");
      require(!data.lock().empty(), "data." + data.id() + ".lock", "not set", "name the data set");
    }
    const v1::Evaluation& evaluation = recipe_.evaluation();
    if (evaluation.metric().empty()) return;
    require(has_role({"eval", "test", "validation"}) || !evaluation.data().empty(), "evaluation",
            "there is no data with role \"eval\" or \"test\" to evaluate on");
  }

  void check_trials() const {
    const v1::Trials& trials = recipe_.trials();
    const bool needed =
        std::any_of(recipe_.expect().begin(), recipe_.expect().end(),
                    [](const v1::Expect& e) { return e.bench().empty() && !e.has_ratio(); });
    require(trials.count() <= 1000, "trials.count", "must be at most 1000");
    require(trials.count() >= 1 || !needed, "trials.count", "is 0, but there are rows over trials",
            "1 to 1000; 0 only in a recipe whose rows are all measured by benches");
    require(trials.max_count() == 0 || trials.max_count() >= trials.count(), "trials.max_count",
            "is below trials.count");
    const std::set<uint64_t> distinct(trials.seed().begin(), trials.seed().end());
    require(static_cast<int>(distinct.size()) == trials.seed_size(), "trials.seed",
            "a seed is listed twice",
            "equal seeds give equal results: they are not independent trials");
  }

  void check_benches() const {
    for (const v1::Bench& bench : recipe_.bench()) {
      const std::string path = "bench." + bench.id();
      require(bench.mode() != v1::Bench::MODE_UNSET, path + ".mode", "not set", "TRAIN or INFER");
      require(!bench.batch().empty() &&
                  *std::min_element(bench.batch().begin(), bench.batch().end()) > 0,
              path + ".batch", "needs at least one batch size, each at least 1");
      require(bench.measure_steps() >= 1, path + ".measure_steps", "must be at least 1");
      require(bench.repeats() >= 1, path + ".repeats", "must be at least 1");
      for (const v1::Quantile& q : bench.quantile()) check_quantile(q, path + ".quantile");
    }
  }

  void check_quantile(const v1::Quantile& q, const std::string& path) const {
    require(q.def() != v1::Quantile::DEF_UNSET, path, "def is not set",
            "name the estimator, e.g. NEAREST_RANK");
    require(q.p() > 0 && q.p() < 1, path, "p must lie between 0 and 1");
  }

  const v1::Expect* find(const std::string& id) const {
    const auto it = std::find_if(recipe_.expect().begin(), recipe_.expect().end(),
                                 [&](const v1::Expect& e) { return e.id() == id; });
    return it == recipe_.expect().end() ? nullptr : &*it;
  }

  void require_reference(const v1::Expect& from, const char* field, const std::string& id,
                         bool needs_spread) const {
    const std::string path = "expect." + from.id() + "." + field;
    const v1::Expect* target = find(id);
    require(target != nullptr, path, "there is no expectation '" + id + "'");
    require(!needs_spread || target->has_mean_std() || target->has_sample(), path,
            "'" + id + "' has no standard deviation to lend",
            "point to a row with mean_std or sample");
  }

  // A term in another recipe is looked for when that one is read.
  void check_ratio(const v1::Expect& expect) const {
    const v1::Ratio& ratio = expect.ratio();
    if (ratio.num_recipe().empty()) require_reference(expect, "ratio", ratio.num(), false);
    if (ratio.den_recipe().empty()) require_reference(expect, "ratio", ratio.den(), false);
  }

  void check_expectation(const v1::Expect& expect) const {
    const std::string path = "expect." + expect.id();
    require(!expect.metric().empty(), path + ".metric", "not set");
    require(!expect.unit().empty(), path + ".unit", "not set", "\"1\" for a plain fraction");
    require(expect.direction() != v1::Expect::DIRECTION_UNSET, path + ".direction", "not set",
            "HIGHER, LOWER or EITHER is better");
    if (!expect.bench().empty()) {
      require(std::any_of(recipe_.bench().begin(), recipe_.bench().end(),
                          [&](const v1::Bench& b) { return b.id() == expect.bench(); }),
              path + ".bench", "there is no bench '" + expect.bench() + "'");
    }
    if (!expect.spread_from().empty())
      require_reference(expect, "spread_from", expect.spread_from(), true);
    if (expect.has_extreme()) require_reference(expect, "extreme", expect.extreme().of(), true);
    if (expect.has_ratio()) check_ratio(expect);
    if (expect.has_tail()) check_quantile(expect.tail().q(), path + ".tail");
    check_margin(expect, path);
    check_locator(expect, path);
  }

  // Of the kinds that rows with a time, a rate or a ratio have; 0 where nothing is printed.
  static double printed_value(const v1::Expect& e) {
    return e.has_single() ? e.single().v() : e.has_tail() ? e.tail().v() : e.ratio().v();
  }

  void check_margin(const v1::Expect& expect, const std::string& path) const {
    const v1::Margin& margin = expect.margin();
    require(margin.absolute() >= 0 && margin.relative() >= 0, path + ".margin",
            "must not be negative");
    require(margin.absolute() == 0 || margin.relative() == 0, path + ".margin",
            "is both absolute and relative", "keep one");
    if (!is_timing(expect)) return;
    const double value = printed_value(expect);
    require(margin.relative() < 1 && (value <= 0 || margin.absolute() < value), path + ".margin",
            "is as large as the published value: nothing could differ from it",
            "a share of it below 1, or less than its " + shortest(value) + " " + expect.unit());
  }

  void check_locator(const v1::Expect& expect, const std::string& path) const {
    require(expect.has_at() || expect.value_case() == v1::Expect::VALUE_NOT_SET, path + ".at",
            "a published value without the cell it was copied from",
            "add 'at' with source, row, column and the printed characters");
    if (expect.has_at()) require_source(expect.at(), path + ".at.source");
    for (const v1::Locator& seen : expect.seen()) require_source(seen, path + ".seen");
  }

  void require_source(const v1::Locator& at, const std::string& path) const {
    std::vector<std::string> ids;
    for (const v1::Source& source : recipe_.source()) ids.push_back(source.id());
    require(std::find(ids.begin(), ids.end(), at.source()) != ids.end(), path,
            "there is no source '" + at.source() + "'",
            ids.empty() ? "add a 'source'" : "there are: " + join(ids, ", "));
  }

  void check_gates() const {
    for (const v1::Expect& expect : recipe_.expect()) {
      require(!expect.gate() || expect.value_case() != v1::Expect::VALUE_NOT_SET,
              "expect." + expect.id() + ".gate",
              "a row without a published value cannot decide the exit code",
              "remove gate, or add the value");
    }
  }

  const ResolvedRecipe& resolved_;
  const v1::Recipe& recipe_;
};

}  // namespace

void check_recipe(const ResolvedRecipe& resolved) { Checker(resolved).run(); }

}  // namespace reciperun
