#pragma once

#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"

#include <functional>
#include <vector>

/// Single pairs of a block, for one vector of rows and one key at a time. Of functions with `ptr %positions, i64
/// %count` among their parameters.
namespace weft::codegen::cpu {

/// Position of a key of the block: i64.
Value key_position(Part& f, const Value& key);

/// The score for the rows from lane v on, and what gradients want of it, with everything that no key changes computed.
Expression score_of_rows(Part& f, const Value& v);

/// Keys of a full block, or those of the groups that a vector of rows keeps, with values handed from key to key.
using EachKey = std::function<std::vector<Value>(const Value&, std::vector<Value>)>;
std::vector<Value> each_key(Part& f, bool kept, std::vector<Value> initial, const EachKey& body);

/// Does dropout leave the pairs of a key? `drawn` is the group of four keys that was drawn last, -1 at first; the
/// second value is what it is now.
struct Drawn {
  Value stays, four;
};
Drawn draw_for(Part& f, const Value& key, const Value& drawn, const Value& v);

}  // namespace weft::codegen::cpu
