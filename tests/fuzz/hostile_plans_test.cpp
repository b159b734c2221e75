#include "compiler/ir/lower.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tables.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "fuzz/targets.h"
#include "limits.h"
#include "tests/support/blessed.h"
#include "tests/support/places.h"
#include "tests/support/random_numbers.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

/// Plans as text, sound ones, damaged ones and such as are made to hurt.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = test::in_checkout("fuzz/corpus/plan_text");

std::string planned(const ir::Pattern& pattern) {
  const auto plan =
      planner::plan(pattern, {.d = 64, .d_v = 64}, find_target("cpu:x86-64-v3").value(), {.for_kernels = false});
  return plan.ok() ? ir::print(*plan) : "";
}

std::string planned(const std::string& body) {
  const auto pattern = lowered({.text = "pattern p { " + body + " }", .pattern = "p"});
  EXPECT_TRUE(pattern.ok()) << body;
  const std::string text = planned(*pattern);
  EXPECT_FALSE(text.empty()) << body;
  return text;
}

/// Plans of the examples, by pattern; what the planner does not take yet is left out.
std::vector<std::pair<std::string, std::string>> plans_of_examples() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& entry : fs::directory_iterator(test::in_checkout("examples"))) {
    if (entry.path().extension() != ".weft") continue;
    const auto file = dsl::parse({"example.weft", read_text(entry.path())});
    for (const auto& def : file->patterns) {
      const auto pattern = ir::lower(*file, def.name, {});
      const std::string text = pattern.ok() ? planned(*pattern) : "";
      if (!text.empty()) out.emplace_back(def.name, text);
    }
  }
  return out;
}

/// Seeds of another format are refused at the first line and lead nowhere.
TEST(PlanCorpus, IsOfThisFormat) {
  const auto plans = plans_of_examples();
  ASSERT_GT(plans.size(), 10U);
  if (std::getenv("WEFT_BLESS") != nullptr) {
    for (const auto& [name, text] : plans) std::ofstream(kCorpus / (name + ".txt")) << text;
  }
  std::size_t sound = 0;
  for (const auto& plan : plans) {
    const fs::path file = kCorpus / (plan.first + ".txt");
    sound += fs::exists(file) && ir::parse_plan(read_text(file)).ok();
  }
  EXPECT_GT(sound, plans.size() / 2) << "the format of plans is another one: WEFT_BLESS=1 ./dev test fuzz writes them";
}

TEST(PlanCorpus, PlansOfRandomPrograms) {
  int planned_ones = 0;
  for (std::uint64_t seed = 6000; seed < 6150; ++seed) {
    const auto pattern = lowered(random_program(seed));
    const std::string text = pattern.ok() ? planned(*pattern) : "";
    if (text.empty()) continue;
    fuzz::plan_text(text);
    ++planned_ones;
  }
  EXPECT_GT(planned_ones, 20);
}

// ---------------------------------------------------------------- damage

std::string damaged(std::string text, const std::string& other, RandomNumbers& random) {
  static const std::vector<std::string> kNumbers = {"0",
                                                    "-1",
                                                    "1",
                                                    "64",
                                                    "65",
                                                    "4611686018427387904",
                                                    "9223372036854775807",
                                                    "-9223372036854775808",
                                                    "99999999999999999999"};
  const auto place = [&](const std::string& in) {
    return static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(in.size()) - 1));
  };
  for (auto edits = random.between(1, 4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = place(text);
    const std::size_t line = text.find('\n', at), from = other.find('\n', place(other));
    switch (random.between(0, 4)) {
      case 0:  // another number
        if (const auto digit = text.find_first_of("0123456789", at); digit != std::string::npos) {
          const auto end = text.find_first_not_of("0123456789", digit);
          text.replace(digit, (end == std::string::npos ? text.size() : end) - digit, random.pick(kNumbers));
        }
        break;
      case 1:  // a line of another plan
        if (line != std::string::npos && from != std::string::npos) {
          text.insert(line + 1, other.substr(from + 1, other.find('\n', from + 1) - from));
        }
        break;
      case 2:  // a line less
        if (line != std::string::npos) text.erase(line + 1, text.find('\n', line + 1) - line);
        break;
      case 3:
        text[at] = static_cast<char>(random.between(0, 255));
        break;
      default:
        text.erase(at, static_cast<std::size_t>(random.between(1, 9)));
    }
  }
  return text;
}

TEST(PlanCorpus, DamagedPlans) {
  const auto plans = plans_of_examples();
  EXPECT_EQ(within_limits([&] {
              RandomNumbers random(3);
              for (int i = 0; i < 300; ++i) {
                fuzz::plan_text(damaged(random.pick(plans).second, random.pick(plans).second, random));
              }
            }),
            "");
}

// ---------------------------------------------------------------- hostile ones

/// The text with every line that begins with `word` as often as the size of a text allows.
std::string with_many(const std::string& text, const std::string& word, std::size_t bytes = std::size_t{1} << 20) {
  const std::size_t at = text.find("\n" + word) + 1;
  EXPECT_NE(at, 0U) << word;
  const std::string line = text.substr(at, text.find('\n', at) + 1 - at);
  return text.substr(0, at) + repeat(line, (bytes - text.size()) / line.size()) + text.substr(at);
}

/// … with all of a block, up to the next line that is indented as little.
std::string with_many_blocks(const std::string& text, const std::string& word) {
  const std::size_t at = text.find("\n" + word) + 1;
  EXPECT_NE(at, 0U) << word;
  const std::size_t depth = word.find_first_not_of(' ');
  std::size_t end = text.find('\n', at) + 1;
  while (end < text.size() && text.find_first_not_of(' ', end) > end + depth) end = text.find('\n', end) + 1;
  return text.substr(0, at) + repeat(text.substr(at, end - at), ((std::size_t{1} << 20) - text.size()) / (end - at)) +
         text.substr(at);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << "\n" << text;
  return text.replace(at, from.size(), to);
}

void expect_harmless(const std::string& text) {
  const auto read = [&] {
    const auto plan = ir::parse_plan(text);  // verifies
    if (plan.ok()) (void)ir::make_tables(*plan, 12).ok();
  };
  EXPECT_EQ(within_limits(read), "") << text.substr(0, 500);
}

TEST(HostilePlan, ManyOfEverything) {
  const std::string plan = planned("branches dilated(segments: [2k, 4k, 8k], rates: [1, 2, 4]); keep causal;");
  for (const char* word : {"  by", "      from", "      below", "      rows", "reason"})
    expect_harmless(with_many(plan, word));
  for (const char* word : {"phase", "  pass", "    range"}) expect_harmless(with_many_blocks(plan, word));
}

TEST(HostilePlan, CellsAndClassesWithoutEnd) {
  std::string segments = "[1048576", rates = "[2";
  for (const int prime : {3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71}) {
    segments += ", 1048576";
    rates += ", " + std::to_string(prime);
  }
  expect_harmless(planned("branches dilated(segments: " + segments + "], rates: " + rates + "]);"));
  const std::string plan = planned("branches dilated(segments: [4k, 8k], rates: [2, 4]); keep causal;");
  for (const char* number : {"9223372036854775807", "4611686018427387904", "1000000007", "3", "1"}) {
    expect_harmless(replaced(plan, "segment 4096", std::string("segment ") + number));
    expect_harmless(replaced(plan, "rate 4", std::string("rate ") + number));
    expect_harmless(replaced(plan, "tile_q 64", std::string("tile_q ") + number));
  }
}

TEST(HostilePlan, PhasesWithoutEnd) {
  const std::string plan = planned("branches dilated(segments: [4k], rates: [4]); keep causal;");
  const std::string phase = "phase (mod h 4)";
  expect_harmless(replaced(plan, phase, "phase " + std::string(1000000, '(')));
  expect_harmless(replaced(plan, phase, "phase " + repeat("(mod ", 100000) + "h" + repeat(" 4)", 100000)));
  expect_harmless(replaced(plan, phase, "phase " + std::string(1000000, '9')));
}

TEST(HostilePlan, NoPlanAtAll) {
  expect_harmless("");
  expect_harmless(std::string(std::size_t{3} << 20, 'x'));
  expect_harmless(std::string(1 << 20, '\n'));
  expect_harmless(std::string(1 << 20, ' '));
  expect_harmless("weft plan 1\n" + std::string(1 << 20, '\0'));
  expect_harmless("weft plan 99999999999999999999\n");
}

}  // namespace
}  // namespace weft::test
