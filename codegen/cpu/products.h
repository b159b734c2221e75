#pragma once

#include "codegen/cpu/kernel.h"

/// Products of small matrices in registers, and where their factors stand: what the blocks of both directions are made
/// of.
namespace weft::codegen::cpu {

/// Words of Q and K in one turn of the score loop: enough to hide its overhead; twice as many cost half again
/// as much compile time for nothing measurable.
inline constexpr int kColumns = 4;

/// A K row as products take it: in place, or copied to the scratch once a block. It is read once from end to end.
Value key_row(Part& f, const Value& rows, const Value& key);
/// A V row likewise: of one key, or of a pair.
Value value_row(Part& f, const Value& key);
/// A number of a row for all lanes.
Value broadcast(Part& f, const Value& row, const Value& column);
/// Vectors of rows from lane v on, of row number `row` of a matrix [][rows] of f32.
std::vector<Value> vectors_at(Part& f, const Value& base, const Value& row, const Value& v, int vectors);

/// What one step of a product multiplies: each number, broadcast, with each vector.
struct Factors {
  std::vector<Value> vectors;
  std::function<Value(std::size_t)> number;
};
/// Sums over the steps from `begin` to `end`, `unroll` of them a turn: those of the first number with each vector, then
/// the next number's.
std::vector<Value> products(Part& f, const Value& begin, const Value& end, int unroll, std::size_t numbers, int vectors,
                            const std::function<Factors(const Value&)>& at,
                            const std::function<void(const Value&)>& each_turn = {});

/// Asks for what the turn of word c has of the next block's rows: of as many keys as are being scored, from `key` on,
/// each row of K and V once by the last column (with fewer than 16 columns some are left out). A line at a time: many
/// at once would wait for the line buffers.
void ask_ahead(Part& f, const Value& key, int keys, const Value& c);

/// Does any of the rows hold a NaN or an infinity? `row` gives the address of each, of so many words.
Value holds_wild(Part& f, const Value& rows, int words, const std::function<Value(const Value&)>& row);

}  // namespace weft::codegen::cpu
