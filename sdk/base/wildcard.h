// Patterns for names: "*" matches any run of characters, everything else is literal.
#pragma once

#include <string_view>
#include <vector>

namespace assay {

// `runs`, if given, receives what each * stood for, the shortest runs first; what it holds after a
// failure says nothing.
bool wildcard_match(std::string_view pattern, std::string_view name,
                    std::vector<std::string_view>* runs = nullptr);

}  // namespace assay
