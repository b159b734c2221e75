/// docs/command.md names every command, option and key, and what it shows works.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace weft::test {
namespace {

using Json = nlohmann::json;

std::string page() {
  std::stringstream text;
  text << std::ifstream(in_checkout("docs/command.md")).rdbuf();
  return text.str();
}

/// Words of the part about --json, whatever stands between them.
std::set<std::string> keys_of_page() {
  const auto text = page();
  std::set<std::string> words;
  std::string word;
  for (const char c : text.substr(text.find("## Keys of"))) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') {
      word += c;
      continue;
    }
    words.insert(word);
    word.clear();
  }
  return words;
}

void collect(const Json& value, std::set<std::string>& keys) {
  if (value.is_array() && !value.empty()) collect(value[0], keys);
  if (!value.is_object()) return;
  for (const auto& [key, inside] : value.items()) {
    keys.insert(key);
    // Names of schedules' numbers and of a kernel's machine code are their own.
    if (key != "best" && key != "schedule" && key != "machine_code" && key != "items") collect(inside, keys);
  }
}

TEST(CommandPage, NamesEveryKeyThatIsPrinted) {
  const Scratch scratch;
  const auto window = in_checkout("examples/window.weft"), wrong = scratch.write("w.weft", "pattern p { keep causl; }");
  const auto known = keys_of_page();
  const auto bundle = scratch.path("x.wfb"), again = scratch.path("y.wfb");
  for (auto arguments : std::vector<std::vector<std::string>>{
           {"run", window, "--tokens", "16", "--check", "--target", "interpreter"},
           {"run", window, "--tokens", "16", "--check", "--target", "interpreter", "--grad", "random"},
           {"run", window, "--tokens", "64", "--target", "interpreter", "--ring", "3"},
           {"check", window, wrong},
           {"check", "nowhere.weft"},
           {"fmt", "--check", window},
           {"draw", window, "--tokens", "16"},
           {"draw", window, "--tokens", "16", "--ring", "2"},
           {"explain", window, "--tokens", "64"},
           {"explain", window, "--tokens", "64", "--ring", "4"},
           {"explain", window, "--tokens", "64", "--target", "cpu", "--grad"},
           {"emit", window, "--stage", "pattern"},
           {"bench", window, "--tokens", "64", "--heads", "1"},
           {"tune", window, "--tokens", "64", "--heads", "1", "--grad"},
           {"bundle", "build", "-o", bundle, window, "--target", "cpu:x86-64", "--dim", "16", "--dtype", "f32"},
           {"bundle", "ls", bundle},
           {"bundle", "verify", bundle, "nowhere.wfb"},
           {"bundle", "merge", "-o", again, bundle},
           {"bundle", "diff", bundle, again},
           {"bundle", "export", bundle, "-o", scratch.path("x.o")},
           {"cache", "path"},
           {"cache", "ls"},
           {"cache", "stat"},
           {"cache", "why", window},
           {"cache", "verify"},
           {"cache", "clear"},
           {"targets"},
           {"doctor"},
           {"completion", "bash"},
           {"help"},
           {"help", "window"},
           {"check", "--explain", "E0204"},
           {"help"},
           {"help", "window"},
           {"check", "--explain", "E0204"},
           {"weave"}}) {
    arguments.emplace_back("--json");
    const auto finished = run_weft(scratch, arguments);
    const auto object = Json::parse(finished.out, nullptr, false);
    ASSERT_TRUE(object.is_object()) << arguments[0] << ": " << finished.out << finished.err;
    std::set<std::string> keys;
    collect(object, keys);
    for (const auto& key : keys) EXPECT_TRUE(known.contains(key)) << arguments[0] << " prints " << key;
  }
}

TEST(CommandPage, NamesEveryCommandAndOption) {
  const Scratch scratch;
  const auto text = page();
  const auto help = run_weft(scratch, {"completion", "fish"}).out;
  std::istringstream lines(help);
  std::size_t options = 0;
  for (std::string line; std::getline(lines, line);) {
    if (const auto at = line.find("' -l "); at != std::string::npos) {
      const auto name = line.substr(at + 5, line.find(' ', at + 5) - at - 5);
      EXPECT_NE(text.find("| `--" + name + "` |"), std::string::npos) << name;
      ++options;
    }
    if (const auto at = line.find(" -f -a "); at != std::string::npos) {
      const auto name = line.substr(at + 7, line.find(' ', at + 7) - at - 7);
      EXPECT_NE(text.find("| `weft " + name + "` |"), std::string::npos) << name;
    }
  }
  EXPECT_GT(options, 100u);
}

/// As a reader would type them, in a checkout.
TEST(CommandPage, WhatItShowsWorks) {
  const Scratch scratch;
  std::istringstream lines(page());
  bool is_shell = false;
  std::size_t ran = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) is_shell = line == "```sh";
    if (!is_shell || !line.starts_with("weft ")) continue;
    std::istringstream parts(line.substr(5, line.find(" > ") - 5));
    std::vector<std::string> arguments;
    for (std::string word; parts >> word;) {
      if (word.starts_with("examples/")) word = in_checkout(word);
      if (word == "mask.png") word = scratch.path(word);
      arguments.push_back(word);
    }
    const auto finished = run_weft(scratch, arguments);
    EXPECT_EQ(finished.status, 0) << line << ": " << finished.err;
    ++ran;
  }
  EXPECT_GT(ran, 10u);
}

}  // namespace
}  // namespace weft::test
