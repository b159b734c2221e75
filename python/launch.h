#pragma once

#include "python/engine.h"
#include "python/named.h"
#include "python/view.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>

#include <optional>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// What users say of a launch besides arrays; see weft.attention.
struct LaunchOptions {
  bool heads_first;
  nb::object inputs, offset, cu_q, cu_k, seed;
  int threads;
  nb::object stream;
};

/// Arrays that were looked at and fit each other, and the C face's arguments, which point into them. What takes part in
/// a forward pass and its backward pass is here; results are added to `args`.
class Launch {
 public:
  Launch(const Kernel& kernel, nb::object q, nb::object k, nb::object v, const LaunchOptions& said);

  const View& q() const { return *q_; }
  const View& k() const { return *k_; }
  const View& v() const { return *v_; }
  /// Of an input of the pattern; null where it is not given.
  const View* input(const char* name) const { return inputs_->find(name); }

  Extents shape_of_out() const;
  weft_run_shape shape() const {
    return {batch(), rows(), k_->extent(tokens_axis()), heads(), k_->extent(heads_axis()), 0, 0, 0, 0, 0};
  }
  /// Of the kind that the pattern has.
  Extents shape_of_lse() const;
  /// There is no row: nothing is to be written.
  bool no_rows() const { return batch() == 0 || heads() == 0 || rows() == 0; }
  /// There is no key: O is 0. The engine takes neither.
  bool no_keys() const { return k_->extent(tokens_axis()) == 0; }

  Stream& stream() { return stream_; }
  /// Without the interpreter's lock.
  void run();

  weft_run_args args = weft_run_args_init();

 private:
  void look(std::optional<View>& out, nb::object array, const char* name);
  void look_at_seed(const nb::object& said);
  /// Borders of weft/_arrays.py: those of sequences, and the most tokens of one.
  const std::int32_t* look_at_borders(std::optional<View>& out, const nb::object& said, const char* name,
                                      std::int64_t& most);
  nb::object scratch_of_a_graph(const weft_error& error);

  int heads_axis() const { return heads_first_ ? 1 : 2; }
  int tokens_axis() const { return heads_first_ ? 2 : 1; }
  std::int64_t batch() const { return q_->extent(0); }
  std::int64_t rows() const { return q_->extent(tokens_axis()); }
  std::int64_t heads() const { return q_->extent(heads_axis()); }

  const Kernel& kernel_;
  bool heads_first_;
  Stream stream_;
  std::optional<View> q_, k_, v_, seed_, cu_q_at_, cu_k_at_;
  std::optional<NamedViews> inputs_;
  std::vector<std::int64_t> offset_, cu_q_, cu_k_;
};

/// A new array of the library and the device of `like`. `dtype`: f32, or that of `like`.
nb::object empty_like(const View& like, const Extents& shape, const std::string& dtype);

/// The same when its values are there, as arrays of the library of `like` whose arrays do not change.
nb::object written(const View& like, nb::object array);

/// Exception where it is no attention's q, k or v.
void check_axes(const View& view, bool heads_first);

}  // namespace weft::python
