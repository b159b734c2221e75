#pragma once

#include "compiler/base/diagnostic.h"
#include "dsl/ast.h"
#include "dsl/diagnostics.h"

#include <string>
#include <string_view>
#include <vector>

namespace weft::dsl {

/// What is to be said about a text, up to kMostFindings.
class Findings {
 public:
  explicit Findings(std::string_view source, Shown shown = Shown::by_text) : source_(source), shown_(shown) {}

  /// The diagnostic may be added to until the next call.
  Diagnostic& add(Code code, SourceRange range, std::string message, std::string label = {});

  std::size_t count() const { return found_.size(); }
  /// Is an error among them?
  bool failed() const { return failed_; }
  bool full() const { return found_.size() >= kMostFindings; }
  /// Sorted by place.
  std::vector<Diagnostic> take() &&;

  /// The text of a range, shortened for a message.
  std::string text(SourceRange range) const;
  /// The text of a range, whole.
  std::string whole(SourceRange range) const;
  /// `text` as it may stand in the place of `range`: in parentheses where an operator is beside it.
  std::string embedded(const std::string& text, SourceRange range) const;
  /// Where the first `sign` in the range stands, comments aside; an empty range at its end if nowhere.
  SourceRange find_sign(SourceRange range, std::string_view sign) const;

 private:
  std::string_view source_;
  Shown shown_;
  bool failed_ = false;
  std::vector<Diagnostic> found_;
  Diagnostic scratch_;  ///< takes what is beyond the limit
};

/// Adds a note or a fix that names the nearest of `candidates`, when one is near.
void suggest(Diagnostic& d, const std::string& word, SourceRange range, const std::vector<std::string>& candidates);

}  // namespace weft::dsl
