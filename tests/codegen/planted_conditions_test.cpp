#include "codegen/cpu/emit.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "runtime/emulate/compiler.h"
#include "runtime/emulate/process.h"
#include "runtime/emulate/scratch.h"
#include "tests/codegen/cpu_runner.h"
#include "tests/ir/problem.h"
#include "tests/support/places.h"
#include "tests/support/planted.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

/// Faults planted in the code of conditions on pairs, as planted_test.cpp does in the rest, and in what walks keys for
/// CPUs: each changes one place of a text, and makes a result wrong that is right without it.
namespace weft::testing {
namespace {

namespace fs = std::filesystem;

// Documents in no order but by tiles, three tokens each: more runs in a tile than are asked one by one.
constexpr const char* kDocuments = "input t: i32[batch, tokens]; branch document(t);";
constexpr const char* kOthers = "input t: i32[batch, tokens]; branch causal - document(t);";
constexpr const char* kChosen = "branch blocks(16, random(3, seed: 5));";
constexpr const char* kNotChosen = "branch causal - blocks(16, random(3, seed: 5));";
constexpr const char* kRuns = "branch where((q / 16 + k) % 3 == 0);";
// Lines of a grid: intervals of keys.
constexpr const char* kGrid = "grid 20, 10; branch neighborhood(size: [5, 5]);";
constexpr const char* kSparseGrid = "grid 20, 10; branch neighborhood(size: [5, 5], dilation: [2, 2]);";
// Conditions on rows alone.
constexpr const char* kSomeRows = "branch window(20, 0) & where(q * q % 5 != 1);";

struct Planted {
  const char* name;
  const char* pattern;
  const char* from;
  const char* to;
  const char* where = "";  ///< CPU: the function that it stands in
  const char* found = "";  ///< part of the emulator's message; empty where the numbers give the fault away
};

/// Regular expressions that stand once in the body of a micro-kernel.
constexpr Planted kOnCpu[] = {
    {"nothing_in_documents", kDocuments, "", ""},
    {"nothing_in_other_documents", kOthers, "", ""},
    {"nothing_in_chosen_blocks", kChosen, "", ""},
    {"nothing_in_other_blocks", kNotChosen, "", ""},
    {"nothing_in_runs", kRuns, "", ""},
    {"nothing_in_some_rows", kSomeRows, "", ""},
    {"nothing_in_a_grid", kGrid, "", ""},
    {"nothing_in_a_sparse_grid", kSparseGrid, "", ""},
    // Answers to a key
    {"runs_that_do_not_keep_are_overlooked", kNotChosen, "i64 1, i64 2", "i64 1, i64 0", "ask"},
    {"runs_that_keep_are_overlooked", kRuns, "i64 1, i64 2", "i64 2, i64 2", "ask"},
    // Masks
    {"negation_dropped_by_the_mask", kOthers, "xor (<\\d+ x i32>) (%v\\d+), (%v\\d+)", "or $1 $2, $2", "mask"},
    {"mask_not_applied", kOthers, "and (<\\d+ x i32>) (%v\\d+), (%v\\d+)", "or $1 $2, $2", "mask"},
    {"end_of_a_documents_interval_taken_in", kOthers, "icmp slt (<\\d+ x i64>)", "icmp sle $1", "mask"},
    // Runs of keys
    {"one_bound_of_a_run_not_asked", kDocuments, "and (<\\d+ x i1>) (%v\\d+), (%v\\d+)", "or $1 $2, $2", "keep_run"},
    {"one_key_behind_the_last_of_a_row", kGrid, "icmp ult (<\\d+ x i32>)", "icmp ule $1", "keep_run"},
    {"masks_left_where_a_vector_keeps_nothing", kGrid, "store i\\d+ 0, ptr %v\\d+, align 1", "", "keep_run"},
    {"rows_that_fail_are_overlooked", kSomeRows, "xor (<\\d+ x i1>) (%v\\d+), <.*>", "xor $1 $2, $2", "describe"},
    // Lists
    {"list_of_the_first_row", kChosen, "(getelementptr i32, ptr %v\\d+), i64 %v\\d+(\n.*call i1 @listed)",
     "$1, i64 0$2", "mask"},
    {"filter_by_the_list_of_the_first_row", kNotChosen,
     "(getelementptr i32, ptr %v\\d+), i64 %v\\d+(\n.*call i1 @listed)", "$1, i64 0$2", "ask"},
    {"place_beside_the_one_looked_for", kChosen, "icmp slt i64 (%v\\d+), %key", "icmp sle i64 $1, %key", "listed"},
};

// Several branches and rows by class; segments that a tile's rows share.
constexpr const char* kBranches = "branches dilated(segments: [128, 256], rates: [1, 2]);";
constexpr const char* kWindow = "branch window(50, 0);";

/// Parts of what walks keys and calls the micro-kernels; `where` is the file.
constexpr Planted kInTheWalk[] = {
    {"nothing_in_branches", kBranches, "", ""},
    {"nothing_in_a_window", kWindow, "", ""},
    // Rows, and what they keep
    {"rows_of_a_class_further_apart", kBranches, "turn += lcm;", "turn += 2 * lcm;", "compiler/walk/rows.h"},
    {"end_of_the_first_row_alone", kWindow, "s.may_hi = least(s.may_hi, value_of(e, bound, rows.last)",
     "s.may_hi = least(s.may_hi, value_of(e, bound, rows.first)", "compiler/walk/terms.h"},
    {"a_row_begins_one_too_late", kWindow, "out.lo = most(out.lo, value_of(e, bound, x));",
     "out.lo = most(out.lo, value_of(e, bound, x) + 1);", "compiler/walk/terms.h"},
    {"full_zone_too_wide", kWindow, "zone.full = zone.full && lo >= state.span.must_lo && hi <= state.span.must_hi;",
     "", "compiler/walk/zones.h"},
    {"stream_without_its_residue", kBranches, "state.residue = e.word(term + kResidue);", "state.residue = 0;",
     "compiler/walk/zones.h"},
    {"weight_of_other_branches_forgotten", kBranches, "weights[at] += 1", "weights[at] += 0", "runtime/cpu/keys.cpp"},
    // Runs of rows
    {"boundary_missed_where_a_part_falls", kDocuments,
     "differs = parts[i * at_.rows + r] != ", "differs = parts[i * at_.rows + r] > ", "runtime/cpu/conditions.cpp"},
    {"no_boundary_of_runs_seen", kRuns, "parts[i * at_.rows + r - 1]", "parts[i * at_.rows + r]",
     "runtime/cpu/conditions.cpp"},
    {"more_runs_than_there_is_room_for", kDocuments, "runs <= kMost ? runs : 0", "runs", "runtime/cpu/conditions.cpp"},
    // Answers to a key
    {"answer_outlives_its_block_of_keys", kChosen, "y / c.unit * c.unit + c.unit", "y + 64",
     "runtime/cpu/conditions.cpp"},
    {"end_of_an_interval_one_too_near", kDocuments, "c.known_key < c.said.most", "c.known_key + 1 < c.said.most",
     "runtime/cpu/conditions.cpp"},
    {"begin_of_an_interval_one_too_far", kDocuments, "c.known_key >= c.said.least", "c.known_key > c.said.least",
     "runtime/cpu/conditions.cpp"},
    {"many_runs_keep_nothing", kDocuments, "inside ? kBoth : kSomeDoNot", "kSomeDoNot", "runtime/cpu/conditions.cpp"},
    // Runs of keys
    {"run_beyond_its_line", kGrid, "end = y + last - c.known_key;", "end = y + last - c.known_key + 1;",
     "runtime/cpu/conditions.cpp"},
    {"keys_of_a_line_taken_for_one", kGrid, "c.slope = 1;", "c.slope = 0;", "runtime/cpu/conditions.cpp"},
    {"stream_not_moved_behind_a_run", kGrid, "if (goes_on) walk::", "if (!goes_on) walk::", "runtime/cpu/keys.cpp"},
    {"masks_left_behind_the_last_key", kGrid, "keep_none(filled_);", "", "runtime/cpu/keys.cpp"},
};

constexpr std::int64_t kTokens = 200, kHeads = 2, kDim = 16;

ir::Pattern pattern_of(const std::string& body) {
  const Source source{"input.weft", "pattern p { heads 2; dim 16; dtype f32; " + body + " }"};
  const auto file = dsl::parse(source);
  EXPECT_TRUE(file.ok()) << source.text;
  auto pattern = ir::lower(*file, "p", {});
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  return std::move(*pattern);
}

ir::TestProblem problem_of(const Planted& fault) {
  ir::TestProblem problem(pattern_of(fault.pattern), ir::square(kTokens, kHeads, kDim));
  if (!problem.pattern.inputs.empty()) {
    ir::Tensor t({1, kTokens});
    for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<double>(i / 3 * 7 % 20 + i / 64 * 40);
    problem.inputs.push_back(std::move(t));
  }
  return problem;
}

/// In the body of one function of an LLVM module.
std::string once_replaced_in_function(const std::string& text, const Planted& fault) {
  if (*fault.from == '\0') return text;
  const std::regex head("define [^\n]*@" + std::string(fault.where) + "\\(");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(text, found, head)) << "no function " << fault.where;
  if (found.empty()) return text;
  const auto begin = static_cast<std::size_t>(found.position()), end = text.find("\n}", begin);
  const std::string body = text.substr(begin, end - begin);
  const std::regex from(fault.from);
  EXPECT_EQ(std::distance(std::sregex_iterator(body.begin(), body.end(), from), std::sregex_iterator()), 1)
      << "the place to change in " << fault.where;
  return text.substr(0, begin) + std::regex_replace(body, from, fault.to) + text.substr(end);
}

void expect_found(const Planted& fault, const ir::TestProblem& problem, const Result<ir::Outcome>& got) {
  if (*fault.found != '\0') {
    ASSERT_FALSE(got.ok()) << "nothing was found";
    EXPECT_NE(got.error().message.find(fault.found), std::string::npos) << got.error().message;
    return;
  }
  ASSERT_TRUE(got.ok()) << got.error().message;
  const auto want = problem.run();
  double worst = 0;
  for (std::size_t i = 0; i < want.o.data.size(); ++i) {
    const double apart = std::abs(got->o.data[i] - want.o.data[i]);
    worst = std::isnan(apart) ? HUGE_VAL : std::max(worst, apart);
  }
  const auto bound = ir::error_bounds(problem.pattern, ir::DType::f32, kTokens, 5, want.max_abs_score).o;
  if (*fault.from == '\0') {
    EXPECT_LE(worst, bound);
  } else {
    EXPECT_GT(worst, bound) << "the numbers are right";
  }
}

class ConditionsOnCpu : public ::testing::TestWithParam<Planted> {};

TEST_P(ConditionsOnCpu, FaultsAreFound) {
  const Planted& fault = GetParam();
  const auto problem = problem_of(fault);
  const Target target = find_target("cpu").value();
  const auto plan = planner::plan(problem.pattern, {.d = kDim, .d_v = kDim}, target);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  codegen::Source source = codegen::cpu::emit(*plan, target);
  source.text = once_replaced_in_function(source.text, fault);
  const auto kernel = CpuKernel::of(*plan, source, target);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message << (kernel.error().notes.empty() ? "" : kernel.error().notes[0]);
  expect_found(fault, problem, kernel->run(problem.shape, problem.q, problem.k, problem.v, problem.inputs));
}

/// The walk with a fault in one of its files, compiled by the host's compiler and loaded.
class PlantedWalk {
 public:
  static Result<PlantedWalk> make(const Planted& fault) {
    WEFT_TRY(const auto compiler, emulate::find_compiler());
    WEFT_TRY(const auto scratch, emulate::ScratchFolder::make());
    const fs::path folder = fs::path(scratch.file("walk.cpp")).parent_path();
    std::ofstream text(folder / "walk.cpp");
    for (const char* file :
         {"compiler/ir/philox.cpp", "runtime/cpu/walker.cpp", "runtime/cpu/keys.cpp", "runtime/cpu/conditions.cpp",
          "runtime/cpu/gradients.cpp", "runtime/cpu/sums.cpp", "runtime/cpu/run.cpp"})
      text << "#include \"" << file << "\"\n";
    text << "extern \"C\" __attribute__((visibility(\"default\"))) void planted(const weft::cpu::MicroKernels& k, "
            "const weft_args& a) { weft::cpu::run(k, a); }\n";
    text.close();
    if (*fault.from != '\0') {
      const fs::path changed = folder / fault.where;
      fs::create_directories(changed.parent_path());
      std::ostringstream whole;
      whole << std::ifstream(test::in_checkout(fault.where)).rdbuf();
      std::ofstream(changed) << with_fault(whole.str(), fault.from, fault.to);
    }
    const std::string object = scratch.file("walk.so");
    const std::vector<std::string> command = {compiler.path,
                                              "-std=c++20",
                                              "-O1",
                                              "-w",
                                              "-fPIC",
                                              "-shared",
                                              "-fvisibility=hidden",
                                              "-I" + folder.string(),
                                              "-I" + test::in_checkout(""),
                                              "-I" + test::in_checkout("include"),
                                              (folder / "walk.cpp").string(),
                                              "-o",
                                              object};
    WEFT_TRY(const auto finished, emulate::run(command, scratch.file("log")));
    if (finished.status != 0) return internal_error(finished.output);
    PlantedWalk out;
    out.library_.reset(dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!out.library_) return internal_error(dlerror());
    return out;
  }

  CpuKernel::Walk walk() const { return reinterpret_cast<CpuKernel::Walk>(dlsym(library_.get(), "planted")); }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> library_;
};

class WalkOnCpu : public ::testing::TestWithParam<Planted> {};

TEST_P(WalkOnCpu, FaultsAreFound) {
  const Planted& fault = GetParam();
  const auto problem = problem_of(fault);
  auto kernel = CpuKernel::make(problem.pattern, {.d = kDim, .d_v = kDim}, find_target("cpu").value());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto planted = PlantedWalk::make(fault);
  ASSERT_TRUE(planted.ok()) << planted.error().message;
  kernel->walk_by(planted->walk());
  expect_found(fault, problem, kernel->run(problem.shape, problem.q, problem.k, problem.v, problem.inputs));
}

const auto kName = [](const auto& of) { return std::string(of.param.name); };
INSTANTIATE_TEST_SUITE_P(Text, ConditionsOnCpu, ::testing::ValuesIn(kOnCpu), kName);
INSTANTIATE_TEST_SUITE_P(Text, WalkOnCpu, ::testing::ValuesIn(kInTheWalk), kName);

}  // namespace
}  // namespace weft::testing
