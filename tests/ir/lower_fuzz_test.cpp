#include "compiler/ir/check.h"
#include "compiler/ir/lower.h"
#include "dsl/diagnostics.h"
#include "dsl/parse.h"
#include "tests/support/blessed.h"
#include "tests/support/places.h"
#include "tests/support/random_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

/// Texts that are nearly right must end in a pattern or in findings, never in a defect.
namespace weft::ir {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 3000;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    while (is_word(text[i]) && end < text.size() && is_word(text[end])) ++end;
    tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

/// Swaps, drops, doubles and borrows tokens; numbers become awkward ones.
std::string mutated(std::vector<std::string> tokens, const std::vector<std::string>& others,
                    test::RandomNumbers& random) {
  const std::vector<std::string> numbers = {"0",   "1",    "-1",     "3",   "9223372036854775807",
                                            "0.5", "1024", "[1, 2]", "true"};
  for (std::int64_t changes = random.between(1, 3); changes > 0 && !tokens.empty(); --changes) {
    const auto at = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(tokens.size()) - 1));
    switch (random.between(0, 4)) {
      case 0:
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), random.pick(others));
        break;
      case 2:
        tokens[at] = random.pick(others);
        break;
      case 3:
        std::swap(tokens[at], tokens[tokens.size() / 2]);
        break;
      default: {
        std::size_t number = at;
        while (number < tokens.size() && std::isdigit(static_cast<unsigned char>(tokens[number][0])) == 0) ++number;
        if (number < tokens.size()) tokens[number] = random.pick(numbers);
      }
    }
  }
  std::string text;
  for (const auto& token : tokens) text += token;
  return text;
}

/// One pattern a text, so that a mutation hits what is lowered.
std::vector<std::string> good_texts() {
  std::vector<std::string> texts;
  for (const char* folder : {"patterns", "golden"}) {
    for (const auto& entry : fs::recursive_directory_iterator(test::in_checkout("tests/" + std::string(folder)))) {
      if (entry.path().extension() != ".weft") continue;
      const std::string text = test::read_text(entry.path());
      std::size_t begin = text.find("pattern ");
      while (begin != std::string::npos) {
        const std::size_t end = text.find("\npattern ", begin + 1);
        texts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
        begin = end == std::string::npos ? end : end + 1;
      }
    }
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

bool is_error(const Diagnostic& d) { return d.severity == Severity::error; }

/// Is it about a value, which may be right with other parameters, or in text that is never evaluated?
bool is_about_values(const Diagnostic& d) {
  const auto all = dsl::codes();
  const auto row = std::find_if(all.begin(), all.end(), [&](const dsl::CodeInfo& info) { return info.text == d.code; });
  return dsl::text_of(*row->code, dsl::Shown::by_values) != d.code;
}

/// Whatever `check` says of a text whatever its parameters are, `lower` says of it with some: it is the same
/// elaborator.
void expect_refused(const dsl::File& file, const std::vector<Diagnostic>& checked, const Source& source) {
  const auto surely = [](const Diagnostic& d) { return is_error(d) && !is_about_values(d); };
  const auto error = std::find_if(checked.begin(), checked.end(), surely);
  if (error == checked.end() || file.patterns.size() != 1) return;
  EXPECT_FALSE(lower(file, file.patterns[0].name, {}).ok()) << render(*error, source) << source.text;
}

TEST(LowerFuzz, NearlyRightTexts) {
  const std::vector<std::string> texts = good_texts();
  std::vector<std::string> others;
  for (const auto& text : texts) {
    for (auto& token : tokens_of(text)) others.push_back(std::move(token));
  }
  test::RandomNumbers random(7);
  int lowered = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Source source{"fuzz.weft", mutated(tokens_of(random.pick(texts)), others, random)};
    const auto file = dsl::parse(source);
    if (!file.ok()) continue;
    const auto checked = ir::check(file.value(), source);
    if (std::any_of(checked.begin(), checked.end(), is_error)) {
      expect_refused(*file, checked, source);
      continue;
    }
    for (const auto& def : file.value().patterns) {
      const auto pattern = lower(file.value(), def.name, {});
      EXPECT_TRUE(pattern.ok() || pattern.error().kind == ErrorKind::user) << source.text;
      (pattern.ok() ? lowered : refused) += 1;
      if (!pattern.ok()) {
        // What no value is needed for was there to be said before.
        for (const Diagnostic& d : pattern.error().diagnostics)
          EXPECT_EQ(d.code.substr(1, 2), "03") << render(d, source) << source.text;
        continue;
      }
      const Source again{"again.weft", print(pattern.value())};
      const auto reparsed = dsl::parse(again);
      ASSERT_TRUE(reparsed.ok()) << source.text << "\n" << again.text << render(reparsed.error().diagnostics[0], again);
      const auto twin = lower(reparsed.value(), def.name, {});
      ASSERT_TRUE(twin.ok()) << source.text << "\n" << again.text;
      EXPECT_TRUE(same(pattern.value(), twin.value())) << source.text << "\n" << again.text << print(twin.value());
    }
  }
  EXPECT_GT(lowered, kRounds / 20);
  EXPECT_GT(refused, kRounds / 200);
}

}  // namespace
}  // namespace weft::ir
