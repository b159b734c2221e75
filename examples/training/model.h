#pragma once

#include "attention.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

/// A language model of bytes: embeddings, layers of attention and of two matrices with an activation between them, and
/// the embeddings again to tell the next byte. All parameters stand in one vector, their gradients in another.
class Model {
 public:
  static constexpr std::int64_t kBytes = 256;

  Model(const weft::Engine& engine, const std::string& pattern, const AttentionSizes& sizes, int layers,
        std::uint64_t seed);

  /// Mean loss of so many bytes, [batch, tokens], each told by those before; the gradients of all parameters.
  double loss(const std::vector<std::uint8_t>& bytes, const std::vector<std::uint8_t>& next,
              bool with_gradients = true);

  std::vector<float> parameters, gradients;

 private:
  /// Places in the parameters.
  struct Layer {
    std::size_t attention_gain, qkv, out, gain, up, down;
  };
  /// What a layer's backward wants of its forward.
  struct Kept {
    std::vector<float> x, normal, qkv, attended, lse, middle, normal_middle, up, active;
  };

  void forward(const Layer& at, Kept& kept, std::vector<float>& x) const;
  void backward(const Layer& at, Kept& kept, std::vector<float>& d_x);
  std::size_t add(std::int64_t numbers, double spread, std::mt19937_64& random);

  AttentionSizes sizes_;
  Attention attention_;
  std::int64_t rows_, width_, inner_;
  std::size_t embeddings_ = 0, last_gain_ = 0;
  std::vector<Layer> layers_;
  std::vector<Kept> kept_;
};
