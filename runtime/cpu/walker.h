#pragma once

#include "codegen/cpu/micro_kernels.h"
#include "compiler/walk/rows.h"
#include "compiler/walk/zones.h"

#include <cstddef>
#include <cstdint>

namespace weft::cpu {

struct Sums;

using codegen::cpu::Condition;
using codegen::cpu::Layout;
using codegen::cpu::MicroKernels;
using walk::i64;
using walk::u64;

/// For addresses: a stride that no step is taken by may be any number, so that what it makes wraps.
inline u64 times(i64 a, i64 b) { return static_cast<u64>(a) * static_cast<u64>(b); }

/// One call of a kernel: its tiles one after the other, in the call's scratch. It is the environment of compiler/walk.
class Walker {
 public:
  /// `sums`: of gradients.
  Walker(const MicroKernels& kernels, const weft_args& args, Sums* sums);

  void tiles();
  void summarize();

  // What compiler/walk asks.
  i64 x_begin = 0, x_end = 0;
  i64 y_begin = 0, y_end = 0;  ///< where keys are cut, of the chunk
  i64 word(const i64* at) const { return *at; }
  const i64* table(i64 offset) const { return a_.tables + offset; }
  i64 input(i64 number) const;
  i64 part(i64 b, i64 a) const { return b * a_.n_k / a; }
  i64 form(i64 number, i64 x) const { return kernels_.form(&a_, s_, number, x); }
  const walk::Said& said(i64 number) const { return condition(number).said; }
  walk::TermState& state(i64 t) const { return *in_scratch<walk::TermState>(at_.terms + t * at_.term_stride); }
  i64 modulus(i64 number) const;
  walk::Answer answers(i64 number, i64 y);

 private:
  template <typename T>
  T* in_scratch(i64 offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(s_) + offset);
  }
  i64& fact(codegen::cpu::TileWord w) const { return in_scratch<i64>(0)[w]; }

  // walker.cpp
  void open(i64 b, i64 h);
  void seed() const;
  bool make_rows(const i64* head, const walk::Tiles& tiles, i64 tile);
  bool find_present();
  i64 row_in_memory(i64 r) const;
  /// Where rows of a tensor over queries stand: address of position 0 of the tile's first head; bytes to the next.
  struct QueryRows {
    u64 first, row, head;
    i64 at(i64 x, i64 of_head) const {
      return static_cast<i64>(first + static_cast<u64>(x) * row + static_cast<u64>(of_head) * head);
    }
  };
  QueryRows query_rows(const weft_view& view) const;
  void find_rows() const;
  void run_tile(const i64* head, i64 passes);
  void load_queries() const;
  void run_tile_of_phases(const i64* head, i64 phases);
  void run_pass(const i64* pass);
  void sweep(const i64* pass, bool full);
  void join_sink() const;
  void finish_pass(const i64* pass) const;
  /// Of row r of the tile, where its state is kept between launches.
  float* carried(i64 r, i64 pass, i64 chunk = 0) const;
  void carry(bool in, i64 pass = 0) const;
  void fold(i64 pass, i64 chunk) const;
  void merge_tile(const i64* head) const;

  // keys.cpp
  /// Rows of K, or of V, of the tile.
  struct KeyRows {
    u64 first = 0, step = 0;  ///< address of key 0, bytes from key to key …
    u64 page = 0;             ///< … and from page to page, where they stand in pages
  };
  KeyRows key_rows(const weft_view& view) const;
  i64 address(const KeyRows& rows, i64 y) const;
  /// A block of keys that is being filled, or waits for its turn: addresses of rows, positions, weights.
  struct Block {
    i64 *keys, *values, *positions, *sums;
    float* weights;
    std::byte* branches;  ///< who keeps which key in which branch, where each has a delta of its own
  };
  void put_keys(const Block& block, i64 at, i64 y, i64 rate, i64 take) const;
  i64 pad(const Block& block, i64 count, i64 step) const;
  void run_full(int number, i64 count);
  void rotate();
  void flush_full();
  void flush_partial();
  void keep_none(i64 at) const;
  void count_additions(i64 additions);
  void full_zone(const i64* pass, i64 count, i64 hi);
  bool progressions(const i64* pass, i64 count, i64 base, i64 hi);
  bool rows_decide(const i64* term, const walk::TermState& state) const;
  template <typename Put>
  i64 by_blocks(i64 y, i64 end, i64 rate, const Put& put);
  template <typename Put>
  void walk_runs(const i64* pass, i64 hi, const Put& put);
  void walk_progression(const i64* pass, i64 count, i64 base, i64 hi);
  void add_weights(const i64* pass, i64 count, i64 base, float* weights, i64 first, i64 take);
  void walk_merged(const i64* pass, i64 count, i64 hi);
  void partial_zone(const i64* pass, i64 count, i64 hi);
  void put_partial_keys(i64 y, i64 rate, i64 take) const;
  i64 end_of_run(const i64* term, const walk::TermState& state, i64 y, i64 hi) const;
  bool has_intervals(const i64* term, const walk::TermState& state) const;
  void find_intervals(const i64* pass);

  // gradients.cpp
  struct OfRow {
    float lse, d_lse;
  };
  OfRow of_row(const i64* pass, i64 r) const;
  void find_gradient_rows(const i64* pass, bool one_pass) const;
  void load_gradient_rows(const i64* pass, bool one_pass) const;
  void measure_from(const i64* pass) const;
  void find_deltas(const i64* pass) const;
  void add_sinks(const i64* pass) const;
  void run_gradient_tile(const i64* head, i64 passes);
  void run_gradient_pass(const i64* pass, bool one_pass);
  void clear_branches() const;
  void find_branch_deltas() const;
  template <typename Body>
  void each_mask(const Block& block, i64 branch, i64 at, const Body& body) const;
  void in_no_branch(const Block& block, i64 at, i64 take) const;
  void in_branch(const Block& block, i64 branch, i64 at, i64 step, i64 end) const;
  void kept_in_branch(const Block& block, i64 branch, i64 at, i64 take) const;
  void put_sums(const Block& block, i64 at, i64 y, i64 rate, i64 take) const;
  void run_gradient_block(int number, i64 count, bool full);
  bool takes_part();
  bool is_there(i64 r) const;
  i64 drop_keys_of_others(const Block& block, i64 count, bool full) const;
  void lend_inputs() const;
  void take_back_inputs() const;

  // conditions.cpp
  Condition& condition(i64 number) const { return in_scratch<Condition>(at_.conditions_at)[number]; }
  void describe() const;
  void describe_pairs(Condition& c) const;
  void answer(i64 number, Condition& c, i64 y) const;
  void ask_summary(const Condition& c, i64 y, walk::Answer& to) const;
  i64 next_listed(const Condition& c, i64 y) const;
  void know_line(Condition& c, i64 y, bool inside, i64& end) const;

  const MicroKernels& kernels_;
  const Layout& at_;
  const weft_args& a_;
  void* s_;
  Sums* sums_;
  bool few_;  ///< the launch has so few queries that full blocks have lanes for columns

  i64 softmaxes_ = 1;  ///< of a row

  // Of the tile.
  walk::Rows rows_;
  KeyRows k_, v_;
  const std::uint8_t* there_ = nullptr;  ///< of a part: rows of the tile's key/value head that are there, by token
  bool others_ = false;                  ///< of a part: no row of the tile is its own
  bool narrow_ = false;                  ///< it has rows for at most half of the vectors: see ir::full_block

  // Of the pass.
  Block blocks_[2];  ///< full ones; a partial one is the first
  i64* cuts_;        ///< of zones
  i64 cut_count_ = 0;
  i64* zone_terms_;
  bool intervals_found_ = false;  ///< of each row and term
  int filling_ = 0;               ///< which block …
  i64 filled_ = 0;                ///< … has so many keys; …
  bool pending_ = false;          ///< … the other is full and waits
  i64 additions_ = 0;             ///< to the tile's sums since they were settled
  bool settled_ = false;          ///< are there settled sums?
  bool only_delta_ = false;       ///< of gradients: the walk finds rowsum(dP * P) and nothing else
};

}  // namespace weft::cpu
