#include "tests/faults/texts.h"

/// Faults of kernels for CPUs: in what writes micro-kernels, and in the walk that calls them.
namespace weft::test {

const std::vector<Text>& cpu_texts() {
  static const std::vector<Text> texts = {
      // Several branches and rows by class; segments that a tile's rows share.
      {.name = "branches",
       .pattern = "branches dilated(segments: [128, 256], rates: [1, 2]);",
       .faults = {{"rows_of_a_class_further_apart"},
                  {"stream_without_its_residue"},
                  {"weight_of_other_branches_forgotten"}},
       .target = "cpu"},
      {.name = "window",
       .pattern = "branch window(50, 0);",
       .faults = {{"end_of_the_first_row_alone"}, {"a_row_begins_one_too_late"}, {"full_for_some_rows_alone"}},
       .target = "cpu"},
      // Documents in no order but by tiles, three tokens each: more runs in a tile than are asked one by one.
      {.name = "documents",
       .pattern = "input t: i32[batch, tokens]; branch document(t);",
       .faults = {{"boundary_missed_where_a_part_falls"},
                  {"more_runs_than_are_kept"},
                  {"end_of_what_rows_reach_too_near"},
                  {"begin_of_what_rows_reach_too_far"},
                  {"many_runs_keep_nothing"},
                  {"one_bound_of_a_run_not_asked"}},
       .target = "cpu"},
      {.name = "other_documents",
       .pattern = "input t: i32[batch, tokens]; branch causal - document(t);",
       .faults = {{"negation_dropped_by_the_mask"}, {"mask_not_applied"}, {"less_taken_for_not_more"}},
       .target = "cpu"},
      {.name = "chosen_blocks",
       .pattern = "branch blocks(16, random(3, seed: 5));",
       .faults = {{"answer_outlives_its_block_of_keys"},
                  {"list_of_the_first_row"},
                  {"number_beside_the_one_looked_for"},
                  {"next_of_the_first_run_for_all"}},
       .target = "cpu"},
      {.name = "other_blocks",
       .pattern = "branch causal - blocks(16, random(3, seed: 5));",
       .faults = {{"runs_that_do_not_keep_are_overlooked"}, {"filter_by_the_list_of_the_first_row"}},
       .target = "cpu"},
      {.name = "runs",
       .pattern = "branch where((q / 16 + k) % 3 == 0);",
       .faults = {{"no_boundary_of_runs_walked"}, {"runs_that_keep_are_overlooked"}},
       .target = "cpu"},
      {.name = "some_rows",
       .pattern = "branch window(20, 0) & where(q * q % 5 != 1);",
       .faults = {{"rows_that_fail_are_not_seen"}},
       .target = "cpu"},
      // Lines of a grid: intervals of keys.
      {.name = "grid",
       .pattern = "grid 20, 10; branch neighborhood(size: [5, 5]);",
       .faults = {{"run_beyond_its_line"},
                  {"keys_of_a_line_taken_for_one"},
                  {"stream_not_moved_behind_a_run"},
                  {"masks_left_behind_the_last_key"},
                  {"one_key_behind_the_last_of_a_row"},
                  {"masks_left_where_a_vector_keeps_nothing"}},
       .target = "cpu"},
      {.name = "sparse_grid",
       .pattern = "grid 20, 10; branch neighborhood(size: [5, 5], dilation: [2, 2]);",
       .faults = {},
       .target = "cpu"},
  };
  return texts;
}

}  // namespace weft::test
