#pragma once

#include "compiler/ir/pattern.h"
#include "tests/support/program.h"

#include <weft/ring.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Programs on the ranks of a ring, one thread each, beside the same on one device.
namespace weft::test {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// What one rank came to.
struct RankOutcome {
  Status status = done;
  RingShare share = {}, backward = {};
  RingSummary summary = {};
};

/// What is wrong with what ranks say of a pass, an error of theirs or bytes that do not add up; empty: nothing.
std::string wrong_bytes(const std::vector<RankOutcome>& outcomes, RingShare RankOutcome::*pass);
std::size_t sent_bytes(const std::vector<RankOutcome>& outcomes, RingShare RankOutcome::*pass);

/// A program whose values are made, and a kernel of it. Its queries and keys are the same tokens.
class RingRunner {
 public:
  /// `gradients`: every run is of both passes, of a dO and dLSE that are made.
  RingRunner(Program program, const std::string& target, bool gradients = false);

  /// Why nothing can be run; empty: it can.
  const std::string& refused() const { return refused_; }
  const Program& program() const { return program_; }

  /// On one device.
  Status run_whole();
  /// On as many ranks as there are transports, `times` runs of one plan. `lend`: K and V are written into the ring's
  /// memory where it has one run of tokens.
  std::vector<RankOutcome> run_ring(Transports transports, const RingOptions& options, int times = 1,
                                    bool lend = false);
  /// Rows of the ring, and of its gradients, whose bits are not those of the whole, and gradients of inputs that are
  /// not the same on all ranks and the whole's but for rounding, in words; empty: none.
  std::string difference() const;
  /// How far O and LSE of the ring are from the whole's, as numbers: see near.h.
  double apart() const;
  const std::vector<std::byte>& out() const { return ring_out_; }

  /// Changes what one rank believes, before it plans: for tests of disagreement.
  std::function<void(int rank, RingShape&)> distort = {};

 private:
  /// Gradients of f32 inputs, by their number among all.
  using OfInputs = std::map<std::size_t, std::vector<float>>;

  void run_rank(std::unique_ptr<Transport> transport, const RingOptions& options, int times, bool lend,
                RankOutcome& outcome);
  std::int64_t lse_of_a_row() const { return std::max<std::int64_t>(1, branches_); }
  OutputView lse_of(std::vector<float>& numbers, std::int64_t rows) const;
  /// Makes room for them, and says where it is.
  std::vector<NamedOutput> places_of(OfInputs& gradients) const;
  std::string difference_of_inputs() const;
  Status run_whole_backward(RunArgs args);
  Status run_backward(Ring& ring, const RingShape& shape, RingArgs args, int times, RankOutcome& outcome);

  Program program_;
  std::string refused_;
  DType dtype_ = DType::f32;
  std::vector<std::byte> q_, k_, v_, whole_out_, ring_out_;
  std::vector<float> whole_lse_, ring_lse_;
  bool has_lse_ = false;
  std::int64_t branches_ = 0;  ///< where each has an LSE of its own
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::string> names_;
  std::vector<NamedInput> named_;
  std::optional<Kernel> kernel_, backward_;
  std::vector<std::byte> d_out_;
  std::vector<float> d_lse_;
  std::array<std::vector<std::byte>, 3> whole_d_, ring_d_;  ///< of Q, K and V
  OfInputs whole_inputs_;
  std::vector<OfInputs> ring_inputs_;
};

}  // namespace weft::test
