// The evaluation of COCO in one pass over the detections, category by category: match those of an
// image with its objects for every size and threshold, put them in order of score, count.
#include "sdk/data/detection/detection_score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "sdk/base/error.h"

namespace assay::data {
namespace {

constexpr size_t kMostOfImage = 100;  // detections of an image and category

struct Interval {
  double low, high;
  bool has(double area) const { return !(area < low || area > high); }
};
constexpr std::array<Interval, kObjectSizes> kAreas{
    {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}}};

// As numpy.linspace spaces numbers: 0.45 / 9 is not the number that 0.05 is.
constexpr double spaced(double first, double last, size_t i, size_t count) {
  const double step = (last - first) / static_cast<double>(count - 1);
  return i + 1 == count ? last : static_cast<double>(i) * step + first;
}
template <size_t n>
constexpr std::array<double, n> all_spaced(double first, double last) {
  std::array<double, n> numbers{};
  for (size_t i = 0; i < n; ++i) numbers[i] = spaced(first, last, i, n);
  return numbers;
}
constexpr auto kThresholds = all_spaced<kOverlaps>(0.5, 0.95);
constexpr auto kPoints = all_spaced<kRecallPoints>(0, 1);

// Sums in the order in which NumPy does: a mean of thousands depends on it in its last bits.
double numpy_sum(std::span<const double> values) {
  constexpr size_t kLanes = 8, kBlock = 128;
  const size_t n = values.size();
  if (n > kBlock) {
    const size_t half = n / 2 - n / 2 % kLanes;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  size_t done = 0;
  double sum = 0;
  if (n >= kLanes) {
    std::array<double, kLanes> s{};
    for (; done + kLanes <= n; done += kLanes)
      for (size_t i = 0; i < kLanes; ++i) s[i] += values[done + i];
    sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
  for (; done < n; ++done) sum += values[done];
  return sum;
}

// Of those that are there: -1 stands for none.
class Mean {
 public:
  void add(double value) {
    if (value > -1) values_.push_back(value);
  }
  double value() const {
    return values_.empty() ? -1 : numpy_sum(values_) / static_cast<double>(values_.size());
  }

 private:
  std::vector<double> values_;
};

double overlap(const Detection& found, const CocoObject& object) {
  const double width =
      std::min(found.width + found.x, object.width + object.x) - std::max(found.x, object.x);
  if (width <= 0) return 0;
  const double height =
      std::min(found.height + found.y, object.height + object.y) - std::max(found.y, object.y);
  if (height <= 0) return 0;
  const double both = width * height, area = found.width * found.height;
  return both / (object.crowd ? area : area + object.width * object.height - both);
}

// What became of a detection: bit t says so for threshold t. Neither: it does not count.
struct Verdict {
  std::array<uint16_t, kObjectSizes> right{}, wrong{};
};

struct Finding {
  double score;
  size_t rank;  // in its image and category
  Verdict verdict;
};

// The objects and the detections of one image and category, whatever their number.
class ImageMatcher {
 public:
  // Of `detections`, the better ones first, at most kMostOfImage.
  void match(std::span<const CocoObject* const> objects,
             std::span<const Detection* const> detections, std::vector<Finding>& findings) {
    overlaps_.clear();
    for (const Detection* detection : detections)
      for (const CocoObject* object : objects) overlaps_.push_back(overlap(*detection, *object));
    const size_t first = findings.size();
    for (size_t i = 0; i < detections.size(); ++i)
      findings.push_back({detections[i]->score, i, {}});
    for (size_t size = 0; size < kObjectSizes; ++size) {
      order_objects(objects, kAreas[size]);
      for (size_t i = 0; i < detections.size(); ++i) {
        const std::span overlaps = std::span(overlaps_).subspan(i * objects.size(), objects.size());
        const bool counts = kAreas[size].has(detections[i]->width * detections[i]->height);
        judge(overlaps, counts, size, findings[first + i].verdict);
      }
    }
  }

 private:
  struct Candidate {
    size_t object;
    bool ignored;  // a crowd, or of another size
    bool crowd;
    uint16_t taken = 0;  // at threshold t: bit t
  };

  // Those to be found come first.
  void order_objects(std::span<const CocoObject* const> objects, const Interval& area) {
    candidates_.clear();
    for (size_t i = 0; i < objects.size(); ++i) {
      const bool crowd = objects[i]->crowd;
      candidates_.push_back({i, crowd || !area.has(objects[i]->area), crowd});
    }
    std::stable_partition(candidates_.begin(), candidates_.end(),
                          [](const Candidate& c) { return !c.ignored; });
  }

  // `counts`: also if it matches nothing.
  void judge(std::span<const double> overlaps, bool counts, size_t size, Verdict& verdict) {
    const double best = overlaps.empty() ? 0 : std::ranges::max(overlaps);
    for (size_t t = 0; t < kOverlaps; ++t) {
      const auto bit = static_cast<uint16_t>(1u << t);
      Candidate* const taken =
          best < kThresholds[t] ? nullptr : best_match(overlaps, kThresholds[t], bit);
      if (taken == nullptr) {
        if (counts) verdict.wrong[size] |= bit;
        continue;
      }
      taken->taken |= bit;
      if (!taken->ignored) verdict.right[size] |= bit;
    }
  }

  // Of equal overlaps the last; one that is ignored only if no other fits.
  Candidate* best_match(std::span<const double> overlaps, double threshold, uint16_t bit) {
    Candidate* best = nullptr;
    for (Candidate& candidate : candidates_) {
      if ((candidate.taken & bit) != 0 && !candidate.crowd) continue;
      if (best != nullptr && !best->ignored && candidate.ignored) break;
      if (overlaps[candidate.object] < threshold) continue;
      threshold = overlaps[candidate.object];
      best = &candidate;
    }
    return best;
  }

  std::vector<double> overlaps_;  // [detections, objects]
  std::vector<Candidate> candidates_;
};

// Precision at the points of recall, and the highest recall, of findings in order of their score.
void read_curve(std::span<const Finding> findings, size_t size, size_t t, int64_t objects,
                CategoryScores& scores) {
  // Of each right one: precision up to there.
  std::vector<double> precision;
  int64_t wrong = 0;
  for (const Finding& finding : findings) {
    wrong += finding.verdict.wrong[size] >> t & 1;
    if ((finding.verdict.right[size] >> t & 1) == 0) continue;
    const auto right = static_cast<double>(precision.size() + 1);
    precision.push_back(
        right / (static_cast<double>(wrong) + right + std::numeric_limits<double>::epsilon()));
  }
  for (size_t i = precision.size(); i-- > 1;)
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  const auto recall = [&](size_t right) {
    return static_cast<double>(right) / static_cast<double>(objects);
  };
  scores.recall[size][t] = recall(precision.size());
  for (size_t point = 0, i = 0; point < kRecallPoints; ++point) {
    while (i < precision.size() && recall(i + 1) < kPoints[point]) ++i;
    scores.precision[size][t][point] = i < precision.size() ? precision[i] : 0;
  }
}

// Of the `most` best of each image.
double recall_of(std::span<const Finding> findings, size_t most, size_t t, int64_t objects) {
  const auto right = std::ranges::count_if(findings, [&](const Finding& finding) {
    return finding.rank < most && (finding.verdict.right[0] >> t & 1) != 0;
  });
  return static_cast<double>(right) / static_cast<double>(objects);
}

void read_scores(std::vector<Finding>& findings, CategoryScores& scores) {
  std::ranges::stable_sort(findings, std::greater<>(), &Finding::score);
  scores.detections = static_cast<int64_t>(findings.size());
  for (size_t t = 0; t < kOverlaps; ++t) {
    for (size_t size = 0; size < kObjectSizes; ++size) {
      scores.precision[size][t].fill(-1);
      scores.recall[size][t] = -1;
      if (scores.objects[size] > 0) read_curve(findings, size, t, scores.objects[size], scores);
    }
    scores.recall_of_1[t] = scores.recall_of_10[t] = -1;
    if (scores.objects[0] == 0) continue;
    scores.recall_of_1[t] = recall_of(findings, 1, t, scores.objects[0]);
    scores.recall_of_10[t] = recall_of(findings, 10, t, scores.objects[0]);
  }
}

// Where each id stands when all are in ascending order.
class Ranks {
 public:
  template <class T>
  explicit Ranks(const std::vector<T>& listed) {
    for (const T& one : listed) ids_.push_back(one.id);
    std::ranges::sort(ids_);
  }
  size_t size() const { return ids_.size(); }
  std::optional<size_t> of(int64_t id) const {
    const auto place = std::ranges::lower_bound(ids_, id);
    if (place == ids_.end() || *place != id) return std::nullopt;
    return static_cast<size_t>(place - ids_.begin());
  }

 private:
  std::vector<int64_t> ids_;
};

// An object or a detection, with the ranks of its category and its image.
template <class T>
struct Placed {
  size_t category, image;
  double worse;  // the higher, the later
  const T* what;
};
template <class T>
using Placings = std::vector<Placed<T>>;

template <class T>
void sort_by_place(Placings<T>& placed) {
  std::ranges::stable_sort(placed, [](const Placed<T>& a, const Placed<T>& b) {
    return std::tie(a.category, a.image, a.worse) < std::tie(b.category, b.image, b.worse);
  });
}

Placings<CocoObject> placed(const CocoInstances& truth, const Ranks& images,
                            const Ranks& categories) {
  Placings<CocoObject> placed;
  for (const CocoObject& object : truth.objects) {
    placed.push_back({categories.of(object.category_id).value(), images.of(object.image_id).value(),
                      0, &object});
  }
  sort_by_place(placed);
  return placed;
}

void check_numbers(const Detection& d) {
  for (const double number : {d.x, d.y, d.width, d.height, d.score})
    require(std::isfinite(number), Code::kInvalid, "a detection in image ", d.image_id, " has ",
            number, " among its numbers, which must be finite");
}

// Those of categories that there are, the better ones of an image and category first.
Placings<Detection> placed(std::span<const Detection> detections, const Ranks& images,
                           const Ranks& categories) {
  Placings<Detection> placed;
  placed.reserve(detections.size());
  for (const Detection& detection : detections) {
    check_numbers(detection);
    const auto image = images.of(detection.image_id);
    require(image.has_value(), Code::kInvalid, "a detection is in image ", detection.image_id,
            ", which is not among those to be scored");
    if (const auto category = categories.of(detection.category_id))
      placed.push_back({*category, *image, -detection.score, &detection});
  }
  sort_by_place(placed);
  return placed;
}

// Cuts one image of one category after the other off the front.
template <class T>
class Groups {
 public:
  explicit Groups(const Placings<T>& placed) : rest_(placed) {}
  bool at(size_t category) const { return !rest_.empty() && rest_.front().category == category; }
  size_t image(size_t category) const {
    return at(category) ? rest_.front().image : std::numeric_limits<size_t>::max();
  }
  std::span<const T* const> take(size_t category, size_t image) {
    group_.clear();
    for (; this->image(category) == image; rest_ = rest_.subspan(1))
      group_.push_back(rest_.front().what);
    return group_;
  }

 private:
  std::span<const Placed<T>> rest_;
  std::vector<const T*> group_;
};

void count_objects(std::span<const CocoObject* const> objects, CategoryScores& scores) {
  for (const CocoObject* object : objects)
    for (size_t size = 0; size < kObjectSizes; ++size)
      scores.objects[size] += !object->crowd && kAreas[size].has(object->area);
}

}  // namespace

double overlap_threshold(size_t i) { return kThresholds.at(i); }
double recall_point(size_t i) { return kPoints.at(i); }

AverageScores average_scores(std::span<const CategoryScores> categories) {
  const auto precision = [&](ObjectSize size, size_t first, size_t last) {
    Mean mean;
    for (size_t t = first; t < last; ++t)
      for (size_t point = 0; point < kRecallPoints; ++point)
        for (const CategoryScores& scores : categories)
          mean.add(scores.precision[static_cast<size_t>(size)][t][point]);
    return mean.value();
  };
  const auto mean_recall = [&](const auto& recall_of_category) {
    Mean mean;
    for (size_t t = 0; t < kOverlaps; ++t)
      for (const CategoryScores& scores : categories) mean.add(recall_of_category(scores)[t]);
    return mean.value();
  };
  const auto recall = [&](ObjectSize size) {
    return mean_recall([&](const CategoryScores& scores) -> const auto& {
      return scores.recall[static_cast<size_t>(size)];
    });
  };
  constexpr size_t kAt75 = 5;
  return {
      .ap = precision(ObjectSize::kAll, 0, kOverlaps),
      .ap50 = precision(ObjectSize::kAll, 0, 1),
      .ap75 = precision(ObjectSize::kAll, kAt75, kAt75 + 1),
      .ap_small = precision(ObjectSize::kSmall, 0, kOverlaps),
      .ap_medium = precision(ObjectSize::kMedium, 0, kOverlaps),
      .ap_large = precision(ObjectSize::kLarge, 0, kOverlaps),
      .ar1 = mean_recall([](const CategoryScores& s) -> const auto& { return s.recall_of_1; }),
      .ar10 = mean_recall([](const CategoryScores& s) -> const auto& { return s.recall_of_10; }),
      .ar100 = recall(ObjectSize::kAll),
      .ar_small = recall(ObjectSize::kSmall),
      .ar_medium = recall(ObjectSize::kMedium),
      .ar_large = recall(ObjectSize::kLarge)};
}

DetectionScores score_detections(const CocoInstances& truth,
                                 std::span<const Detection> detections) {
  const Ranks images(truth.images), categories(truth.categories);
  const Placings<CocoObject> objects = placed(truth, images, categories);
  const Placings<Detection> found = placed(detections, images, categories);
  DetectionScores scores;
  scores.foreign = static_cast<int64_t>(detections.size() - found.size());
  scores.categories.resize(categories.size());
  for (const CocoCategory& category : truth.categories)
    scores.categories[categories.of(category.id).value()].category = category;

  Groups object_groups(objects);
  Groups found_groups(found);
  ImageMatcher matcher;
  std::vector<Finding> findings;  // of a category
  for (size_t k = 0; k < scores.categories.size(); ++k) {
    findings.clear();
    while (object_groups.at(k) || found_groups.at(k)) {
      const size_t image = std::min(object_groups.image(k), found_groups.image(k));
      const auto here = object_groups.take(k, image);
      const auto taken = found_groups.take(k, image);
      count_objects(here, scores.categories[k]);
      matcher.match(here, taken.first(std::min(taken.size(), kMostOfImage)), findings);
    }
    read_scores(findings, scores.categories[k]);
  }
  scores.all = average_scores(scores.categories);
  return scores;
}

}  // namespace assay::data
