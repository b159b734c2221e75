#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// What a model has beside attention, forward and backward, on rows of f32. Backward functions add to gradients.

/// out[rows, outputs] = x[rows, inputs] w[inputs, outputs]
void multiply(const float* x, const float* w, float* out, std::int64_t rows, std::int64_t inputs, std::int64_t outputs);
void multiply_backward(const float* x, const float* w, const float* d_out, float* d_x, float* d_w, std::int64_t rows,
                       std::int64_t inputs, std::int64_t outputs);

/// out = x / rms(x) * gain, row by row
void normalize(const float* x, const float* gain, float* out, std::int64_t rows, std::int64_t width);
void normalize_backward(const float* x, const float* gain, const float* d_out, float* d_x, float* d_gain,
                        std::int64_t rows, std::int64_t width);

/// Squares of what is positive.
void activate(const std::vector<float>& x, std::vector<float>& out);
void activate_backward(const std::vector<float>& x, const std::vector<float>& d_out, std::vector<float>& d_x);

/// Mean over rows of -log softmax(logits)[target]; the logits become their gradients.
double cross_entropy(std::vector<float>& logits, const std::vector<std::uint8_t>& targets, std::int64_t classes);
