// From the levels of a detector's heads to boxes. Suppression is a loop: each round takes the best
// candidate of every image that is left.
#include <algorithm>

#include "sdk/train/onnx/converter.h"

namespace assay::onnx {
namespace {

// The levels [N,...] one behind the other: [N,all] of each the number of `width` numbers.
std::string joined_levels(Converter& c, int levels, int64_t width) {
  Names rows;
  for (int level = 0; level < levels; ++level) {
    const int64_t numbers = c.dims(c.x(level)).numel() / kBatches[0];
    std::vector<Size> sizes{{1, true}, {numbers / width}};
    if (width > 1) sizes.push_back({width});
    rows.push_back(c.reshaped(c.plain(c.x(level)), sizes));
  }
  return levels == 1 ? rows[0] : c.emit("Concat", std::move(rows), {{"axis", int64_t{1}}});
}

std::string floats(Converter& c, std::string_view name, const std::vector<float>& numbers,
                   std::vector<int64_t> dims) {
  return c.writer().constant(
      std::string(name), DType::kF32, dims,
      {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
}

// Whole numbers of i32, divided or what remains.
std::string divided(Converter& c, std::string_view op, const std::string& pair, int64_t classes) {
  return c.emit(op, {c.cast(pair, DType::kI64), c.writer().integer(classes)});
}

// The corners and areas of boxes [N,n,4], each [N,n].
struct Boxes {
  Names corners;  // ymin, xmin, ymax, xmax
  std::string area;
};
Boxes boxes_of(Converter& c, const std::string& boxes, float pixels) {
  GraphWriter& w = c.writer();
  Boxes result;
  for (int64_t i = 0; i < 4; ++i)
    result.corners.push_back(c.emit("Gather", {boxes, w.integer(i)}, {{"axis", int64_t{2}}}));
  const auto side = [&](size_t axis) {
    const std::string size = c.emit("Sub", {result.corners[axis + 2], result.corners[axis]});
    return pixels == 0 ? size : c.emit("Add", {size, w.number(pixels)});
  };
  const std::string rows = side(0), columns = side(1);
  result.area = c.emit("Mul", {rows, columns});
  return result;
}

// Area of the intersection over that of the union; pixels are added to every size.
std::string overlap(Converter& c, const Boxes& one, const Boxes& all, float pixels) {
  GraphWriter& w = c.writer();
  const auto side = [&](size_t axis) {
    const std::string size =
        c.emit("Sub", {c.emit("Min", {one.corners[axis + 2], all.corners[axis + 2]}),
                       c.emit("Max", {one.corners[axis], all.corners[axis]})});
    return c.emit("Max",
                  {pixels == 0 ? size : c.emit("Add", {size, w.number(pixels)}), w.number(0)});
  };
  const std::string rows = side(0), columns = side(1);
  const std::string both = c.emit("Mul", {rows, columns});
  const std::string either = c.emit("Sub", {c.emit("Add", {one.area, all.area}), both});
  return c.emit("Where", {c.emit("Greater", {both, w.number(0)}), c.emit("Div", {both, either}),
                          w.number(0)});
}

// What both kinds of suppression share. A candidate that is gone has the score -1.
class Suppression {
 public:
  Suppression(Converter& c, int64_t classes, float pixels)
      : c_(c), w_(c.writer()), pixels_(pixels), candidates_(c.dims(c.x(1))[1]) {
    boxes_ = c.plain(c.x(0));
    all_ = boxes_of(c, boxes_, pixels);
    label_ = divided(c, "Mod", c.plain(c.x(2)), classes);
    std::vector<int64_t> places(static_cast<size_t>(candidates_));
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
    places_ = w_.integers(places);
  }

  const std::string& label() const { return label_; }
  const std::string& places() const { return places_; }

  // What a round sees: the best candidate, [N,1], and how each candidate overlaps it, [N,K].
  struct Round {
    std::string scores;       // before it
    std::string best, score;  // its place; -1 if none is left
    std::string label, overlaps;
  };
  // `choose` gives the place, [N,1] i64, from scores [N,K] and the best of them, [N,1]; `rest` the
  // scores that a round leaves, but for that of the best.
  template <class Choose, class Rest>
  void run(std::string scores, int64_t count, const Choose& choose, const Rest& rest) {
    scores = c_.emit("Where", {c_.emit("IsNaN", {scores}), w_.number(-1), scores});
    pb::Graph body;
    {
      const GraphWriter::Body inside(w_, body);
      write_body(body, choose, rest);
    }
    const Names taken =
        w_.emit("Loop", {w_.integer(count), "", scores}, {{"body", std::move(body)}}, 4);
    // One row for each round: rounds become places of an image.
    c_.set_plain(c_.y(0),
                 c_.emit("Transpose", {taken[1]}, {{"perm", std::vector<int64_t>{1, 0, 2}}}));
    c_.set_plain(c_.y(1), c_.emit("Transpose", {taken[2]}, {{"perm", std::vector<int64_t>{1, 0}}}));
    c_.set_plain(c_.y(2),
                 c_.cast(c_.emit("Transpose", {taken[3]}, {{"perm", std::vector<int64_t>{1, 0}}}),
                         DType::kI32));
  }
  void clip_to(const std::array<int64_t, 2>& limit) { limit_ = limit; }

 private:
  template <class Choose, class Rest>
  void write_body(pb::Graph& body, const Choose& choose, const Rest& rest) {
    body.set_name(w_.new_name("round"));
    const auto declare = [&](pb::ValueInfo& info, const std::string& name, pb::ElementType type,
                             int rank) {
      info.set_name(name);
      info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
      pb::Shape& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
      for (int axis = 0; axis < rank; ++axis) shape.add_dim();
    };
    const std::string number = w_.new_name("round/number"), on = w_.new_name("round/on");
    Round round{.scores = w_.new_name("round/scores")};
    declare(*body.add_input(), number, pb::INT64, 0);
    declare(*body.add_input(), on, pb::BOOL, 0);
    declare(*body.add_input(), round.scores, pb::FLOAT, 2);
    const std::string most =
        c_.emit("ReduceMax", {round.scores}, {{"axes", std::vector<int64_t>{1}}});
    round.best = choose(round.scores, most);
    round.score = c_.emit("GatherElements", {round.scores, round.best}, {{"axis", int64_t{1}}});
    round.label = c_.emit("GatherElements", {label_, round.best}, {{"axis", int64_t{1}}});
    const std::string box =
        c_.emit("GatherND", {boxes_, c_.emit("Unsqueeze", {round.best, w_.integers({2})})},
                {{"batch_dims", int64_t{1}}});  // [N,1,4]
    round.overlaps = overlap(c_, boxes_of(c_, box, pixels_), all_, pixels_);
    const std::string is_best = c_.emit("Equal", {places_, round.best});
    const std::string left = c_.emit("Where", {is_best, w_.number(-1), rest(round)});
    const std::string found = c_.emit("GreaterOrEqual", {round.score, w_.number(0)});
    const auto result = [&](const std::string& value, const std::string& none) {
      const std::string taken = c_.emit("Where", {found, value, none});
      return c_.emit("Squeeze", {taken, w_.integers({1})});
    };
    const std::string is_box = c_.emit("Unsqueeze", {found, w_.integers({2})});
    const std::string taken_box = c_.emit(
        "Squeeze", {c_.emit("Where", {is_box, clipped(box), w_.number(0)}), w_.integers({1})});
    declare(*body.add_output(), c_.emit("Identity", {on}), pb::BOOL, 0);
    declare(*body.add_output(), left, pb::FLOAT, 2);
    declare(*body.add_output(), taken_box, pb::FLOAT, 2);
    declare(*body.add_output(), result(round.score, w_.number(0)), pb::FLOAT, 1);
    declare(*body.add_output(), result(round.label, w_.integer(-1)), pb::INT64, 1);
  }

  std::string clipped(const std::string& box) {
    if (!limit_) return box;
    const auto rows = static_cast<float>((*limit_)[0]), columns = static_cast<float>((*limit_)[1]);
    const std::string most = floats(c_, "limits", {rows, columns, rows, columns}, {4});
    return c_.emit("Min", {c_.emit("Max", {box, w_.number(0)}), most});
  }

  Converter& c_;
  GraphWriter& w_;
  float pixels_;
  int64_t candidates_;
  std::string boxes_, label_, places_;
  Boxes all_;
  std::optional<std::array<int64_t, 2>> limit_;
};

}  // namespace

void convert(const TopCandidates& op, Converter& c) {
  const std::string all = joined_levels(c, c.inputs(), 1);
  const Names best =
      c.writer().emit("TopK", {all, c.writer().integers({op.count})}, {{"axis", int64_t{1}}}, 2);
  c.set_plain(c.y(0), best[0]);
  c.set_plain(c.y(1), c.cast(best[1], DType::kI32));
}

void convert(const DecodeBoxes& op, Converter& c) {
  GraphWriter& w = c.writer();
  const int levels = c.inputs() - 2;
  const Constant* anchors = c.constant(c.x(levels));
  if (anchors == nullptr) c.refuse("has anchors that depend on the image");
  const auto corners = anchors->as<float>();
  std::vector<float> middles, sizes;
  for (size_t i = 0; i < corners.size(); i += 4) {
    for (size_t axis = i; axis < i + 2; ++axis) {
      middles.push_back((corners[axis] + corners[axis + 2]) / 2);
      sizes.push_back(corners[axis + 2] - corners[axis]);
    }
  }
  const std::vector<int64_t> dims{anchors->type.dims[0], 2};
  const std::string anchor = divided(c, "Div", c.plain(c.x(levels + 1)), op.classes);  // [N,K]
  const std::string size = c.emit("Gather", {floats(c, "anchor_sizes", sizes, dims), anchor});
  const std::string from = c.emit("Gather", {floats(c, "anchor_middles", middles, dims), anchor});
  const std::string code = c.emit(
      "GatherND", {joined_levels(c, levels, 4), c.emit("Unsqueeze", {anchor, w.integers({2})})},
      {{"batch_dims", int64_t{1}}});
  const Names halves = w.emit("Split", {code}, {{"axis", int64_t{2}}}, 2);  // middles, sizes
  const auto within = [&](const std::string& codes, float most) {
    return c.emit("Clip", {codes, w.number(-most), w.number(most)});
  };
  const std::string shift = within(halves[0], kMostBoxShift);
  const std::string growth = c.emit("Exp", {within(halves[1], kMostBoxGrowth)});
  const std::string middle = c.emit("Add", {c.emit("Mul", {shift, size}), from});
  const std::string half = c.emit("Div", {c.emit("Mul", {growth, size}), w.number(2)});
  c.set_plain(c.y(),
              c.emit("Concat", {c.emit("Sub", {middle, half}), c.emit("Add", {middle, half})},
                     {{"axis", int64_t{2}}}));
}

void convert(const SoftSuppression& op, Converter& c) {
  Suppression suppression(c, op.classes, 1);
  GraphWriter& w = c.writer();
  const int64_t candidates = c.dims(c.x(1))[1];
  // Of equals the lower class is first, then the lower place.
  const std::string order = c.emit(
      "Add", {c.emit("Mul", {suppression.label(), w.integer(candidates)}), suppression.places()});
  const std::string last = w.integer(op.classes * candidates);
  suppression.run(
      c.plain(c.x(1)), op.count,
      [&](const std::string& scores, const std::string& most) {
        const std::string among = c.emit("Where", {c.emit("Equal", {scores, most}), order, last});
        return c.emit("ArgMin", {among}, {{"axis", int64_t{1}}});
      },
      [&](const Suppression::Round& round) {
        const std::string square = c.emit("Mul", {round.overlaps, round.overlaps});
        const std::string factor =
            c.emit("Exp", {c.emit("Neg", {c.emit("Div", {square, w.number(op.sigma)})})});
        const std::string lower = c.emit("Mul", {round.scores, factor});
        const std::string kept = c.emit(
            "Where", {c.emit("GreaterOrEqual", {lower, w.number(op.least)}), lower, w.number(-1)});
        const std::string is_same = c.emit("Equal", {suppression.label(), round.label});
        return c.emit("Where", {is_same, kept, round.scores});
      });
}

void convert(const HardSuppression& op, Converter& c) {
  Suppression suppression(c, op.classes, 0);
  suppression.clip_to(op.limit);
  GraphWriter& w = c.writer();
  const std::string scores = c.plain(c.x(1));
  const std::string is_high = c.emit("Greater", {scores, w.number(op.least)});
  suppression.run(
      c.emit("Where", {is_high, scores, w.number(-1)}), op.count,
      // They come best first.
      [&](const std::string& left, const std::string&) {
        return c.emit("ArgMax", {left}, {{"axis", int64_t{1}}});
      },
      [&](const Suppression::Round& round) {
        const std::string is_hit = c.emit("Greater", {round.overlaps, w.number(op.most)});
        return c.emit("Where", {is_hit, w.number(-1), round.scores});
      });
}

}  // namespace assay::onnx
