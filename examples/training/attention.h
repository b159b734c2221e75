#pragma once

#include <weft/weft.h>

#include <cstdint>
#include <string>
#include <vector>

/// LongNet's attention with its gradients: two kernels of one pattern. Rows of q, k and v stand behind one another,
/// [batch, tokens, 3, heads, dim], as one matrix product makes them.
struct AttentionSizes {
  std::int64_t batch, tokens, heads, dim;
  std::int64_t width() const { return heads * dim; }
};

class Attention {
 public:
  /// Throws std::runtime_error with what is wrong.
  Attention(const weft::Engine& engine, const std::string& pattern, const AttentionSizes& sizes);

  /// Writes out, [batch, tokens, heads, dim], and the LSE of each row, [batch, heads, tokens], which the backward
  /// reads.
  void forward(const std::vector<float>& qkv, std::vector<float>& out, std::vector<float>& lse) const;
  /// Writes the gradients of q, k and v where they stand in `d_qkv`.
  void backward(const std::vector<float>& qkv, std::vector<float>& out, std::vector<float>& lse,
                const std::vector<float>& d_out, std::vector<float>& d_qkv) const;

 private:
  weft::RunArgs arguments(const std::vector<float>& qkv, std::vector<float>& out, std::vector<float>& lse) const;

  AttentionSizes sizes_;
  weft::Kernel forward_, backward_;
};
