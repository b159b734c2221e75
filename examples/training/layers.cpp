#include "layers.h"

#include <algorithm>
#include <cmath>

void multiply(const float* x, const float* w, float* out, std::int64_t rows, std::int64_t inputs,
              std::int64_t outputs) {
  std::fill_n(out, rows * outputs, 0.0F);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      const float factor = x[r * inputs + i];
      for (std::int64_t o = 0; o < outputs; ++o) out[r * outputs + o] += factor * w[i * outputs + o];
    }
  }
}

void multiply_backward(const float* x, const float* w, const float* d_out, float* d_x, float* d_w, std::int64_t rows,
                       std::int64_t inputs, std::int64_t outputs) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const from = d_out + r * outputs;
    for (std::int64_t i = 0; i < inputs; ++i) {
      float sum = 0;
      const float factor = x[r * inputs + i];
      for (std::int64_t o = 0; o < outputs; ++o) {
        sum += from[o] * w[i * outputs + o];
        d_w[i * outputs + o] += factor * from[o];
      }
      d_x[r * inputs + i] += sum;
    }
  }
}

namespace {

float inverse_rms(const float* row, std::int64_t width) {
  double squares = 0;
  for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(row[i]) * row[i];
  return static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + 1e-6));
}

}  // namespace

void normalize(const float* x, const float* gain, float* out, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float scale = inverse_rms(x + r * width, width);
    for (std::int64_t i = 0; i < width; ++i) out[r * width + i] = x[r * width + i] * scale * gain[i];
  }
}

void normalize_backward(const float* x, const float* gain, const float* d_out, float* d_x, float* d_gain,
                        std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, d_out += width, d_x += width) {
    const float scale = inverse_rms(x, width);
    double along = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      d_gain[i] += d_out[i] * x[i] * scale;
      along += static_cast<double>(d_out[i]) * gain[i] * x[i];
    }
    const auto pull = static_cast<float>(along * scale * scale / static_cast<double>(width));
    for (std::int64_t i = 0; i < width; ++i) d_x[i] += scale * (d_out[i] * gain[i] - x[i] * pull);
  }
}

void activate(const std::vector<float>& x, std::vector<float>& out) {
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] > 0 ? x[i] * x[i] : 0;
}

void activate_backward(const std::vector<float>& x, const std::vector<float>& d_out, std::vector<float>& d_x) {
  for (std::size_t i = 0; i < x.size(); ++i) d_x[i] += x[i] > 0 ? 2 * x[i] * d_out[i] : 0;
}

double cross_entropy(std::vector<float>& logits, const std::vector<std::uint8_t>& targets, std::int64_t classes) {
  double loss = 0;
  const auto rows = static_cast<double>(targets.size());
  for (std::size_t r = 0; r < targets.size(); ++r) {
    float* const row = logits.data() + r * static_cast<std::size_t>(classes);
    const float most = *std::max_element(row, row + classes);
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(row[c]) - most);
    const double lse = most + std::log(sum);
    loss += lse - row[targets[r]];
    for (std::int64_t c = 0; c < classes; ++c) row[c] = static_cast<float>(std::exp(row[c] - lse) / rows);
    row[targets[r]] -= static_cast<float>(1 / rows);
  }
  return loss / rows;
}
