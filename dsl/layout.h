#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::dsl {

/// Text with places where lines may break. A group is written on one line where it fits; else each
/// of its own breaks becomes a new line, and the groups inside decide for themselves.
class Layout {
 public:
  using Id = std::uint32_t;

  Id text(std::string text);
  Id space();      ///< a blank, or a new line
  Id softbreak();  ///< nothing, or a new line
  Id new_line();   ///< always; the groups around it break
  Id concat(std::vector<Id> parts);
  Id group(Id content);
  Id packed(Id content);        ///< a group in front of which a line may end: as many as fit share a line
  Id nest(int by, Id content);  ///< new lines inside are indented further

  /// Lines behind the first begin with `indent` blanks; the first begins at `column`.
  std::string render(Id root, int indent, int column) const;

 private:
  enum class Kind { text, space, softbreak, new_line, concat, group, packed, nest };
  struct Node {
    Kind kind;
    std::string text = {};
    std::vector<Id> parts = {};
    int by = 0;
    bool breaks = false;  ///< holds a new line
  };
  struct Todo {
    Id id;
    int indent;
    bool flat;
  };
  Id add(Node node);
  bool fits(std::vector<Todo> todo, const std::vector<Todo>& rest, int room) const;

  std::vector<Node> nodes_;
};

inline constexpr int kLineWidth = 120;

}  // namespace weft::dsl
