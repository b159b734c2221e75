#pragma once

#include "tools/arrays.h"
#include "tools/console.h"
#include "tools/options.h"
#include "tools/pattern_file.h"

#include <weft/weft.h>

#include <map>
#include <utility>
#include <vector>

/// The tensors of one launch, owned: from files, or random.
namespace weft::tools {

/// What the spans of a launch's arguments refer to.
struct Views {
  std::vector<NamedInput> inputs;
  std::vector<OutputView> lists;
};

struct Operands {
  Array q, k, v, out, lse, branch_lse;
  std::vector<Array> lists;   ///< as of Kernel::lists; empty: not wanted
  std::vector<Array> inputs;  ///< in the order of Pattern::inputs
  std::vector<std::string> input_names;
  std::vector<std::int64_t> offset;
  RowSlice slice;                            ///< of a sequence, whose rows q, out and LSE have
  bool heads_first = false;                  ///< arrays are [B, H, n, d]
  std::map<std::string, std::string> files;  ///< what came from where, for messages

  ir::Shape shape() const;
  /// Which axis of q, out and the like counts rows.
  std::size_t row_axis() const { return heads_first ? 2 : 1; }
  /// A view of an array, as [B, n, H, d].
  template <typename V>
  V rows_first(V view) const {
    if (heads_first && view.rank == 4) {
      std::swap(view.extent[1], view.extent[2]);
      std::swap(view.stride[1], view.stride[2]);
    }
    return view;
  }
  /// Of an array that has all rows, those of the slice.
  Array rows_of_slice(Array whole) const;
  /// Views of everything. `lse` and `branch_lse` only where they were allocated.
  RunArgs args(const Options& options, Views& views);
  /// Poisons the outputs: what is not written shows.
  void poison();
  std::int64_t bytes() const;
  /// A launch that was refused, with what each tensor is and where it came from.
  Error with_files(Error error) const;
};

bool has_tensors(const Options& options);

/// q, k and v from the files that the options name.
Result<Operands> read_operands(const Options& options);

/// Normal random ones of these sizes. Environment error where the machine's memory cannot hold them.
Result<Operands> random_operands(const Options& options, const Sizes& sizes, std::int64_t n_q, std::int64_t n_k);

/// `name=X.npy` pairs of a repeatable option.
Result<std::map<std::string, std::string>> named_files(const std::vector<std::string>& texts, const char* option);

/// With the nearest name, or those that there are.
Error no_such_input(const std::string& name, const ir::Pattern& pattern);

/// The pattern's inputs that the options name, in its order; nothing for the others. User error for a name that the
/// pattern does not have, with the nearest one it has, and for a file that does not fit.
Result<std::vector<std::optional<Array>>> given_inputs(const Options& options, const ir::Pattern& pattern,
                                                       const ir::Shape& shape);

/// The pattern's inputs: from files, or made up where q, k and v were.
Status add_inputs(Operands& operands, const Options& options, const ir::Pattern& pattern);
Status add_offset(Operands& operands, const Options& options);
/// Leaves of Q the rows that the options ask for. User error where there are none such.
Status cut_rows(Operands& operands, const Options& options);

/// Sizes that tensors fix, for what a pattern leaves open.
Sizes sizes_of(const Operands& operands);

}  // namespace weft::tools
