// Trains a small causal language model with LongNet attention on the bytes of some files, and says how the loss falls.
//
//   training [--steps N] FILE...

#include "model.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

namespace {

// Dilated branches as in the paper, and a penalty on distance: the model has no other notion of position.
constexpr const char* kPattern = R"(
pattern longnet {
  branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]);
  keep causal;
  score s - alibi(h) * (q - k);
}
)";
constexpr AttentionSizes kSizes = {.batch = 4, .tokens = 256, .heads = 4, .dim = 16};
constexpr int kLayers = 2;

std::vector<std::uint8_t> read(int count, char** files) {
  std::vector<std::uint8_t> out;
  for (int i = 0; i < count; ++i) {
    std::ifstream file(files[i], std::ios::binary);
    if (!file) throw std::runtime_error(std::string("cannot read ") + files[i]);
    out.insert(out.end(), std::istreambuf_iterator<char>(file), {});
  }
  return out;
}

/// Pieces of the text, each with the one that begins a byte later.
class Text {
 public:
  Text(std::vector<std::uint8_t> bytes, std::uint64_t seed) : bytes_(std::move(bytes)), random_(seed) {
    if (bytes_.size() < static_cast<std::size_t>(2 * kSizes.tokens)) throw std::runtime_error("the text is too short");
  }
  void draw(std::vector<std::uint8_t>& piece, std::vector<std::uint8_t>& next) {
    const auto tokens = static_cast<std::size_t>(kSizes.tokens);
    piece.clear();
    next.clear();
    for (std::int64_t b = 0; b < kSizes.batch; ++b) {
      const auto* const at = bytes_.data() + random_() % (bytes_.size() - tokens - 1);
      piece.insert(piece.end(), at, at + tokens);
      next.insert(next.end(), at + 1, at + 1 + tokens);
    }
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::mt19937_64 random_;
};

/// The slope of the loss along its gradient, by two losses, over the gradient's square, which is what it should be.
double check(Model& model, const std::vector<std::uint8_t>& piece, const std::vector<std::uint8_t>& next) {
  model.loss(piece, next);
  const auto gradients = model.gradients, parameters = model.parameters;
  double square = 0;
  for (const float g : gradients) square += static_cast<double>(g) * g;
  const double step = 1e-2 / std::sqrt(square);
  const auto loss_at = [&](double far) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      model.parameters[i] = static_cast<float>(parameters[i] + far * gradients[i]);
    return model.loss(piece, next, false);
  };
  const double slope = (loss_at(step) - loss_at(-step)) / (2 * step);
  model.parameters = parameters;
  return slope / square;
}

/// Adam, without decay.
class Optimizer {
 public:
  explicit Optimizer(std::size_t parameters) : mean_(parameters), square_(parameters) {}
  void step(Model& model) {
    constexpr double kRate = 3e-3, kMean = 0.9, kSquare = 0.99, kLeast = 1e-8;
    ++steps_;
    const double mean_share = 1 - std::pow(kMean, steps_), square_share = 1 - std::pow(kSquare, steps_);
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      const double g = model.gradients[i];
      mean_[i] = static_cast<float>(kMean * mean_[i] + (1 - kMean) * g);
      square_[i] = static_cast<float>(kSquare * square_[i] + (1 - kSquare) * g * g);
      const double moved = mean_[i] / mean_share / (std::sqrt(square_[i] / square_share) + kLeast);
      model.parameters[i] -= static_cast<float>(kRate * moved);
    }
  }

 private:
  int steps_ = 0;
  std::vector<float> mean_, square_;
};

int train(int steps, Text text) {
  const weft::Engine engine;
  Model model(engine, kPattern, kSizes, kLayers, 1);
  Optimizer optimizer(model.parameters.size());
  std::vector<std::uint8_t> piece, next;
  text.draw(piece, next);
  const double ratio = check(model, piece, next);
  std::printf("%zu parameters; the loss's slope along its gradient is %.4f of what it should be\n",
              model.parameters.size(), ratio);
  double first = 0, last = 0;
  for (int step = 1; step <= steps; ++step) {
    text.draw(piece, next);
    last = model.loss(piece, next);
    if (step == 1) first = last;
    optimizer.step(model);
    if (step == 1 || step % 10 == 0) {
      std::printf("step %4d  loss %.3f\n", step, last);
      std::fflush(stdout);
    }
  }
  return std::abs(ratio - 1) < 0.005 && last < first ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 100, files = 1;
  if (argc > 2 && std::string_view(argv[1]) == "--steps") {
    steps = std::atoi(argv[2]);
    files = 3;
  }
  if (argc <= files || steps < 1) {
    std::fprintf(stderr, "usage: training [--steps N] FILE...\n");
    return 2;
  }
  try {
    return train(steps, Text(read(argc - files, argv + files), 2));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training: %s\n", error.what());
    return 1;
  }
}
