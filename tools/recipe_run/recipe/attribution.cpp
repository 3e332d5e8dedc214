// Whose number is it? What the places around a cell say about its number (Conditions), and whether
// the expectation that claims it, and its recipe, say the same. The words that are understood are
// those of the copied tables:
//   columns "GPUs", "DGX System" ("48 x DGX A100"), "Batch size ...", "Accumulation steps ...",
//           "Precision", "Sequence length", "# of epochs", "SQuAD version"; "Throughput",
//           "Latency 90% (ms)", "Accuracy", "speedup", "Weak scaling" and so on; "mixed precision",
//           "FP32", "TF32/FP32" and "BS=104" in them
//   tables  "inference.dgx_a100.amp", "resnet50.fp32.b128", "accuracy.dgx1_32gpu"
//   text    "setup.TABLE": a sentence about all of a table; "note.TABLE.k": its footnote [k]
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <regex>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// What is said about a number; 0 and "" where nothing is.
struct Conditions {
  uint32_t devices = 0, batch = 0, accumulate = 0, epochs = 0, sequence = 0;
  uint32_t percent = 0;   // 90 of "Latency 90% (ms)"
  uint32_t seeds = 0;     // columns "Seed 1", "Seed 2", ...
  std::string precision;  // "AMP", "FP32", "TF32", or "full": what the machine does without AMP
  std::string machine;    // "DGX-1"
  std::string metric;     // as Expect.metric; "headline": the first of the recipe's metrics
  std::string unit;
  std::string data;                                     // "v1.1" of SQuAD
  bool speed_up = false, scaling = false;               // over full precision; over one device
  std::vector<uint32_t> phase_batch, phase_accumulate;  // of mixed precision
};

// A machine of the published tables: its name, a word in the names of its devices, how many it has.
struct Machine {
  std::string name, device_word;
  uint32_t devices = 0;
};
const std::array<Machine, 5> kMachines = {{{"DGX A100", "A100", 8},
                                           {"DGX-1", "V100", 8},
                                           {"DGX-2", "V100", 16},
                                           {"DGX-2H", "V100", 16},
                                           {"T4", "T4", 1}}};

const Machine* find_machine(const std::string& name) {
  const auto* const found = std::find_if(kMachines.begin(), kMachines.end(),
                                         [&](const Machine& m) { return m.name == name; });
  return found == kMachines.end() ? nullptr : found;
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The first group of `pattern`, "" without a match.
std::string word_in(const std::string& text, const std::string& pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? found[1].str() : "";
}

uint32_t number_in(const std::string& text, const std::string& pattern) {
  return whole_number(word_in(text, pattern));
}

std::vector<uint32_t> whole_numbers(const std::string& cell) {
  std::vector<uint32_t> out;
  for (const std::string& number : numbers_in(cell)) out.push_back(whole_number(number));
  return out;
}

// "DGX A100" of "48 x DGX A100", of "dgx_a100" and of "dgx1_32gpu".
std::string machine_in(const std::string& text) {
  std::string plain = lower(text), best;
  std::replace(plain.begin(), plain.end(), '_', ' ');
  for (const Machine& machine : kMachines) {
    std::string joined = lower(machine.name);
    std::erase(joined, '-');
    const bool found = has(plain, lower(machine.name)) || has(plain, joined);
    if (found && machine.name.size() > best.size()) best = machine.name;
  }
  return best;
}

// What is said in words, and what it means; of several the first that is said.
using Words = std::vector<std::pair<std::string, std::string>>;

std::string meaning(const std::string& text, const Words& words) {
  for (const auto& [said, means] : words) {
    if (has(text, said)) return means;
  }
  return "";
}

std::string precision_in(const std::string& text) {
  static const Words kWords = {{"mixed precision", "AMP"}, {"FP16", "AMP"},  {"AMP", "AMP"},
                               {"TF32/FP32", "full"},      {"TF32", "TF32"}, {"FP32", "FP32"}};
  return meaning(text, kWords);
}

// Replaces a value that was said before by one that says more.
template <typename T>
void prefer(T& value, const T& said) {
  if (said != T{}) value = said;
}

// Reads the conditions of one number of a cell: its column's title, the table's name, its row, and
// sentences about them.
class Reader {
 public:
  Reader(const SourceFile& file, const CellPlace& place, uint32_t part, bool mixed)
      : file_(file), place_(place), part_(std::max(1u, part)), mixed_(mixed) {}

  Conditions read() {
    read_title();
    read_table_name();
    read_row();
    read_setup(sentence("setup." + place_.table->name));
    read_footnote();
    return std::move(out_);
  }

 private:
  // The sentence about a subject, "" if none was copied.
  std::string sentence(const std::string& about) const {
    const SourceTable* texts = file_.find(kTextTable);
    if (texts == nullptr || texts->name != kTextTable) return "";
    for (const auto& row : texts->rows) {
      if (row[0] == about) return row[1];
    }
    return "";
  }

  // The first cell whose column begins so, "" if there is none.
  std::string cell_under(const std::string& beginning, std::string* title = nullptr) const {
    for (size_t i = 0; i < place_.table->columns.size(); ++i) {
      if (!place_.table->columns[i].starts_with(beginning)) continue;
      if (title != nullptr) *title = place_.table->columns[i];
      return place_.cell(static_cast<int>(i));
    }
    return "";
  }

  void read_title() {
    const std::string& title = place_.title();
    // Within DLPerf a "speedup" stands beside a batch size and is over one device.
    const bool of_devices = has(title, "bsz=");
    out_.percent = number_in(title, "(\\d+)%");
    out_.speed_up = has(title, "speedup") && !of_devices;
    out_.scaling = has(title, "Weak scaling") || (has(title, "speedup") && of_devices);
    out_.precision = out_.speed_up ? "AMP" : precision_in(title);
    out_.batch = number_in(title, "(?:BS|bsz|b)=(\\d+)");
    out_.metric = metric(lower(title));
    if (!out_.speed_up && !out_.scaling) out_.unit = unit(title);
  }

  std::string metric(const std::string& title) const {
    const std::string row = lower(cell_under("Accuracy Metric") + cell_under("Config"));
    const std::string spread = has(title, "standard deviation") ? ":sd" : "";
    const std::string of_row = meaning(row, {{"exact match", "exact_match"},
                                             {"f1", "f1"},
                                             {"final loss", "loss"},
                                             {"final ap", "headline"}});
    if (!of_row.empty()) return of_row + spread;
    if (!spread.empty()) return "top1" + spread;
    if (has(title, "top1"))
      return "top1" + meaning(title, {{"minimum", ":min"}, {"maximum", ":max"}});
    return meaning(title, {{"latency", out_.percent > 0 ? "latency" : "latency_mean"},
                           {"throughput", "throughput"},
                           {"weak scaling", "throughput"},
                           {"time to train", "time_to_train"},
                           {"speedup", "throughput"},
                           {"final loss", "loss"},
                           {"accuracy / f1", part_ == 2 ? "f1" : "exact_match"},
                           {"accuracy", "headline"},
                           {"bbox map", "headline"}});
  }

  std::string unit(const std::string& title) const {
    static const Words kUnits = {
        {"(ms)", "ms"},       {"[ms]", "ms"},       {"(img/sec)", "img/s"},
        {"[img/s]", "img/s"}, {"(img/s)", "img/s"}, {"(sequences/sec)", "seq/s"},
        {"[min]", "min"},     {"(sec)", "s"},       {"(hours)", "h"}};
    const std::string of_title = meaning(title, kUnits);
    return of_title.empty() && has(place_.text(), "hrs") ? "h" : of_title;
  }

  void read_table_name() {
    for (const std::string& word : split(place_.table->name, '.')) {
      prefer(out_.machine, machine_in(word));
      const bool precision = word == "amp" || word == "fp32" || word == "tf32";
      if (precision && out_.precision.empty())
        std::transform(word.begin(), word.end(), std::back_inserter(out_.precision), ::toupper);
      if (out_.batch == 0) out_.batch = number_in(word, "^b(\\d+)$");
      if (word == "inference") out_.devices = 1;
    }
  }

  // Of two settings "8 : 16" the second one is that of mixed precision.
  uint32_t one_of_two(const std::vector<uint32_t>& values) const {
    if (values.empty()) return 0;
    return values.size() > 1 && mixed_ ? values[1] : values[0];
  }

  void read_row() {
    for (const std::string& title : place_.table->columns) out_.seeds += title.starts_with("Seed ");
    prefer(out_.precision, precision_in(cell_under("Precision")));
    out_.epochs = count_in(cell_under("# of epochs"));
    out_.sequence = count_in(cell_under("Sequence length"));
    out_.data = word_in(cell_under("SQuAD version"), "(v[0-9.]+)");
    if (place_.table->column("GPUs") >= 0) out_.devices = count_in(cell_under("GPUs"));
    if (has(cell_under("Config"), " GPUs")) out_.devices = count_in(cell_under("Config"));
    if (const std::string system = cell_under("DGX System"); !system.empty()) {
      out_.machine = machine_in(system);
      out_.devices *= count_in(system);
    }
    std::string title;
    for (const char* beginning : {"Batch size", "Local Batch size"}) {
      const std::vector<uint32_t> sizes = whole_numbers(cell_under(beginning, &title));
      if (has(title, "Phase 1")) {
        out_.phase_batch = sizes;
        out_.phase_accumulate = whole_numbers(cell_under("Accumulation steps"));
        return;
      }
      prefer(out_.batch, one_of_two(sizes));
    }
    out_.accumulate = one_of_two(whole_numbers(cell_under("Accumulation steps")));
    prefer(out_.batch, number_in(place_.text(), "bsz=(\\d+)"));
  }

  void read_setup(const std::string& setup) {
    prefer(out_.devices, number_in(setup, "(\\d+) nodes with") * number_in(setup, "(\\d+)x "));
    prefer(out_.devices, number_in(setup, "with (\\d+) GPUs"));
    if (const uint32_t machines = number_in(setup, "with (\\d+) x "); machines > 0) {
      out_.machine = machine_in(setup);
      if (const Machine* machine = find_machine(out_.machine))
        out_.devices = machines * machine->devices;
    }
    prefer(out_.batch, number_in(setup, "batch size of (\\d+)"));
    if (has(setup, "computations")) out_.precision = precision_in(setup);
    if (has(setup, "SQuAD")) out_.data = word_in(setup, "SQuAD (v[0-9]+\\.[0-9]+)");
  }

  // "[3]" in a cell of the same precision: a note that may name other batch sizes, one for each
  // number of the cell.
  void read_footnote() {
    const std::string kind = place_.title().substr(0, place_.title().find(' '));
    for (size_t i = 0; i < place_.table->columns.size(); ++i) {
      const std::string mark = word_in(place_.cell(static_cast<int>(i)), "^\\[(\\d+)\\]");
      if (mark.empty() || !place_.table->columns[i].starts_with(kind)) continue;
      const std::string note = sentence("note." + place_.table->name + "." + mark);
      const std::regex batch("obtained with(?: or without XLA and using)? bsz = (\\d+)");
      std::vector<uint32_t> sizes;
      for (std::sregex_iterator it(note.begin(), note.end(), batch), end; it != end; ++it)
        sizes.push_back(whole_number((*it)[1].str()));
      if (!sizes.empty()) out_.batch = sizes[std::min<size_t>(part_, sizes.size()) - 1];
    }
  }

  const SourceFile& file_;
  const CellPlace& place_;
  uint32_t part_;
  bool mixed_;
  Conditions out_;
};

std::string precision_of(const v1::Recipe& recipe) {
  static const std::array kNames = {"", "FP32", "TF32", "AMP", "AMP, bf16"};
  return kNames.at(recipe.numerics().compute());
}

template <class List, class T>
bool contains(const List& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string shown(const std::string& value) {
  return value.empty() ? "nothing" : "'" + value + "'";
}
std::string shown(uint32_t value) { return value == 0 ? "nothing" : std::to_string(value); }

// One expectation and its recipe, against the conditions of its cells.
class Check {
 public:
  Check(const v1::Recipe& recipe, const v1::Expect& expect, const SourceFiles& files,
        const FindRow& rows)
      : recipe_(recipe),
        expect_(expect),
        scope_(expect.scope()),
        bench_(find_bench(recipe, expect.bench())),
        files_(files),
        rows_(rows) {}

  std::vector<std::string> run() {
    check_scope();
    check_unit();
    check_place(expect_.at(), true);
    for (const v1::Locator& seen : expect_.seen()) check_seen(seen);
    check_ratio();
    check_numbers_of_runs();
    check_scales();
    check_lender();
    return std::move(problems_);
  }

 private:
  template <class... A>
  void problem(fmt::format_string<A...> text, A&&... arguments) {
    problems_.push_back(fmt::format(text, std::forward<A>(arguments)...));
  }

  // Says so if the source has `printed` where the recipe has `stated`.
  template <typename T>
  void compare(const std::string& what, const T& printed, const T& stated) {
    if (printed == T{} || printed == stated) return;
    problem("{}: the source says {}, the recipe {}", what, shown(printed), shown(stated));
  }
  // The same where the row's scope says nothing of the recipe's own value.
  template <typename T>
  void compare_scope(const std::string& what, const T& own, const T& scope) {
    if (scope != T{}) compare(what, own, scope);
  }

  // --- the row's scope against what its recipe runs ---

  void check_scope() {
    compare_scope("scope.precision", precision_of(recipe_), scope_.precision());
    if (bench_ == nullptr) {
      const v1::Training& training = recipe_.training();
      compare_scope("scope.devices", devices_of(recipe_), scope_.devices());
      compare_scope("scope.batch", training.batch_per_device(), scope_.batch());
      compare_scope("scope.epochs", static_cast<uint32_t>(training.epochs()), scope_.epochs());
      return;
    }
    if (scope_.devices() > 0 && !bench_->devices().empty() &&
        !contains(bench_->devices(), scope_.devices()))
      problem("scope.devices: the bench '{}' does not run on {}", bench_->id(), scope_.devices());
    if (scope_.batch() > 0 && !contains(bench_->batch(), scope_.batch()))
      problem("scope.batch: the bench '{}' has no batch of {}", bench_->id(), scope_.batch());
    if (scope_.epochs() > 0) problem("scope.epochs: a bench has no epochs");
  }

  // Where no column names the metric, its unit still does.
  void check_unit() {
    const std::string &metric = expect_.metric(), &unit = expect_.unit();
    if (unit == "x") return;
    const bool of_rates = unit.ends_with("/s"), of_latencies = unit == "ms";
    if (of_rates != (metric == "throughput") || of_latencies != metric.starts_with("latency"))
      problem("unit: '{}' is not one of '{}'", unit, metric);
  }

  // --- the row against its cell ---

  bool mixed() const { return precision_of(recipe_) == "AMP"; }
  bool deviates(const std::string& path) const {
    return std::any_of(recipe_.deviation().begin(), recipe_.deviation().end(),
                       [&](const v1::Deviation& d) { return d.path() == path; });
  }

  void check_place(const v1::Locator& at, bool is_own) {
    const auto file = files_.find(at.source());
    if (file == files_.end()) return;
    std::string ignored;
    const auto place = find_cell(file->second, at, ignored);
    if (!place) return;  // said by the comparison of the characters
    const Conditions said = Reader(file->second, *place, at.part(), mixed()).read();
    compare("scope.devices", said.devices, scope_.devices());
    compare("scope.epochs", said.epochs, scope_.epochs());
    check_batch(said);
    check_precision(said.precision);
    check_machine(said.machine);
    check_data(said);
    if (!is_own) return;
    has_document_ = !file->second.document.empty();
    said_ = said;
    check_metric();
    if (!expect_.has_ratio()) check_quantile(expect_, "the row");
  }

  void check_batch(const Conditions& said) {
    compare("scope.batch", said.batch, scope_.batch());
    const auto& phases = recipe_.training().phase();
    if (said.accumulate > 0 && scope_.devices() == devices_of(recipe_)) {
      for (const v1::Phase& phase : phases) {
        if (sequence_length(*phase_data(recipe_, phase)) == said.sequence)
          compare("accumulate", said.accumulate, phase.training().accumulate());
      }
    }
    // Full precision ran at half the batch and twice the accumulation.
    const uint32_t half = mixed() ? 1 : 2;
    for (int i = 0; i < phases.size() && i < std::ssize(said.phase_batch); ++i) {
      const auto k = static_cast<size_t>(i);
      const std::string path = "training.phase." + phases[i].name() + ".training.";
      if (deviates(path + "accumulate")) continue;
      compare(path + "batch_per_device", said.phase_batch[k] / half,
              phases[i].training().batch_per_device());
      compare(path + "accumulate", said.phase_accumulate[k] * half,
              phases[i].training().accumulate());
    }
  }

  void check_precision(const std::string& said) {
    const std::string own = precision_of(recipe_);
    if (said == "full") {
      const bool a100 = has(recipe_.platform().device(), "A100");
      compare<std::string>("numerics.compute", a100 ? "TF32" : "FP32", own);
    } else if (said != "FP32" || own != "TF32" || !deviates("numerics.compute")) {
      compare("numerics.compute", said, own);
    }
    if (!said.empty()) compare("scope.precision", own, scope_.precision());
  }

  void check_machine(const std::string& said) {
    const v1::Platform& platform = recipe_.platform();
    const Machine* machine = find_machine(said);
    if (machine == nullptr) return;
    if (said != "T4") compare("platform.host", said, platform.host());
    if (!has(platform.device(), machine->device_word))
      problem("platform.device: a {} has {}, the recipe says {}", said, machine->device_word,
              shown(platform.device()));
  }

  void check_sequence(const Conditions& said, const v1::DataRef& data) {
    const uint32_t sequence = sequence_length(data);
    if (said.sequence > 0 && sequence > 0)
      compare("data." + data.id() + ".pipeline", said.sequence, sequence);
  }

  void check_data(const Conditions& said) {
    for (const v1::DataRef& data : recipe_.data()) {
      if (!said.data.empty() && !data.lock().ends_with(said.data))
        problem("data.{}.lock: the source says {}, the recipe {}", data.id(), shown(said.data),
                shown(data.lock()));
      if (recipe_.training().phase().empty()) check_sequence(said, data);
    }
    for (const v1::Phase& phase : recipe_.training().phase()) {
      if (bench_ != nullptr && phase.name() == bench_->phase())
        check_sequence(said, *phase_data(recipe_, phase));
    }
  }

  void check_metric() {
    std::string metric = said_.metric;
    if (metric.starts_with("headline") && !recipe_.evaluation().metric().empty())
      metric.replace(0, 8, recipe_.evaluation().metric(0));
    if (has_document_ && metric.empty()) problem("the column holds no results");
    compare("metric", metric, expect_.metric());
    if ((said_.speed_up || said_.scaling) != expect_.has_ratio())
      problem("the column holds {}",
              expect_.has_ratio() ? "no ratios, the row is one" : "ratios, the row is none");
    compare("unit", said_.unit, expect_.unit());
    const bool max = metric.ends_with(":max"), min = metric.ends_with(":min");
    if ((max || min) && expect_.has_extreme() &&
        (expect_.extreme().which() == v1::Extreme::MAX) != max)
      problem("extreme.which: the column is the other extreme");
  }

  void check_quantile(const v1::Expect& row, const std::string& whose) {
    const double stated = row.has_tail() ? row.tail().q().p() : row.quantile().p();
    if (std::abs(said_.percent / 100.0 - stated) > 1e-9)
      problem("quantile: the column is {} %, {} has p {}", said_.percent, whose, shortest(stated));
  }

  // Whatever prints it elsewhere prints the same, unless the row says that it does not.
  void check_seen(const v1::Locator& seen) {
    check_place(seen, false);
    const std::vector<std::string> numbers = numbers_in(seen.printed());
    const std::vector<double> stated = stated_numbers(expect_);
    const bool equal = !numbers.empty() && !stated.empty() &&
                       std::strtod(numbers[0].c_str(), nullptr) == stated[0];
    if (!equal && !contains(expect_.answers(), "sources"))
      problem("seen: prints {}, the row another number", shown(seen.printed()));
  }

  // --- the terms of a ratio ---

  // One device or many, full precision or mixed: what the column compares is what the terms are.
  void check_ratio() {
    if (!expect_.has_ratio()) return;
    const v1::Ratio& ratio = expect_.ratio();
    const v1::Expect* num = rows_(ratio.num_recipe(), ratio.num());
    const v1::Expect* den = rows_(ratio.den_recipe(), ratio.den());
    // Training in full precision has room for fewer samples; else the batch is the same.
    const bool infers = bench_ != nullptr && bench_->mode() == v1::Bench::INFER;
    for (const auto& [term, recipe] :
         {std::pair(num, &ratio.num_recipe()), std::pair(den, &ratio.den_recipe())}) {
      if (term == nullptr) continue;
      if (term->metric() != expect_.metric() || term->bench() != expect_.bench())
        problem("ratio: '{}' is measured in another way", term->id());
      check_quantile(*term, "'" + term->id() + "'");
      if ((recipe->empty() || infers) && term->scope().batch() != scope_.batch())
        problem("ratio: '{}' has another batch size", term->id());
    }
    if (said_.scaling) {
      if (!ratio.num_recipe().empty() || !ratio.den_recipe().empty())
        problem("ratio: a scaling has both terms in one recipe");
      if (num != nullptr) compare("ratio.num: devices", scope_.devices(), num->scope().devices());
      if (den != nullptr) compare("ratio.den: devices", 1u, den->scope().devices());
    }
    if (said_.speed_up) check_speed_up(num, den);
  }

  // A rate grows, a time shrinks; full precision is the other recipe's.
  void check_speed_up(const v1::Expect* num, const v1::Expect* den) {
    const v1::Ratio& ratio = expect_.ratio();
    const bool of_rates = expect_.metric() == "throughput";
    const std::string& full_recipe = of_rates ? ratio.den_recipe() : ratio.num_recipe();
    if (full_recipe.empty() || !(of_rates ? ratio.num_recipe() : ratio.den_recipe()).empty())
      problem("ratio: a speed-up is of the mixed precision of this recipe over another's");
    for (const v1::Expect* term : {num, den}) {
      if (term != nullptr && term->scope().devices() != scope_.devices())
        problem("ratio: '{}' has another number of devices", term->id());
    }
    const v1::Expect* full = of_rates ? den : num;
    if (full != nullptr && full->scope().precision() == "AMP")
      problem("ratio: '{}' of '{}' is not of full precision", full->id(), full_recipe);
  }

  // --- numbers of runs and samples ---

  void check_numbers_of_runs() {
    const v1::Expect& e = expect_;
    const bool printed = e.has_runs();  // where it stands how many there were
    // Where no document is copied, it may be unknown.
    if (!printed && e.has_single() && e.single().n() == 0 && !has_document_) return;
    struct Number {
      bool is_set;
      const char* what;
      uint32_t stated, unprinted;
    };
    const auto in_sample = static_cast<uint32_t>(e.sample().v_size());
    for (const auto& [is_set, what, stated, unprinted] :
         {Number{e.has_single(), "single.n", e.single().n(), 1},
          Number{e.has_tail(), "tail.n", e.tail().n(), 0},
          Number{e.has_sample(), "sample.v", in_sample, said_.seeds},
          Number{e.has_spread(), "spread.n", e.spread().n(), said_.seeds},
          Number{e.has_mean_std(), "mean_std.n", e.mean_std().n(), 0},
          Number{e.has_extreme(), "extreme.n", e.extreme().n(), 0}}) {
      const uint32_t due = printed ? count_in(e.runs().printed()) : unprinted;
      if (is_set && stated != due)
        problem("{}: the recipe says {}, {} {}", what, shown(stated),
                printed ? "its source" : "without 'runs' it is", shown(due));
    }
  }

  // --- units of standard deviations, borrowed ones ---

  // With its scale a standard deviation must be possible for runs between the printed extremes.
  void check_scales() {
    const bool mean = expect_.has_mean_std();
    if (!mean && !expect_.has_spread()) return;
    const double scale = mean ? expect_.mean_std().std_scale() : expect_.spread().scale();
    const double std = mean ? expect_.mean_std().std() : expect_.spread().v();
    const uint32_t n = mean ? expect_.mean_std().n() : expect_.spread().n();
    double low = 0, high = 0;
    for (const v1::Expect& other : recipe_.expect()) {
      if (!other.has_extreme() || !same_row(other)) continue;
      (other.extreme().which() == v1::Extreme::MAX ? high : low) = other.extreme().v();
    }
    if (high <= low || n < 2) {
      if (scale != 0) problem("std_scale: nothing printed bears it out");
      return;
    }
    const double range = high - low, real = std * (scale > 0 ? scale : 1);
    const bool possible =
        real >= range / std::sqrt(2.0 * (n - 1)) && real <= range / 2 * std::sqrt(n / (n - 1.0));
    if (!possible || (scale != 0 && scale != 1 && scale != 100))
      problem("std_scale: a standard deviation of {} is impossible for {} runs between {} and {}",
              shortest(real), n, shortest(low), shortest(high));
  }

  bool same_row(const v1::Expect& other) const {
    const v1::Locator &a = expect_.at(), &b = other.at();
    return a.table() == b.table() &&
           std::equal(a.where().begin(), a.where().end(), b.where().begin(), b.where().end(),
                      [](const v1::Cell& x, const v1::Cell& y) {
                        return x.column() == y.column() && x.equals() == y.equals();
                      });
  }

  void check_lender() {
    if (!expect_.has_lender()) return;
    const v1::Lender& lender = expect_.lender();
    if (lender.recipe().empty()) return problem("lender.recipe: not set");
    const v1::Expect* row = rows_(lender.recipe(), lender.row());
    if (row == nullptr) return;
    v1::Lender printed;
    printed.set_recipe(lender.recipe());
    printed.set_row(lender.row());
    if (row->has_sample()) {
      printed.set_mean(row->sample().printed_mean());
      printed.set_std(row->sample().printed_std());
      printed.set_n(static_cast<uint32_t>(row->sample().v_size()));
    } else {
      printed.set_mean(row->mean_std().mean());
      printed.set_std(row->mean_std().std());
      printed.set_std_scale(row->mean_std().std_scale());
      printed.set_n(row->mean_std().n());
    }
    if (lender.SerializeAsString() != printed.SerializeAsString() ||
        row->metric() != expect_.metric())
      problem("lender: '{}' of '{}' has other numbers", lender.row(), lender.recipe());
  }

  const v1::Recipe& recipe_;
  const v1::Expect& expect_;
  const v1::Scope& scope_;
  const v1::Bench* bench_;  // that measures the row, or nullptr
  const SourceFiles& files_;
  const FindRow& rows_;
  Conditions said_;            // of the row's own cell
  bool has_document_ = false;  // which is a copy of a published document
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> attribution_problems(const v1::Recipe& recipe, const v1::Expect& expect,
                                              const SourceFiles& files, const FindRow& rows) {
  return Check(recipe, expect, files, rows).run();
}

}  // namespace reciperun
