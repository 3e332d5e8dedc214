// Files of SQuAD (v1.1 arXiv:1606.05250, v2.0 arXiv:1806.03822): paragraphs, questions about them,
// and answers that stand in the paragraph.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace assay::data {

struct SquadAnswer {
  std::string text;
  size_t begin = 0;  // byte of the context; files count code points
};

struct SquadQuestion {
  std::string id;
  std::string text;
  std::vector<SquadAnswer> answers;  // none if impossible, and in files to be answered
  bool impossible = false;           // always false in v1.1
};

struct SquadParagraph {
  std::string context;
  std::vector<SquadQuestion> questions;
};

struct SquadFile {
  std::vector<SquadParagraph> paragraphs;
  bool version_2 = false;  // questions say whether they are impossible
};

// `what` names the text in messages. Fails with kFormat: text that is no JSON (with line and
// column), a member missing or of another type, an id given twice, an answer that does not stand at
// its offset, an impossible question with answers; the message says where.
SquadFile parse_squad(std::string_view json, std::string_view what);

}  // namespace assay::data
