/// Every option of `run` crossed with `--check`: whatever is asked for, the interpreter is asked for the same.

#include "command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace weft::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kText =
    "pattern p(width: int = 20) {\n"
    "  branch window(width, 0);\n"
    "  branch blocks(16, random(2));\n"
    "  branch where(q - k < [3, 40, 9, 70][h % 4]);\n"
    "  keep causal;\n"
    "  dropout 0.25;\n"
    "}\n"
    "pattern biased { input bias: f32[heads, 41]; score s + bias[h, q - k]; keep window(40, 0); }\n"
    "pattern added { branch window(20, 0); branch lag(8) & causal; combine sum; dropout 0.25; }\n";

struct Row {
  const char* option;
  Words more;  ///< behind it; `@name` is a file of the scratch folder
};

const Row kRows[] = {
    {"--pattern", {"added"}},
    {"-D", {"width=9"}},
    {"--heads", {"6"}},
    {"--kv-heads", {"2"}},
    {"--dim", {"32"}},
    {"--dim-v", {"8"}},
    {"--dtype", {"f16"}},
    {"--dtype", {"bf16"}},
    {"--target", {"interpreter"}},
    {"--batch", {"3"}},
    {"--tokens", {"130"}},
    {"--keys", {"160"}},
    {"--offset", {"7", "--keys", "200"}},
    {"--offset", {"@offset.npy", "--keys", "200", "--batch", "2"}},
    {"--input", {"bias=@bias.npy", "--pattern", "biased"}},
    {"--rows", {"17:50"}},
    {"--rows", {"0:1", "--lse", "@lse.npy", "--batch", "2"}},
    {"--rows", {"40:41", "--layout", "bhnd", "--heads", "3"}},
    {"--rows", {"90:96", "--pattern", "added", "--lse-per-branch", "--lse", "@lse.npy"}},
    {"--ring", {"3"}},
    {"--ring", {"4:striped", "--batch", "2", "--lse", "@lse.npy"}},
    {"--ring", {"100:zigzag", "--layout", "bhnd", "--heads", "3", "--lse", "@lse.npy"}},
    {"--ring", {"2", "--pattern", "biased", "--target", "interpreter"}},
    {"--ring-by", {"heads", "--ring", "2", "--heads", "4", "--kv-heads", "2", "--lse", "@lse.npy"}},
    {"--ring-by", {"keys", "--ring", "2"}},
    {"--ring-by", {"queries", "--ring", "3:contiguous", "--pattern", "added"}},
    {"--ring-memory", {"256k", "--ring", "2", "--tokens", "600", "--lse", "@lse.npy"}},
    {"--ring-timeout", {"30000", "--ring", "2"}},
    {"--lse", {"@lse.npy"}},
    {"--lse-per-branch", {"--lse", "@lse.npy"}},
    {"--lse-per-branch", {"--lse", "@lse.npy", "--pattern", "added"}},
    {"--lists", {"@lists"}},
    {"--layout", {"bhnd"}},
    {"--seed", {"9"}},
    {"--dropout-seed", {"1"}},
    {"--dropout-seed", {"123456789"}},
    {"--threads", {"3"}},
    {"--record", {"@record"}},
    {"--no-compile", {}},
    {"--cache-dir", {"@cache"}},
    {"--no-cache", {}},
    {"-o", {"@o.npy"}},
    {"--grad", {"random"}},
    {"--grad", {"random", "--target", "interpreter"}},
    {"--grad", {"random", "--rows", "17:50", "--keys", "120"}},
    {"--grad", {"ones", "--layout", "bhnd", "--heads", "3", "--batch", "2"}},
    {"--grad", {"random", "--pattern", "added", "--kv-heads", "2"}},
    {"--grad", {"random", "--pattern", "added", "--lse", "@lse.npy", "--rows", "90:96"}},
    {"--grad", {"random", "--lists", "@lists", "--dtype", "f16"}},
    {"--grad", {"random", "--offset", "@offset.npy", "--keys", "200", "--batch", "2"}},
    {"--dq", {"@dq.npy", "--grad", "random", "--dtype", "bf16"}},
    {"--dk", {"@dk.npy", "--grad", "random", "--target", "interpreter", "--dtype", "f64"}},
    {"--dv", {"@dv.npy", "--grad", "random", "--dropout-seed", "5"}},
    {"--dinput", {"bias=@d.npy", "--pattern", "biased", "--grad", "random"}},
    {"--quiet", {}},
    {"-v", {}},
    {"--color", {"never"}},
};

/// What compares nothing, or is crossed elsewhere: files of tensors and bundles have tests of their own, compilers are
/// chosen, and the rest stands in every row.
const char* const kElsewhere[] = {"--q",    "--k",       "--v",      "--bundle",   "--public-key",
                                  "--llvm", "--nvrtc",   "--memory", "--deadline", "--check",
                                  "--json", "--prepare", "-h,--help"};

class CheckedOptions : public ::testing::Test {
 protected:
  void SetUp() override {
    scratch_.write("p.weft", kText);
    scratch_.write("bias.npy", npy_f32({4, 41}));
    scratch_.write("offset.npy", npy("<i4", {2}, std::string("\7\0\0\0\144\0\0\0", 8)));
  }

  Words call_of(const Row& row, const std::string& target) const {
    Words out = {"run", scratch_.path("p.weft"), "--check", "--json", row.option};
    for (const auto& word : row.more) {
      const auto at = word.find('@');
      out.push_back(at == std::string::npos ? word : word.substr(0, at) + scratch_.path(word.substr(at + 1)));
    }
    const auto add = [&](const char* option, const std::string& value) {
      if (std::find(out.begin(), out.end(), option) == out.end()) out.insert(out.end(), {option, value});
    };
    add("--pattern", "p");
    add("--tokens", "96");
    add("--heads", "4");
    add("--dim", "16");
    add("--target", target);
    return out;
  }

  void expect_agreement(const Row& row, const std::string& target) {
    const auto finished = run_weft(scratch_, call_of(row, target));
    ASSERT_EQ(finished.status, 0) << row.option << " on " << target << ": " << finished.err;
    const auto report = Json::parse(finished.out, nullptr, false);
    ASSERT_TRUE(report.is_object() && report.contains("check"))
        << row.option << " on " << target << ": " << finished.out << finished.err;
    const auto& check = report["check"];
    EXPECT_EQ(check["ok"], true) << row.option << " on " << target << ": " << finished.out;
    EXPECT_EQ(check["clamped"], 0) << row.option << ": " << finished.out;
    const bool grad =
        std::string(row.option) == "--grad" || row.more.end() != std::find(row.more.begin(), row.more.end(), "--grad");
    ASSERT_EQ(check.contains("gradients"), grad) << row.option << ": " << finished.out;
    EXPECT_TRUE(!grad || check["gradients"].size() >= 3) << row.option << ": " << finished.out;
  }

  Scratch scratch_;
};

TEST_F(CheckedOptions, OnTheCpu) {
  expect_agreement({"-v", {}}, "cpu");  // what --no-compile takes from the store
  for (const auto& row : kRows) expect_agreement(row, "cpu");
}

/// Those that change the launch and not the kernel.
TEST_F(CheckedOptions, Emulated) {
  for (const auto& row : kRows) {
    const std::string option = row.option;
    const bool launch = option == "--offset" || option == "--batch" || option == "--keys" || option == "--kv-heads" ||
                        option == "--layout" || option == "--dropout-seed" || option == "--lists";
    if (launch) expect_agreement(row, "emulate:sm_61");
  }
}

/// A seed is heard: the interpreter's bytes differ from seed to seed, and a seed's are the same each time.
TEST_F(CheckedOptions, TheInterpreterHearsTheSeed) {
  const auto output = [&](const char* seed) {
    const std::string to = scratch_.path(std::string("o") + seed + ".npy");
    const auto finished =
        run_weft(scratch_, {"run", scratch_.path("p.weft"), "--pattern", "p", "--tokens", "40", "--heads", "2", "--dim",
                            "16", "--target", "interpreter", "--dropout-seed", seed, "-o", to});
    EXPECT_EQ(finished.status, 0) << finished.err;
    std::ifstream file(to, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(output("3"), output("3"));
  EXPECT_NE(output("3"), output("4"));
}

TEST_F(CheckedOptions, NoneIsLeftOut) {
  std::istringstream help(run_weft(scratch_, {"run", "--help"}).out);
  std::vector<std::string> missing;
  int found = 0;
  for (std::string line; std::getline(help, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    while (!word.empty() && (word.back() == ',' || word.back() == ':')) word.pop_back();
    if (word.size() < 2 || word[0] != '-') continue;
    ++found;
    const auto named = [&](const char* other) { return word == other; };
    const bool crossed = std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& r) { return named(r.option); });
    if (!crossed && std::none_of(std::begin(kElsewhere), std::end(kElsewhere), named)) missing.push_back(word);
  }
  EXPECT_GT(found, 30);
  EXPECT_EQ(missing, std::vector<std::string>{}) << "options of run without a row here";
}

TEST_F(CheckedOptions, CommandsRefuseAlike) {
  scratch_.write("n.weft", "pattern n { branch neighborhood(size: 3); }");
  for (const char* command : {"run", "explain", "draw"}) {
    Words call = {command, scratch_.path("n.weft"), "--tokens", "40", "--keys", "50", "--dim", "16", "--quiet"};
    const auto finished = run_weft(scratch_, call);
    EXPECT_EQ(finished.status, 1) << command;
    EXPECT_NE(finished.err.find("neighborhood needs as many queries as keys; there are 40 and 50"), std::string::npos)
        << command << ": " << finished.err;
  }
}

/// An index that data decides is clamped, and the check says where first and how often.
TEST_F(CheckedOptions, ClampedReadsAreTold) {
  scratch_.write("t.weft",
                 "pattern t { input at: i32[keys]; input a: f32[10]; score s + a[at[k]]; keep window(1, 0); }");
  std::string numbers;
  for (int i = 0; i < 8; ++i) numbers += std::string(1, static_cast<char>(i == 5 ? 12 : i)) + std::string(3, '\0');
  scratch_.write("at.npy", npy("<i4", {8}, numbers));
  scratch_.write("a.npy", npy_f32({10}));
  const auto finished = run_weft(scratch_, {"run", scratch_.path("t.weft"), "--tokens", "8", "--heads", "1", "--dim",
                                            "16", "--target", "cpu", "--check", "--json", "--input",
                                            "at=" + scratch_.path("at.npy"), "--input", "a=" + scratch_.path("a.npy")});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto check = Json::parse(finished.out, nullptr, false)["check"];
  EXPECT_EQ(check["ok"], true);
  EXPECT_EQ(check["clamped"], 2) << "key 5 is kept by queries 5 and 6";
  EXPECT_EQ(check["first_clamped"],
            "axis 0 of 'a' has the extent 10, and the index is 12 (batch entry 0, head 0, query 5, key 5)");
}

}  // namespace
}  // namespace weft::test
