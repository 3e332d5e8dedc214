// The page of every HTML file and the tables in it.
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {
namespace {

// Series colours are Okabe and Ito's, told apart by every kind of colour vision; dashes and labels
// say the same again.
constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d5dae0;--card:#f6f8fa;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#a8548a;--c4:#b8860b;--c5:#3f8fc4;--ref:#1b1f24;--soft:#0072b2;
--good:#0b6e4f;--fair:#0a5a94;--bad:#a33b00;--open:#7a5c00;--none:#59636e}
@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e6eaef;--dim:#9aa5b1;--line:#333b45;--card:#1c222a;
--c0:#56b4e9;--c1:#ff8a3d;--c2:#2fc79a;--c3:#e39ac8;--c4:#f0c542;--c5:#a5d0f0;--ref:#e6eaef;--soft:#56b4e9;
--good:#4fd1a5;--fair:#7cc4f5;--bad:#ff9a66;--open:#f0c542;--none:#9aa5b1}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1.2rem 1rem 3rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 .4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.3rem 0}.dim,small{color:var(--dim)}code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.88em;overflow-wrap:anywhere}
.summary{padding:.7rem .9rem;background:var(--card);border-left:4px solid var(--fair);border-radius:4px;margin:.9rem 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.38rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--dim)}th:first-child,td:first-child,th.w,td.w{text-align:left}
td.why{white-space:normal;text-align:left;color:var(--dim);font-size:.86rem;padding-top:0}
tr.has-why td{border-bottom:none}
.v{font-weight:650}.good{color:var(--good)}.fair{color:var(--fair)}.bad{color:var(--bad)}.open{color:var(--open)}.none{color:var(--none);font-weight:400}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}
figure{margin:0;padding:.7rem;background:var(--card);border-radius:6px;min-width:0}
figcaption{font-weight:600;font-size:.95rem;margin-bottom:.3rem}
svg{display:block;width:100%;height:auto}svg text{fill:var(--dim);font-size:12px}svg .label{font-size:12px}svg .small{fill:var(--fg);font-size:11.5px}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--dim);stroke-width:1}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1);stroke-dasharray:7 3}.s2{stroke:var(--c2);stroke-dasharray:2.5 2.5}
.s3{stroke:var(--c3);stroke-dasharray:9 3 2 3}.s4{stroke:var(--c4);stroke-dasharray:12 4}.s5{stroke:var(--c5);stroke-dasharray:1 4;stroke-linecap:round}
.dot{stroke:var(--card);stroke-width:1.2;stroke-dasharray:none}
.dot.s0{fill:var(--c0)}.dot.s1{fill:var(--c1)}.dot.s2{fill:var(--c2)}.dot.s3{fill:var(--c3)}.dot.s4{fill:var(--c4)}.dot.s5{fill:var(--c5)}
.ref{stroke:var(--ref);stroke-width:1.6;stroke-dasharray:5 4}.mean{stroke:var(--fg);stroke-width:3}.meandot{fill:var(--fg)}
.thin{stroke:var(--c0);stroke-width:1.1;opacity:.65}.area{stroke:none}.soft{fill:var(--soft);opacity:.18}.refband{fill:var(--dim);opacity:.18}
.legend{display:flex;flex-wrap:wrap;gap:.15rem .9rem;font-size:.82rem;color:var(--dim);margin:.35rem 0 0}
.legend .key{display:inline-block;width:28px;height:12px;vertical-align:-1px}.key .none{stroke:none}
ul{padding-left:1.2rem;margin:.4rem 0}li{margin:.25rem 0}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem .9rem;margin:.4rem 0}
dt{font-weight:600}dd{margin:0}@media(max-width:34rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media(max-width:40rem){thead{display:none}table,tbody,td.why{display:block}
tr{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.45rem 0;border-bottom:1px solid var(--line)}tr.has-why{border-bottom:none;padding-bottom:0}
td,td.why{padding:.1rem .2rem;border-bottom:none;white-space:normal;order:2;text-align:left}td.row,td.verdict{flex:1 0 100%}
td.row{order:0;font-weight:600}td.verdict{order:1}td:empty{display:none}td[data-h]::before{content:attr(data-h) " ";color:var(--dim)}}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--dim)}
@media print{body{max-width:none}figure{break-inside:avoid}}
)";

std::string verdict_class(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "good";
    case Verdict::kWithinTolerance:
      return "fair";
    case Verdict::kDiffersWorse:
      return "bad";
    case Verdict::kDiffersBetter:
      return "good";
    case Verdict::kInconclusive:
    case Verdict::kInvalid:
      return "open";
    default:
      return "none";
  }
}

// Attributes of a column's cells. Words align left. On narrow screens a row becomes a block: its
// name, its verdict, then every other cell behind the column's heading.
std::string cell_attributes(size_t c, const std::string& heading) {
  const ColumnKind kind = column_kind(c);
  if (kind == ColumnKind::kTitle) return " class=\"row\"";
  if (kind == ColumnKind::kVerdict) return " class=\"w verdict\"";
  return std::string(kind == ColumnKind::kText ? " class=\"w\"" : "") + " data-h=\"" +
         html_escaped(heading) + "\"";
}

std::string table_of(const RowGroup& group, const std::vector<std::string>& headings) {
  std::string out =
      "<h2>" + html_escaped(group.title) + "</h2>\n<div class=\"scroll\"><table><thead><tr>";
  size_t columns = 0;
  for (size_t c = 0; c < headings.size(); ++c) {
    if (!column_used(group.rows, c)) continue;
    ++columns;
    const ColumnKind kind = column_kind(c);
    const bool left = kind == ColumnKind::kText || kind == ColumnKind::kVerdict;
    out += (left ? "<th class=\"w\">" : "<th>") + html_escaped(headings[c]) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const Row* row : group.rows) {
    std::string why = shows_reason(*row) ? row->judgement.reason : "";
    if (!row->note.empty()) why += (why.empty() ? "" : " · ") + row->note;
    const std::vector<std::string> cells = table_cells(*row);
    out += why.empty() ? "<tr>" : "<tr class=\"has-why\">";
    for (size_t c = 0; c < cells.size(); ++c) {
      if (!column_used(group.rows, c)) continue;
      std::string cell = html_escaped(cells[c]);
      if (column_kind(c) == ColumnKind::kVerdict)
        cell =
            "<span class=\"v " + verdict_class(row->judgement.verdict) + "\">" + cell + "</span>";
      out += "<td" + cell_attributes(c, headings[c]) + ">" + cell + "</td>";
    }
    out += "</tr>\n";
    if (!why.empty())
      out += "<tr><td class=\"why\" colspan=\"" + std::to_string(columns) + "\">" +
             html_escaped(why) + "</td></tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

constexpr char kLegend[] = R"(<h2>How to read the verdicts</h2>
<dl>
<dt>REPRODUCED</dt><dd>The true difference lies inside the margin with 95 % confidence.</dd>
<dt>WITHIN TOLERANCE</dt><dd>What was measured lies inside the margin; more runs, or a spread on the other side, would be needed to be sure.</dd>
<dt>DIFFERS</dt><dd>Outside the margin, and too far to be chance.</dd>
<dt>INCONCLUSIVE</dt><dd>Outside the margin, but it may be chance.</dd>
<dt>NOT COMPARABLE</dt><dd>Measured under other conditions.</dd>
<dt>NOT RUN</dt><dd>Nothing was measured; the reason stands beside it.</dd>
<dt>INVALID</dt><dd>Measured, but not fit to be judged: a noisy machine, an interrupted timing, too few samples.</dd>
<dt>NO PUBLISHED VALUE</dt><dd>Measured only.</dd>
</dl>
)";

}  // namespace

std::string verdict_legend() { return kLegend; }

std::string html_tables(const std::vector<Row>& rows, const TableWords& words) {
  std::string out;
  for (const RowGroup& group : grouped(rows)) out += table_of(group, table_headings(words));
  return out;
}

std::string html_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>" +
         html_escaped(title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" +
         html_escaped(title) + "</h1>\n" + body + "</body>\n</html>\n";
}

}  // namespace reciperun
