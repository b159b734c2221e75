/// Schedules that `weft tune` keeps: who plans with them, and who must not.

#include "runtime/engine/tuned.h"

#include "compiler/ir/plan.h"
#include "runtime/engine/destination.h"
#include "tests/engine/folder.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

constexpr const char* kWindow = "pattern p { keep window(99, 0); }";

class TunedTest : public ::testing::Test {
 protected:
  static CompileOptions f32(std::int64_t dim) { return {.dim = dim, .dtype = DType::f32}; }

  cache::Key key(const std::string& text, std::int64_t dim) const {
    const auto front = read_pattern({.name = "p", .text = text}, f32(dim)).value();
    return tuned_key(front.pattern, bind_of(front.pattern, f32(dim)).value(), find_destination("cpu").value().target);
  }
  void keep(const std::string& text, std::int64_t dim, int tile_k) {
    const Tuned tuned{.schedule = {{.key = "tile_q", .value = 128, .range = {}, .tuned = true},
                                   {.key = "tile_k", .value = tile_k, .range = {}, .tuned = true}},
                      .measured = "by a test"};
    ASSERT_TRUE(keep_tuned(*store_, key(text, dim), tuned).published);
  }
  static ir::Choices choices(const EngineOptions& options, const std::string& text, std::int64_t dim) {
    const Engine engine(options);
    const auto kernel = engine.compile(text, f32(dim));
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return ir::parse_plan(kernel->plan_text()).value().choices;
  }
  EngineOptions own() const { return {.cache_dir = base_}; }

  Folder folder_;
  std::string base_ = folder_.path();
  std::shared_ptr<cache::Store> store_ = cache::Store::open({.directory = base_});
};

TEST_F(TunedTest, EnginesPlanWithWhatWasKept) {
  const auto usual = choices(own(), kWindow, 16);
  keep(kWindow, 16, 48);
  const auto tuned = choices(own(), kWindow, 16);
  EXPECT_NE(usual.tile_k, 48);
  EXPECT_EQ(tuned.tile_q, 128);
  EXPECT_EQ(tuned.tile_k, 48);
  const auto found = find_tuned(*store_, key(kWindow, 16));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->measured, "by a test");
}

TEST_F(TunedTest, OthersPlanAsBefore) {
  keep(kWindow, 16, 48);
  const auto usual = choices({.no_cache = true}, kWindow, 16);
  EXPECT_NE(usual.tile_k, 48) << "an engine without a store";
  EXPECT_EQ(choices(own(), kWindow, 32), usual) << "another head dim";
  EXPECT_EQ(choices(own(), "pattern p { keep window(98, 0); }", 16), usual) << "another pattern";
  EXPECT_EQ(choices(own(), "pattern p { keep window(99, 0); schedule { tile_k: 32; } }", 16).tile_k, 32)
      << "a schedule in the text";
}

TEST_F(TunedTest, BothPassesHaveTheirOwn) {
  const auto of = [&](bool gradient) {
    const auto kernel = Engine(own()).compile(kWindow, {.dim = 16, .dtype = DType::f32, .gradient = gradient});
    return ir::parse_plan(kernel.value().plan_text()).value().choices.tile_k;
  };
  const auto backward = of(true);
  keep(kWindow, 16, 48);
  EXPECT_EQ(of(false), 48);
  EXPECT_EQ(of(true), backward) << "that was the forward's";
  auto asked = f32(16);
  asked.gradient = true;
  const auto front = read_pattern({.name = "p", .text = kWindow}, asked).value();
  const auto of_backward =
      tuned_key(front.pattern, bind_of(front.pattern, asked).value(), find_destination("cpu").value().target);
  ASSERT_TRUE(keep_tuned(*store_, of_backward,
                         {.schedule = {{.key = "tile_k", .value = 32, .range = {}, .tuned = true}}, .measured = ""})
                  .published);
  EXPECT_EQ(of(true), 32);
  EXPECT_EQ(of(false), 48);
}

TEST_F(TunedTest, ReadOnlyStoresAreAskedToo) {
  keep(kWindow, 16, 48);
  EngineOptions options{.no_cache = true};
  options.read_only_caches = {base_};
  EXPECT_EQ(choices(options, kWindow, 16).tile_k, 48);
}

}  // namespace
}  // namespace weft::test
