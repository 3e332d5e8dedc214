#include "sdk/data/augment/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sdk/base/philox.h"

namespace assay::data {
namespace {

using Pixels = std::vector<uint8_t>;  // four bytes each

Pixels noise(int height, int width) {
  PhiloxStream random(3, 4);
  Pixels pixels(static_cast<size_t>(4 * height * width));
  for (uint8_t& byte : pixels) byte = static_cast<uint8_t>(random.below(256));
  return pixels;
}

Pixels resample(const Pixels& source, int width, Resampler& resampler) {
  const int first = resampler.columns.source_begin();
  resampler.restart();
  for (int y = resampler.rows.source_begin(); y < resampler.rows.source_end(); ++y) {
    resampler.add_row(source.data() + 4 * (y * width + first));
  }
  const uint8_t* result = resampler.finish();
  return {result, result + 4 * resampler.rows.count() * resampler.columns.count()};
}

Pixels resize(const Pixels& source, int height, int width, int to_height, int to_width) {
  Resampler resampler;
  resampler.rows.plan(0, height, height, to_height, 0, to_height);
  resampler.columns.plan(0, width, width, to_width, 0, to_width);
  return resample(source, width, resampler);
}

// The triangle as an integral-free sum in f64, rounded once per pass as the contract says.
double weight_sum(const std::vector<double>& line, double from, int to, int position) {
  const double step = from / to, reach = std::max(step, 1.0), centre = (position + 0.5) * step;
  double sum = 0, total = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double weight =
        std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - centre) / reach);
    sum += weight * line[i];
    total += weight;
  }
  return sum / total;
}

TEST(Resample, MatchesTheFilterInDouble) {
  for (const auto& [height, width, to_height, to_width] :
       {std::array{7, 9, 5, 4}, {5, 4, 11, 9}, {1, 1, 3, 5}, {40, 3, 4, 30}, {16, 16, 16, 16}}) {
    const Pixels source = noise(height, width);
    const Pixels result = resize(source, height, width, to_height, to_width);
    for (int y = 0; y < to_height; ++y) {
      for (int x = 0; x < to_width; ++x) {
        for (int c = 0; c < 4; ++c) {
          std::vector<double> column;
          for (int row = 0; row < height; ++row) {
            std::vector<double> line;
            for (int i = 0; i < width; ++i)
              line.push_back(source[static_cast<size_t>(4 * (int64_t{row} * width + i) + c)]);
            column.push_back(std::floor(weight_sum(line, width, to_width, x) + 0.5));
          }
          const double expected = weight_sum(column, height, to_height, y);
          // Half a level from the last rounding, and a whole one where the first met a tie.
          ASSERT_NEAR(result[static_cast<size_t>(4 * (y * to_width + x) + c)], expected, 1.5)
              << height << "x" << width << " " << y << "," << x;
        }
      }
    }
  }
}

TEST(Resample, SameSizeChangesNothing) {
  const Pixels source = noise(13, 21);
  EXPECT_EQ(resize(source, 13, 21, 13, 21), source);
}

TEST(Resample, FlatStaysFlat) {
  for (const int value : {0, 1, 127, 254, 255}) {
    const Pixels source(4 * 50 * 30, static_cast<uint8_t>(value));
    for (const uint8_t byte : resize(source, 50, 30, 7, 90)) ASSERT_EQ(byte, value);
  }
}

TEST(Resample, PartsAreCutsOfTheWhole) {
  const int height = 37, width = 53, to_height = 29, to_width = 71;
  const Pixels source = noise(height, width);
  const Pixels whole = resize(source, height, width, to_height, to_width);
  Resampler resampler;
  resampler.rows.plan(0, height, height, to_height, 11, 9);
  resampler.columns.plan(0, width, width, to_width, 40, 20);
  EXPECT_GT(resampler.rows.source_begin(), 0);  // and it does not ask for more than it needs
  EXPECT_LT(resampler.rows.source_end(), height);
  const Pixels part = resample(source, width, resampler);
  for (int y = 0; y < 9; ++y) {
    for (int x = 0; x < 80; ++x) {
      ASSERT_EQ(part[static_cast<size_t>(80 * y + x)],
                whole[static_cast<size_t>(4 * to_width * (y + 11) + 160 + x)]);
    }
  }
}

TEST(Resample, FractionalStretches) {
  ResampleAxis axis;
  axis.plan(0.25, 1.5, 2, 1, 0, 1);  // centre 1.0 between the two samples
  ASSERT_EQ(axis.taps(), 2);
  EXPECT_EQ(axis.weights(0)[0], axis.weights(0)[1]);
  axis.plan(0.5, 1, 2, 1, 0, 1);
  EXPECT_EQ(axis.weights(0)[0], 1 << 21);
}

TEST(Resample, WeightsAddUpToOne) {
  ResampleAxis axis;
  for (const int to : {1, 7, 224, 1000}) {
    axis.plan(0, 613, 613, to, 0, to);
    for (int i = 0; i < to; ++i) {
      const int32_t* weights = axis.weights(i);
      const int64_t sum = std::accumulate(weights, weights + axis.taps(), int64_t{0});
      ASSERT_NEAR(static_cast<double>(sum), 1 << 22, axis.taps());
      ASSERT_GE(axis.begin(i), 0);
      ASSERT_LE(axis.begin(i) + axis.taps(), 613);
    }
  }
}

}  // namespace
}  // namespace assay::data
