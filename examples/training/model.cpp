#include "model.h"

#include "layers.h"

#include <algorithm>
#include <cmath>

Model::Model(const weft::Engine& engine, const std::string& pattern, const AttentionSizes& sizes, int layers,
             std::uint64_t seed)
    : sizes_(sizes),
      attention_(engine, pattern, sizes),
      rows_(sizes.batch * sizes.tokens),
      width_(sizes.width()),
      inner_(4 * width_),
      kept_(static_cast<std::size_t>(layers)) {
  std::mt19937_64 random(seed);
  const double spread = 1 / std::sqrt(static_cast<double>(width_));
  embeddings_ = add(kBytes * width_, spread, random);
  for (int i = 0; i < layers; ++i) {
    layers_.push_back({.attention_gain = add(width_, 0, random),
                       .qkv = add(width_ * 3 * width_, spread, random),
                       .out = add(width_ * width_, spread / 2, random),
                       .gain = add(width_, 0, random),
                       .up = add(width_ * inner_, spread, random),
                       .down = add(inner_ * width_, spread / 4, random)});
  }
  last_gain_ = add(width_, 0, random);
  gradients.resize(parameters.size());
}

/// Normal numbers, or ones.
std::size_t Model::add(std::int64_t numbers, double spread, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, spread > 0 ? spread : 1);
  const std::size_t at = parameters.size();
  for (std::int64_t i = 0; i < numbers; ++i)
    parameters.push_back(spread > 0 ? static_cast<float>(normal(random)) : 1.0F);
  return at;
}

void Model::forward(const Layer& at, Kept& kept, std::vector<float>& x) const {
  const auto sized = [&](std::vector<float>& of, std::int64_t columns) {
    of.resize(static_cast<std::size_t>(rows_ * columns));
    return of.data();
  };
  const auto* const p = parameters.data();
  kept.x = x;
  normalize(kept.x.data(), p + at.attention_gain, sized(kept.normal, width_), rows_, width_);
  multiply(kept.normal.data(), p + at.qkv, sized(kept.qkv, 3 * width_), rows_, width_, 3 * width_);
  sized(kept.attended, width_);
  sized(kept.lse, sizes_.heads);
  attention_.forward(kept.qkv, kept.attended, kept.lse);
  multiply(kept.attended.data(), p + at.out, sized(kept.middle, width_), rows_, width_, width_);
  for (std::size_t i = 0; i < x.size(); ++i) kept.middle[i] += kept.x[i];
  normalize(kept.middle.data(), p + at.gain, sized(kept.normal_middle, width_), rows_, width_);
  multiply(kept.normal_middle.data(), p + at.up, sized(kept.up, inner_), rows_, width_, inner_);
  sized(kept.active, inner_);
  activate(kept.up, kept.active);
  multiply(kept.active.data(), p + at.down, x.data(), rows_, inner_, width_);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += kept.middle[i];
}

/// From the gradient of what a layer gives to that of what it is given.
void Model::backward(const Layer& at, Kept& kept, std::vector<float>& d_x) {
  const auto zeros = [&](std::int64_t columns) {
    return std::vector<float>(static_cast<std::size_t>(rows_ * columns));
  };
  const auto* const p = parameters.data();
  auto* const g = gradients.data();
  auto d_active = zeros(inner_), d_up = zeros(inner_), d_normal = zeros(width_);
  multiply_backward(kept.active.data(), p + at.down, d_x.data(), d_active.data(), g + at.down, rows_, inner_, width_);
  activate_backward(kept.up, d_active, d_up);
  multiply_backward(kept.normal_middle.data(), p + at.up, d_up.data(), d_normal.data(), g + at.up, rows_, width_,
                    inner_);
  std::vector<float> d_middle = d_x;
  normalize_backward(kept.middle.data(), p + at.gain, d_normal.data(), d_middle.data(), g + at.gain, rows_, width_);
  auto d_attended = zeros(width_), d_qkv = zeros(3 * width_);
  multiply_backward(kept.attended.data(), p + at.out, d_middle.data(), d_attended.data(), g + at.out, rows_, width_,
                    width_);
  attention_.backward(kept.qkv, kept.attended, kept.lse, d_attended, d_qkv);
  std::fill(d_normal.begin(), d_normal.end(), 0.0F);
  multiply_backward(kept.normal.data(), p + at.qkv, d_qkv.data(), d_normal.data(), g + at.qkv, rows_, width_,
                    3 * width_);
  d_x = d_middle;
  normalize_backward(kept.x.data(), p + at.attention_gain, d_normal.data(), d_x.data(), g + at.attention_gain, rows_,
                     width_);
}

double Model::loss(const std::vector<std::uint8_t>& bytes, const std::vector<std::uint8_t>& next, bool with_gradients) {
  const auto width = static_cast<std::size_t>(width_);
  std::vector<float> x(bytes.size() * width), normal(x.size());
  for (std::size_t r = 0; r < bytes.size(); ++r)
    std::copy_n(parameters.data() + embeddings_ + bytes[r] * width, width, x.data() + r * width);
  for (std::size_t i = 0; i < layers_.size(); ++i) forward(layers_[i], kept_[i], x);
  normalize(x.data(), parameters.data() + last_gain_, normal.data(), rows_, width_);

  // The embeddings again, [bytes, width], turned.
  std::vector<float> turned(static_cast<std::size_t>(kBytes) * width), d_turned(turned.size());
  const auto each_number = [&](const auto& body) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(kBytes); ++c) {
      for (std::size_t i = 0; i < width; ++i)
        body(embeddings_ + c * width + i, i * static_cast<std::size_t>(kBytes) + c);
    }
  };
  each_number([&](std::size_t from, std::size_t to) { turned[to] = parameters[from]; });
  std::vector<float> logits(bytes.size() * static_cast<std::size_t>(kBytes));
  multiply(normal.data(), turned.data(), logits.data(), rows_, width_, kBytes);
  const double loss = cross_entropy(logits, next, kBytes);
  if (!with_gradients) return loss;

  std::fill(gradients.begin(), gradients.end(), 0.0F);
  std::vector<float> d_normal(x.size()), d_x(x.size());
  multiply_backward(normal.data(), turned.data(), logits.data(), d_normal.data(), d_turned.data(), rows_, width_,
                    kBytes);
  each_number([&](std::size_t to, std::size_t from) { gradients[to] += d_turned[from]; });
  normalize_backward(x.data(), parameters.data() + last_gain_, d_normal.data(), d_x.data(),
                     gradients.data() + last_gain_, rows_, width_);
  for (std::size_t i = layers_.size(); i-- > 0;) backward(layers_[i], kept_[i], d_x);
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    for (std::size_t i = 0; i < width; ++i) gradients[embeddings_ + bytes[r] * width + i] += d_x[r * width + i];
  }
  return loss;
}
