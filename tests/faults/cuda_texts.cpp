#include "tests/faults/texts.h"

/// Faults of the kernels for GPUs, in device headers and in what writes the rest.
namespace weft::test {
namespace {

constexpr const char* kRace = "race";
constexpr const char* kOutOfBounds = "out of bounds";
constexpr const char* kPending = "copy that nobody waits for";

constexpr const char* kSinks =
    "branch window(70, -2); branch window(30, -2); sink_logit h * 6 - 3;";  // above and below its head's scores
constexpr const char* kSigmoids = "branch window(70, -2); branch window(30, -2); weights sigmoid(s - 2);";
constexpr const char* kClasses = "branches dilated(segments: [512, 1024], rates: [3, 4]);";
constexpr const char* kSettled = "branch causal; branch window(1200, 0);";
constexpr const char* kDocuments =  // an input stands in it, so that there are summaries
    "input t: i32[batch, tokens]; let of_k = (k + 17) / 45 + min(t[b, k], 0); let of_q = (q + 17) / 45 + min(t[b, q], "
    "0);"
    "branch where(of_k == of_q) on heads 0..1; branch causal - where(of_k == of_q) on heads 1..2;"
    "branch where(of_k % 3 == of_q % 3) on heads 2..3;"
    "branch where(of_k <= of_q) on heads 3..4;"
    "branch where(of_k <= of_q) & blocks(16, random(3, seed: 7)) on heads 4..6;";

// Several blocks of keys, and so many that the list of them comes round.
constexpr Size kSomeRows = {.queries = 200, .keys = 700, .heads = 1, .d = 32, .d_v = 16};
constexpr Size kManyRows = {.queries = 600, .heads = 1, .d = 32};
constexpr Size kFourHeads = {.queries = 150, .heads = 4, .kv_heads = 2, .d = 32, .d_v = 16};
constexpr Size kSixHeads = {.queries = 150, .heads = 6, .kv_heads = 2, .d = 32, .d_v = 16};
constexpr Size kManyKeys = {.queries = 150, .keys = 1500, .heads = 1, .d = 32};

}  // namespace

const std::vector<Text>& cuda_texts() {
  static const std::vector<Text> texts = {
      // Two dilated branches in a window: full and partial blocks, multiplicities, several blocks a row.
      {.name = "lanes",
       .pattern = "branches dilated(segments: [512, 1024], rates: [1, 2]); keep window(500, 0);",
       .faults = {{"barrier_before_scores", kRace},
                  {"barrier_behind_scores", kRace},
                  {"barrier_before_values", kRace},
                  {"weights_stored_too_early", kRace},
                  {"chunk_over_the_one_at_hand", kRace},
                  {"maxima_seen_too_early", kRace},
                  {"barrier_after_keys", kRace},
                  {"barrier_of_few", "barrier"},
                  {"mask_one_too_far"},
                  {"mask_one_too_short"},
                  {"full_zone_too_wide"},
                  {"counts_of_one_row_for_all"},
                  {"no_rescale"},
                  {"no_rescale_of_the_sum"},
                  {"row_sum_of_two_lanes"},
                  {"multiplicity_ignored"},
                  {"multiplicity_ignored_in_whole_blocks"},
                  {"keys_of_two_zones_taken_to_ascend"},
                  {"key_beyond_the_last", kOutOfBounds},
                  {"row_of_another_tile", kOutOfBounds},
                  {"column_twice"},
                  {"swizzle_forgotten"},
                  {"values_in_another_order"},
                  {"misaligned_maxima", "misaligned"}},
       .size = kSomeRows,
       .sharpness = 3},

      // Conditions on pairs, a head each. By a value of the key: of documents in no order but by tiles, three tokens
      // each, which are more runs in a tile than are asked one by one; by two, of which pairs are asked for the second.
      {.name = "values",
       .pattern = "input t: i32[batch, tokens];"
                  "branch document(t) on heads 0..1;"
                  "branch causal - document(t) on heads 1..2;"
                  "branch where(t[b, k] <= t[b, q]) on heads 2..3;"
                  "branch where(q % 7 == k % 7) & where(q % 3 == k % 3) on heads 3..4;"
                  "branch causal - document(t) - where(q % 3 == k % 3) on heads 4..5;",
       .faults = {{"more_runs_than_there_is_room_for"},
                  {"one_value_more_of_a_row"},
                  {"one_value_less_of_a_row"},
                  {"end_of_an_interval_one_too_near"},
                  {"begin_of_an_interval_one_too_far"},
                  {"ends_of_the_first_row_alone"},
                  {"begins_of_the_first_row_alone"},
                  {"negation_dropped_by_the_values"},
                  {"none_of_keys_that_some_row_keeps"},
                  {"interval_for_its_opposite"},
                  {"a_value_the_first_row_does_not_keep"},
                  {"second_condition_on_values_overlooked"},
                  {"negation_dropped_for_pairs"}},
       .size = {.queries = 180, .heads = 5}},
      // Documents of 45 tokens, by a head: its own, all others, every third, those before, chosen blocks of those. But
      // for the second and the third, the keys of a row follow each other.
      {.name = "value_bounds",
       .pattern = kDocuments,
       .faults = {{"a_block_whose_largest_value_is_kept_is_kept"},
                  {"blocks_that_are_partly_kept_are_none"},
                  {"keys_with_others_between_are_an_interval"},
                  {"every_run_keeps_the_first_ones_keys"},
                  {"bounds_for_their_opposite"},
                  {"the_first_run_bounds_the_tile"},
                  {"what_some_runs_keep_all_must"},
                  {"rows_that_begin_with_the_tile"},
                  {"rows_that_end_with_the_tile"},
                  {"blocks_asked_of_bounds"}},
       .size = kSixHeads},
      {.name = "value_bounds_of_matrices",
       .pattern = kDocuments,
       .faults = {{"rows_that_begin_with_the_tile"}, {"rows_that_end_with_the_tile"}},
       .target = "sm_80",
       .size = kSixHeads},
      // By lists: four runs of rows a tile, and blocks of keys that share an answer.
      {.name = "blocks",
       .pattern = "branch blocks(16, random(1, seed: 7)) on heads 0..1;"
                  "branch causal - blocks(16, random(3, seed: 7)) on heads 1..2;"
                  "branch causal - blocks(8, random(3, seed: 7)) on heads 2..3;"  // of no unit: each key is asked
                  "branch blocks(16, random(3, seed: 7)) on heads 3..5;",
       .faults = {{"boundary_at_a_warp_missed"},
                  {"the_row_before_a_run_for_it"},
                  {"one_row_asked_for_its_tile"},
                  {"one_key_asked_for_its_block"},
                  {"block_behind_the_one_to_go_to"},
                  {"list_of_the_next_row", kOutOfBounds},
                  {"list_of_another_head"},
                  {"place_beside_the_one_looked_for"},
                  {"last_place_never_read"},
                  {"place_behind_the_last", kOutOfBounds},
                  {"block_of_the_next_query"},
                  {"block_of_the_next_key"},
                  {"zone_full_for_rows_that_disagree"},
                  {"negation_dropped_by_the_filter"},
                  {"negation_dropped_by_the_runs"}},
       .size = {.queries = 180, .heads = 5}},
      // By runs of rows, by each pair, where it is no interval of keys, and by rows alone.
      {.name = "runs",
       .pattern = "branch where((q / 16 + k) % 3 == 0) on heads 0..1;"
                  "branch where((q / 16 + k) % 3 == 0) & where((q / 32 + k) % 2 == 0) on heads 1..2;"
                  "branch where((q * 3 + k * k) % 5 < 2) on heads 2..3;"
                  "branch window(100, 40) & where((q * 3 + k * k) % 5 < 4) on heads 3..4;"
                  "branch window(20, 0) & where(q * q % 5 != 1) on heads 4..5;"
                  "branch causal & where(q * q % 5 != 1) on heads 5..6;",
       .faults = {{"no_boundary_of_runs_seen"},
                  {"runs_of_the_second_warp_over_the_first", kRace},
                  {"only_the_last_run_is_asked"},
                  {"filter_accepted_for_rows_that_disagree"},
                  {"runs_that_fail_are_kept"},
                  {"row_of_the_run_before"},
                  {"runs_that_fail_for_some_keys"},
                  {"runs_that_fail_for_some_keys_fail_for_all"},
                  {"two_conditions_in_the_same_bits"},
                  {"mask_of_a_neighbouring_row"},
                  {"mask_of_a_neighbouring_key"},
                  {"keys_before_the_last_row_begins"},
                  {"rows_that_meet_are_overlooked"},
                  {"rows_that_fail_are_overlooked"},
                  {"rows_that_fail_keep_all"},
                  {"keys_that_the_first_row_does_not_keep"}},
       .size = {.heads = 6}},

      // Sinks and weights that are no softmax's, of two branches that share keys and rows without keys.
      {.name = "sinks",
       .pattern = kSinks,
       .faults = {{"sink_of_another_head"},
                  {"sink_in_base_e"},
                  {"sum_as_before_sinks"},
                  {"o_as_before_sinks"},
                  {"barrier_behind_sinks", kRace},
                  {"sinks_left_out"}},
       .size = kFourHeads},
      {.name = "sinks_of_matrices",
       .pattern = kSinks,
       .faults = {{"o_as_before_sinks"}},
       .target = "sm_80",
       .size = kFourHeads},
      {.name = "sigmoids",
       .pattern = kSigmoids,
       .faults = {{"sigmoids_divided"}, {"counted_once"}, {"unkept_pairs_weigh"}},
       .size = kFourHeads},
      {.name = "sigmoids_of_matrices",
       .pattern = kSigmoids,
       .faults = {{"as_large_as_multiplied"}},
       .target = "sm_80",
       .size = kFourHeads},

      // The first tile's keys begin with a multiple of 4, those of the second do not.
      {.name = "dropout_of_matrices",
       .pattern = "keep window(90, 3); dropout 0.3;",
       .faults = {{"draws_of_the_other_row"}, {"lanes_share_draws_of_other_keys"}},
       .target = "sm_80"},

      // Sums that settle after every few keys instead of thousands, so that short rows show what long ones do.
      {.name = "settled_lanes",
       .pattern = kSettled,
       .faults = {{"sums_of_lanes_not_scaled"}, {"settled_sums_forgotten"}, {"settled_sums_begin_anew"}},
       .size = kManyKeys,
       .rising = true,
       .beside = "settles_every_round"},
      {.name = "settled_matrices",
       .pattern = kSettled,
       .faults = {{"sums_of_matrices_not_scaled"}, {"settled_sums_forgotten"}, {"settled_sums_begin_anew"}},
       .target = "sm_80",
       .size = {.queries = 190, .keys = 2100, .heads = 1, .d = 72},  // the last tile's rows are too few for runs
       .rising = true,
       .beside = "settles_every_round"},
      {.name = "settled_runs",
       .pattern = "branch all;",
       .faults = {{"sums_of_matrices_not_scaled"}, {"settled_sums_forgotten"}},
       .target = "sm_80",
       .size = {.queries = 80, .keys = 8500, .heads = 1, .d = 16},
       .rising = true},

      // Matrix instructions. Two windows: full and partial blocks, which one or two branches keep, and more keys than
      // the
      // list is long.
      {.name = "matrices",
       .pattern = "branch window(600, 0); branch window(300, 0);",
       .faults = {{"copies_not_waited_for", kRace},
                  {"values_before_the_barrier", kRace},
                  {"steps_read_before_the_barrier", kRace},
                  {"rows_behind_the_last_not_zero", kByNothing},
                  {"chunk_of_other_columns"},
                  {"rows_behind_the_last_read", kOutOfBounds},
                  {"row_of_q"},
                  {"row_of_k"},
                  {"row_of_v"},
                  {"keys_of_runs_listed_again"},
                  {"part_of_a_block_taken_for_a_whole"},
                  {"terms_of_a_run_keep_other_keys"},
                  {"values_not_transposed"},
                  {"halves_of_b_swapped"},
                  {"weights_of_the_other_keys"},
                  {"no_counts_of_partial_blocks"},
                  {"no_counts_of_full_blocks"},
                  {"no_rescale_of_fragments"},
                  {"no_rescale_of_a_lanes_sum"},
                  {"sum_of_half_a_rows_lanes"},
                  {"results_of_the_next_chunk"},
                  {"results_read_before_they_stand", kRace}},
       .target = "sm_80",
       .size = kSomeRows,
       .sharpness = 8},
      // Rows of O that end within 16 bytes.
      {.name = "odd_columns",
       .pattern = "branch causal;",
       .faults = {{"columns_behind_the_last_one", kOutOfBounds}},
       .target = "sm_80",
       .size = {.queries = 100, .heads = 2, .d = 32, .d_v = 20}},
      // Tiles of rows that no zone is kept by, or no key of one.
      {.name = "tiles_without_keys",
       .pattern = "branch window(600, -100) on heads 0..1; branch where(k * k == q / 64 + 99990) on heads 1..2;",
       .faults = {{"copies_of_no_zone_not_waited_for", kPending}, {"copies_of_no_key_not_waited_for", kPending}},
       .target = "sm_80",
       .size = {.queries = 150, .heads = 2, .d = 32, .d_v = 16}},
      // Rows that lie evenly, and some that do not: of rates 3 and 4, three rows of twelve keep what the first alone
      // keeps.
      {.name = "classes",
       .pattern = kClasses,
       .faults = {{"rows_taken_to_lie_evenly"}, {"places_by_the_next_row"}},
       .size = kManyRows},
      {.name = "classes_of_matrices",
       .pattern = kClasses,
       .faults = {{"rows_taken_to_lie_evenly"}, {"places_by_the_next_row"}},
       .target = "sm_80",
       .size = kManyRows},

      // Decoding: warps share rows, and each has keys of its own. Terms that miss some of them, and scores that grow
      // from one warp's keys to the next one's.
      {.name = "decoding",
       .pattern = "branch window(599, 0) on heads 0..1; branch causal & where(k % 3 != 1) on heads 1..2;"
                  "branch (where(k % 2 == 0) & where(q * q % 5 != 1)) | (where(k % 4 == 1) & where(q * q % 5 != 4)) on "
                  "heads 2..3; score s + 0.2 * (k % 64);",
       .faults = {{"warps_share_the_first_keys"},
                  {"hits_of_the_first_warp_for_all"},
                  {"sums_of_warps_from_their_own_maximum"}},
       .target = "sm_80",
       .size = {.queries = 5, .keys = 700, .heads = 3, .d = 32, .d_v = 16},
       .sharpness = 8},
      // Four warps that multiply together.
      {.name = "groups",
       .pattern = "branch window(150, 20); schedule { groups: 1; }",
       .faults = {{"pieces_of_k_side_by_side"}, {"rows_of_the_first_tile"}, {"values_of_other_keys"}},
       .target = "sm_90a",
       .size = {.queries = 200, .keys = 700, .heads = 1, .d = 32, .d_v = 16}},
      // The same of listed keys alone.
      {.name = "listed_matrices",
       .pattern = "branch window(600, 0) & where(k % 3 != 1); branch window(300, 0) & where(k % 3 != 1);",
       .faults = {{"copies_waited_for_behind_the_barrier", kRace},
                  {"keys_before_the_barrier", kRace},
                  {"lanes_that_do_not_agree", "deadlock"},
                  {"bound_one_too_far"}},
       .target = "sm_80",
       .size = kSomeRows,
       .sharpness = 8},
      // Runs in which each row keeps an interval of the keys; of two terms, one as far as they touch.
      {.name = "bounded_runs",
       .pattern = "branch window(150, 20);",
       .faults = {{"rows_of_a_run_keep_one_more"},
                  {"first_row_of_the_next", kOutOfBounds},
                  {"bounds_of_the_block_before"},
                  {"rows_of_a_run_are_not_masked"},
                  {"ends_in_a_runs_block_are_behind_it"}},
       .target = "sm_80",
       .size = {.queries = 200, .keys = 700, .heads = 1, .d = 32, .d_v = 16}},
      {.name = "runs_of_two_terms",
       .pattern = "branch window(30, 0) | (window(200, 0) - window(60, 0));",
       .faults = {{"keys_between_two_terms_are_kept"}},
       .target = "sm_80",
       .size = {.queries = 200, .keys = 700, .heads = 1, .d = 32, .d_v = 16}},
      {.name = "scored_runs",
       .pattern = "branch causal; score s + 0.02 * (k % 64);",
       .faults = {{"scores_of_a_run_by_the_first_key"}},
       .target = "sm_80",
       .size = kSomeRows},
      // Blocks of keys that all rows choose are runs: below the diagonal, and of two lists that meet within a block.
      // Not of
      // rows that disagree.
      {.name = "sets",
       .pattern = "branch causal & blocks(64, random(4, seed: 7)) on heads 0..1;"
                  "branch (sink(100) & blocks(64, random(4, seed: 9))) |"
                  "       (where(k >= 100) & causal & blocks(64, random(4, seed: 11))) on heads 1..3;",
       .faults = {{"sets_of_one_unit_more"}, {"sets_of_other_terms_joined"}, {"sets_known_of_other_terms"}},
       .target = "sm_80",
       .size = {.queries = 400, .heads = 3, .d = 32, .d_v = 16}},
      {.name = "sets_of_some_rows",
       .pattern = "branch causal & where((q / 32 + k / 64) % 3 == 0);",
       .faults = {{"sets_of_rows_that_disagree"}},
       .target = "sm_80",
       .size = kSomeRows},
      // Lists of which the next chosen block lies behind all that are asked at once.
      {.name = "long_lists",
       .pattern = "branch blocks(32, random(2, seed: 7)) on heads 0..1;"
                  "branch blocks(32, random(1, seed: 3)) | blocks(32, random(1, seed: 4)) on heads 1..2;",
       .faults = {{"lists_of_the_first_run_followed_for_all"}, {"lists_of_the_last_term_followed"}},
       .target = "sm_80",
       .size = {.queries = 200, .keys = 20000, .heads = 2, .d = 16}},
      // Of two terms of a zone: steps of which neither has the other's keys, and counts that no block of keys begins
      // with as the one before.
      {.name = "two_steps",
       .pattern = "branch where(k % 2 == 1) on heads 0..1; branch where(k % 4 == 2) on heads 0..1;"
                  "branch where(k % 3 == 1) on heads 1..2; branch all on heads 1..2;",
       .faults = {{"step_of_one_term_for_all"}, {"counts_of_the_block_before"}},
       .target = "sm_80",
       .size = {.queries = 60, .keys = 700, .heads = 2, .d = 32, .d_v = 16}},
      // What keys of a block are apart: of keys left out, of two zones, of every other key, and of a zone that ends
      // between two of its keys, where another begins.
      {.name = "steps",
       .pattern = "branch causal & where(k % 7 != 3) on heads 0..1;"
                  "branch (window(299, 0) - window(149, 0)) | sink(100) & causal on heads 1..2;"
                  "branch dilated(700, 2) on heads 2..3;"
                  "branch where(k % 2 == 0) & sink(101) on heads 3..4;"
                  "branch where(k % 2 == 1) & causal & (all - sink(101)) on heads 3..4;",
       .faults = {{"keys_left_out_overlooked"},
                  {"keys_left_out_by_one_warp_overlooked"},
                  {"zones_that_do_not_follow"},
                  {"fewer_keys_than_the_block"},
                  {"steps_overlooked"},
                  {"rows_too_near"},
                  {"chunk_of_other_columns_in_steps"},
                  {"next_key_of_a_zone_that_ended"},
                  {"keys_with_gaps_taken_for_a_run"}},
       .target = "sm_80",
       .size = {.queries = 190, .keys = 700, .heads = 4, .d = 72, .d_v = 16}},
      // Terms whose bounds hold keys of another's steps, and so many zones that they are closed up in turns.
      {.name = "hits_and_zones",
       .pattern = "branch (where(k % 2 == 0) & causal) | (where(k % 4 == 1) & window(50, 0)) on heads 0..1;"
                  "branch (window(3, 0) | (window(23, 0) - window(20, 0)) | (window(43, 0) - window(40, 0)) |"
                  "        (window(63, 0) - window(60, 0)) | (window(83, 0) - window(80, 0)) |"
                  "        (window(103, 0) - window(100, 0)) | (window(123, 0) - window(120, 0)) |"
                  "        (window(143, 0) - window(140, 0)) | (window(163, 0) - window(160, 0)) |"
                  "        (window(183, 0) - window(180, 0))) on heads 1..2;",
       .faults = {{"keys_between_bounds_without_a_hit"}, {"zones_over_the_first_ones"}},
       .target = "sm_80",
       .size = {.queries = 200, .keys = 700, .heads = 2, .d = 32, .d_v = 16}},
      // Blocks of keys that two terms choose, on this side of a border and on that one.
      {.name = "chosen_blocks",
       .pattern = "branch (blocks(64, random(3, seed: 3)) & window(100, 0)) |"
                  "       (blocks(64, random(3, seed: 5)) - window(100, 0));",
       .faults = {{"blocks_known_of_other_terms"}},
       .target = "sm_80",
       .size = {.queries = 200, .keys = 1400, .heads = 1, .d = 32, .d_v = 16}},
      // Units of 16 keys: of a zone that ends inside of one, and in steps that lead past one.
      {.name = "chosen_units",
       .pattern = "branch blocks(16, where(k % 5 != 2)) & sink(317) on heads 0..1;"
                  "branch blocks(16, where(k % 4 < 1)) & where(k % 24 == 3) on heads 1..2;",
       .faults = {{"units_of_their_neighbours"},
                  {"block_behind_those_that_are_set"},
                  {"units_behind_the_end_of_a_zone"},
                  {"keys_passed_over_overlooked"},
                  {"steps_over_units_end_in_one_that_is_set", "out of bounds"}},
       .target = "sm_80",
       .size = {.queries = 60, .keys = 9000, .heads = 2, .d = 32, .d_v = 16}},
      // Tiles of 16 rows that keep some keys of a block; two terms that both count; and tiles that keep all or none.
      {.name = "tiles",
       .pattern = "branch blocks(32, random(3, seed: 5)) | window(20, 0) on heads 0..1;"
                  "branch window(40, 0) | (window(300, 0) - window(200, 0)) on heads 1..2;",
       .faults = {{"tiles_half_kept_are_not_masked"}, {"rows_of_another_term"}},
       .target = "sm_80",
       .size = {.queries = 200, .keys = 700, .heads = 2, .d = 32, .d_v = 16}},
      {.name = "whole_tiles",
       .pattern = "branch blocks(32, window(1, 0));",
       .faults = {{"tiles_without_a_pair_weigh"}},
       .target = "sm_80",
       .size = {.queries = 192, .keys = 704, .heads = 1, .d = 32, .d_v = 16}},
      {.name = "two_sums",
       .pattern = "branch window(40, 0) & where(k % 3 != 1); branch window(300, 0) & where(k % 3 != 1); combine sum;",
       .faults = {{"rows_of_the_softmax_before"}},
       .target = "sm_80",
       .size = kSomeRows},
  };
  return texts;
}

}  // namespace weft::test
