#include "tools/recipe_run/sources/conditions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The first group of `pattern` as a number, 0 without a match.
uint32_t number_in(const std::string& text, const std::string& pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) return 0;
  return static_cast<uint32_t>(std::stoul(found[1]));
}

std::string word_in(const std::string& text, const std::string& pattern) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(pattern)) ? found[1].str() : "";
}

std::vector<uint32_t> whole_numbers(const std::string& cell) {
  std::vector<uint32_t> out;
  for (const std::string& number : numbers_in(cell))
    out.push_back(static_cast<uint32_t>(std::stoul(number)));
  return out;
}

// "DGX A100" of "48 x DGX A100", of "dgx_a100" and of "dgx1_32gpu".
std::string machine_in(const std::string& text) {
  std::string plain = lower(text);
  std::replace(plain.begin(), plain.end(), '_', ' ');
  const Machine* best = nullptr;
  for (const Machine& machine : known_machines()) {
    std::string name = lower(machine.name), joined = name;
    joined.erase(std::remove(joined.begin(), joined.end(), '-'), joined.end());
    const bool found = has(plain, name) || has(plain, joined);
    if (found && (best == nullptr || machine.name.size() > best->name.size())) best = &machine;
  }
  return best == nullptr ? "" : best->name;
}

class Reader {
 public:
  Reader(const SourceFile& file, const CellPlace& place, uint32_t part, bool mixed)
      : file_(file), place_(place), part_(std::max(1u, part)), mixed_(mixed) {
    setup_ = sentence("setup." + place.table->name);
  }

  Conditions read() {
    read_title();
    read_table_name();
    read_row();
    read_setup();
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

  static std::string precision_in(const std::string& text) {
    if (has(text, "mixed precision") || has(text, "FP16") || has(text, "AMP")) return "AMP";
    if (has(text, "TF32/FP32")) return "full";
    return has(text, "TF32") ? "TF32" : has(text, "FP32") ? "FP32" : "";
  }

  void read_title() {
    const std::string& title = place_.title();
    out_.percent = number_in(title, "(\\d+)%");
    out_.scaling = has(title, "Weak scaling");
    out_.speed_up = has(title, "speedup") && !has(title, "bsz=");
    // Within DLPerf a "speedup" is over one device.
    if (has(title, "speedup") && has(title, "bsz=")) out_.scaling = true;
    out_.precision = out_.speed_up ? "AMP" : precision_in(title);
    out_.batch = number_in(title, "(?:BS|bsz|b)=(\\d+)");
    out_.metric = metric(title);
    if (!out_.speed_up && !out_.scaling) out_.unit = unit(title);
  }

  std::string metric(const std::string& title) const {
    const std::string low = lower(title);
    const std::string row = lower(cell_under("Accuracy Metric") + cell_under("Config"));
    const std::string of_row = has(row, "exact match")  ? "exact_match"
                               : has(row, "f1")         ? "f1"
                               : has(row, "final loss") ? "loss"
                               : has(row, "final ap")   ? "headline"
                                                        : "";
    const bool spread = has(low, "standard deviation");
    if (!of_row.empty()) return of_row + (spread ? ":sd" : "");
    if (has(low, "top1") || has(low, "standard deviation"))
      return std::string("top1") + (spread                ? ":sd"
                                    : has(low, "minimum") ? ":min"
                                    : has(low, "maximum") ? ":max"
                                                          : "");
    if (has(low, "latency")) return out_.percent > 0 ? "latency" : "latency_mean";
    if (has(low, "throughput") || has(low, "weak scaling")) return "throughput";
    if (has(low, "time to train")) return "time_to_train";
    if (has(low, "speedup")) return "throughput";
    if (has(low, "final loss")) return "loss";
    if (has(low, "accuracy / f1")) return part_ == 2 ? "f1" : "exact_match";
    if (has(low, "accuracy") || has(low, "bbox map")) return "headline";
    return "";
  }

  std::string unit(const std::string& title) const {
    static const std::array<std::pair<const char*, const char*>, 8> kUnits = {
        {{"(ms)", "ms"},
         {"[ms]", "ms"},
         {"(img/sec)", "img/s"},
         {"[img/s]", "img/s"},
         {"(img/s)", "img/s"},
         {"(sequences/sec)", "seq/s"},
         {"[min]", "min"},
         {"(sec)", "s"}}};
    for (const auto& [words, unit] : kUnits) {
      if (has(title, words)) return unit;
    }
    if (has(title, "(hours)") || has(place_.text(), "hrs")) return "h";
    return "";
  }

  void read_table_name() {
    for (const std::string& word : split(place_.table->name, '.')) {
      if (const std::string machine = machine_in(word); !machine.empty()) out_.machine = machine;
      if (word == "amp" || word == "fp32" || word == "tf32") {
        std::string precision = word;
        std::transform(precision.begin(), precision.end(), precision.begin(), ::toupper);
        if (out_.precision.empty()) out_.precision = precision;
      }
      if (out_.batch == 0) out_.batch = number_in(word, "^b(\\d+)$");
      if (word == "inference") out_.devices = 1;
    }
  }

  uint32_t one_of_two(const std::vector<uint32_t>& values) const {
    if (values.empty()) return 0;
    return values.size() > 1 && mixed_ ? values[1] : values[0];
  }

  void read_row() {
    for (const std::string& title : place_.table->columns) out_.seeds += title.starts_with("Seed ");
    if (const std::string precision = cell_under("Precision"); !precision.empty())
      out_.precision = precision_in(precision);
    out_.epochs = count_in(cell_under("# of epochs"));
    out_.sequence = count_in(cell_under("Sequence length"));
    out_.data = word_in(cell_under("SQuAD version"), "(v[0-9.]+)");
    if (place_.table->column("GPUs") >= 0) out_.devices = count_in(cell_under("GPUs"));
    if (has(cell_under("Config"), " GPUs")) out_.devices = count_in(cell_under("Config"));
    const std::string system = cell_under("DGX System");
    if (!system.empty()) {
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
      if (!sizes.empty()) out_.batch = one_of_two(sizes);
    }
    out_.accumulate = one_of_two(whole_numbers(cell_under("Accumulation steps")));
    if (const uint32_t batch = number_in(place_.text(), "bsz=(\\d+)"); batch > 0)
      out_.batch = batch;
  }

  void read_setup() {
    if (setup_.empty()) return;
    const uint32_t nodes = number_in(setup_, "(\\d+) nodes with"),
                   each = number_in(setup_, "(\\d+)x ");
    if (nodes > 0 && each > 0) out_.devices = nodes * each;
    if (const uint32_t devices = number_in(setup_, "with (\\d+) GPUs"); devices > 0)
      out_.devices = devices;
    if (const uint32_t machines = number_in(setup_, "with (\\d+) x "); machines > 0) {
      out_.machine = machine_in(setup_);
      for (const Machine& machine : known_machines()) {
        if (machine.name == out_.machine) out_.devices = machines * machine.devices;
      }
    }
    if (const uint32_t batch = number_in(setup_, "batch size of (\\d+)"); batch > 0)
      out_.batch = batch;
    if (has(setup_, "computations")) out_.precision = precision_in(setup_);
    if (has(setup_, "SQuAD")) out_.data = word_in(setup_, "SQuAD (v[0-9]+\\.[0-9]+)");
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
        sizes.push_back(static_cast<uint32_t>(std::stoul((*it)[1])));
      if (!sizes.empty()) out_.batch = sizes[std::min<size_t>(part_, sizes.size()) - 1];
    }
  }

  const SourceFile& file_;
  const CellPlace& place_;
  uint32_t part_;
  bool mixed_;
  std::string setup_;
  Conditions out_;
};

}  // namespace

const std::vector<Machine>& known_machines() {
  static const std::vector<Machine> kMachines = {{"DGX A100", "A100", 8},
                                                 {"DGX-1", "V100", 8},
                                                 {"DGX-2", "V100", 16},
                                                 {"DGX-2H", "V100", 16},
                                                 {"T4", "T4", 1}};
  return kMachines;
}

uint32_t count_in(const std::string& text) {
  const std::vector<std::string> digits = numbers_in(text);
  if (!digits.empty()) return static_cast<uint32_t>(std::stoul(digits[0]));
  static const std::array<const char*, 9> kWords = {"two",   "three", "four", "five", "six",
                                                    "seven", "eight", "nine", "ten"};
  for (const std::string& word : split(text, ' ')) {
    const auto* const found = std::find(kWords.begin(), kWords.end(), word);
    if (found != kWords.end()) return static_cast<uint32_t>(found - kWords.begin()) + 2;
  }
  return 0;
}

Conditions conditions_of(const SourceFile& file, const CellPlace& place, uint32_t part,
                         bool mixed) {
  return Reader(file, place, part, mixed).read();
}

}  // namespace reciperun
