#include "sdk/base/wildcard.h"

namespace assay {

bool wildcard_match(std::string_view pattern, std::string_view name,
                    std::vector<std::string_view>* runs) {
  std::vector<std::string_view> own;
  std::vector<std::string_view>& found = runs == nullptr ? own : *runs;
  found.clear();
  // When the letters behind the last * do not fit, its run takes one more character. The runs
  // before it never need to: what fits behind a longer one fits behind the shortest.
  size_t p = 0, n = 0, star = std::string_view::npos, begin = 0, end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      begin = end = n;
      found.push_back(name.substr(n, 0));
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++end;
      found.back() = name.substr(begin, end - begin);
    } else {
      return false;
    }
  }
  for (; p < pattern.size() && pattern[p] == '*'; ++p) found.push_back(name.substr(n));
  return p == pattern.size();
}

}  // namespace assay
