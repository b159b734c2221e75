#pragma once

#include "tests/support/program.h"
#include "tests/support/random_numbers.h"
#include "tests/support/random_program.h"

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// The parts of random_program: one file writes statements, one sets, one expressions. Not for other use.
namespace weft::test {

/// What the writer may name at a place.
struct Place {
  std::int64_t n_k = 0;                 ///< tokens, or blocks inside `blocks`
  std::int64_t block = 0;               ///< tokens a block; 0: not inside `blocks`
  std::vector<std::string> bound = {};  ///< integers that comprehensions around it bind
};

/// A piece of text, made from what it says.
struct Piece {
  Piece(std::string s) : text(std::move(s)) {}
  Piece(const char* s) : text(s) {}
  Piece(bool value) : text(value ? "true" : "false") {}
  Piece(std::int64_t value) : text(std::to_string(value)) {}
  std::string text;
};

/// Pieces in place of each `{}` in turn, or of `{0}`. A braced list, for it is evaluated from left to right everywhere:
/// the arguments of a call are not, and every piece may draw numbers.
std::string form(const char* layout, std::initializer_list<Piece> pieces);

class ProgramWriter {
 public:
  ProgramWriter(std::uint64_t seed, const ProgramOptions& options);
  Program write();

 private:
  struct Name {
    std::string name;
    std::int64_t size = 0;  ///< of a list
  };

  // Statements, in random_program.cpp.
  void draw_shape();
  void draw_ends();
  std::string constants();
  std::string parameters();
  std::string helper();
  std::string body();
  std::string sizes();
  std::string branches();
  std::string dilated_branches();
  std::string head_policy(std::int64_t count);
  std::string lets();
  std::string combine();
  std::string weights(const std::string& combine);
  std::string endings();
  void add_parameter(std::string& out, const std::string& type, const std::vector<std::string>& values);

  // Sets, in random_program_sets.cpp.
  std::string set(int nesting, const Place& place);
  std::string leaf(const Place& place);
  std::string plain_leaf(const Place& place);
  std::string input_leaf(const Place& place);
  std::string neighborhood(const Place& place);
  std::string blocks(const Place& place);
  std::string dilated_arguments();
  std::string phase(std::int64_t rate);
  std::int64_t length(const Place& place);

  // Expressions, in random_program_expressions.cpp.
  std::string condition(int nesting, const Place& place);
  std::string relation(const Place& place);
  std::string comparison(int nesting, const Place& place);
  std::string integer(int nesting, const Place& place);
  std::string integer_leaf(const Place& place);
  std::string over_list(const char* word, int nesting, const Place& place, bool boolean);
  std::string list();
  std::string score(int nesting);
  std::string summand();
  std::string scale();
  /// An integer of at least 1 that is known before the run, now and then by name.
  std::string size(std::int64_t value);
  std::string element(const Place& place, const std::string& type, const std::string& role);

  /// The name of an input of these axes, declared if it is new.
  std::string input(const std::string& role, const std::string& type, const std::string& axes, const Place& place);

  RandomNumbers random_;
  ProgramOptions options_;
  Program program_;
  std::vector<std::int64_t> grid_;
  std::vector<Name> integers_, reals_, booleans_, integer_lists_, real_lists_;
  std::vector<std::string> sets_;  ///< lets of sets, for places outside `blocks`
  std::string inputs_;             ///< declarations
  std::set<std::string> declared_;
  bool indexed_by_q_ = false;  ///< so that negative positions are an error
  bool neighbors_ = false;     ///< so that there must be as many queries as keys
};

}  // namespace weft::test
