#include "compiler/base/parallel.h"
#include "kernels_cache/bundle/writer.h"
#include "runtime/engine/ahead.h"
#include "tools/bundle_requests.h"
#include "tools/commands/bundle.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"
#include "tools/unfinished_build.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

namespace weft::tools {

namespace {

constexpr std::size_t kMostThreads = 256;

/// What could not be made, in the order of the requests, whichever thread was first.
struct Failure {
  std::size_t request = 0;
  Error error;
};

class Build {
 public:
  Build(std::vector<Request> requests, UnfinishedBuild unfinished, const Options& options, const Console& console)
      : requests_(std::move(requests)),
        options_(options),
        console_(console),
        threads_(options.jobs ? std::min(static_cast<std::size_t>(*options.jobs), kMostThreads) : core_count()),
        unfinished_(std::move(unfinished)),
        ahead_(engine_of(options, unfinished_.folder())) {}

  int run() {
    const Stopwatch watch;
    plan();
    if (!failures_.empty() && !options_.keep_going) return fail();
    make();
    for (const auto& warning : ahead_.take_warnings()) console_.warn("{}", warning);
    if (const int status = fail(); status != kDone) return status;
    const auto bytes = with_old_kernels();
    if (!bytes) return console_.fail(bytes.error());
    if (auto written = write_file(options_.output, *bytes); !written) return console_.fail(written.error());
    unfinished_.remove();
    return report(*bytes, watch.ms() / 1000);
  }

 private:
  static EngineOptions engine_of(const Options& options, const std::string& partial) {
    auto to = engine_options(options);
    to.cache_dir = partial;
    to.cache_bytes = std::uint64_t{1} << 50;  // nothing that is finished is swept
    return to;
  }

  /// Work with one binary, each with the number of its request.
  using Group = std::vector<std::pair<std::size_t, Ahead::Work>>;

  /// Requests to work, grouped by what is compiled: many patterns come to one text.
  void plan() {
    std::vector<std::vector<Ahead::Work>> planned(requests_.size());
    Progress progress(console_, "planning");
    std::size_t finished = 0;
    in_parallel(requests_.size(), threads_, [&](std::size_t i) {
      auto work = Ahead::plan(*requests_[i].source, requests_[i].options);
      const std::lock_guard lock(mutex_);
      progress.update(++finished, requests_.size());
      if (work)
        planned[i] = std::move(*work);
      else
        failures_.push_back({.request = i, .error = std::move(work).error()});
      return true;
    });
    std::map<std::string, Group> groups;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      for (auto& work : planned[i]) {
        if (options_.no_few && ir::is_of_few(work.binary.regime)) continue;
        groups[work.binary.request.text()].emplace_back(i, std::move(work));
      }
    }
    for (auto& [request, group] : groups) groups_.push_back(std::move(group));
  }

  void make() {
    Progress progress(console_, "compiling");
    std::size_t finished = 0;
    in_parallel(groups_.size(), threads_, [&](std::size_t i) {
      const Stopwatch watch;
      auto made = make_group(i);
      const std::lock_guard lock(mutex_);
      progress.update(++finished, groups_.size());
      if (made) {
        if (console_.verbose()) say(i, watch.ms());
        return true;
      }
      // Without a compiler, or a disk, nothing else will work either.
      const bool hopeless = made.error().kind == ErrorKind::environment && !options_.keep_going;
      failures_.push_back({.request = groups_[i].front().first, .error = std::move(made).error()});
      return !hopeless;
    });
  }

  void say(std::size_t group, double ms) const {
    const auto& work = groups_[group].front().second;
    const auto others = groups_[group].size() - 1;
    console_.remark("{} ({}) for {}{}: {:.0f} ms", work.kernel->pattern.name, work.variant, work.kernel->target.name,
                    others == 0 ? "" : fmt::format(" and {} more", others), ms);
  }

  Status make_group(std::size_t index) {
    const auto& group = groups_[index];
    WEFT_TRY(auto made, ahead_.make(group.front().second));
    WEFT_TRY(auto first, bundle::pack(made.kernel));
    std::vector<bundle::Packed> packed = {std::move(first)};
    for (std::size_t i = 1; i < group.size(); ++i) {
      WEFT_TRY(auto like, bundle::pack_like(packed.front(), Ahead::named_for(group[i].second, made.kernel)));
      packed.push_back(std::move(like));
    }
    const std::lock_guard lock(mutex_);
    (made.compiled ? compiled_ : resumed_) += 1;
    for (auto& kernel : packed) writer_.add(std::move(kernel));
    return done;
  }

  /// Prints what failed, each once; the status to end with, kDone where the rest shall be written.
  int fail() {
    std::sort(failures_.begin(), failures_.end(), [](const auto& a, const auto& b) { return a.request < b.request; });
    int status = kDone;
    std::set<std::string> said;
    for (const auto& [index, error] : failures_) {
      const auto& request = requests_[index];
      auto named_error = error;
      named_error.message = fmt::format("{}: {} for {}: {}", request.source->name, request.options.pattern,
                                        request.options.target, error.message);
      if (!said.insert(named_error.message).second) continue;
      if (options_.keep_going) {
        console_.warn("left out: {}", named_error.message);
        continue;
      }
      const int found = console_.fail(named_error, request.source.get());
      if (status == kDone) status = found;
    }
    if (status != kDone && writer_.size() == 0) unfinished_.remove();
    if (status != kDone && writer_.size() > 0) {
      console_.remark("{} finished kernels are kept in {}: the same command goes on from there", writer_.size(),
                      unfinished_.folder());
    }
    return status;
  }

  Result<std::string> with_old_kernels() {
    if (options_.add && std::filesystem::exists(options_.output)) {
      WEFT_TRY(const auto old, open_bundle(options_.output, options_));
      WEFT_CHECK(old->verify());
      for (std::size_t i = 0; i < old->size(); ++i) {
        WEFT_TRY(auto kernel, old->packed(i));
        writer_.add_if_absent(std::move(kernel));
      }
    }
    return writer_.finish();
  }

  int report(const std::string& bytes, double seconds) const {
    const auto opened = bundle::Bundle::open_in_memory(bytes, options_.output);
    if (!opened) return console_.fail(internal_error("what was written is no bundle: " + opened.error().message));
    std::set<std::string_view> targets;
    for (std::size_t i = 0; i < (*opened)->size(); ++i) targets.insert((*opened)->summary(i).target);
    if (console_.json()) {
      console_.print("{}\n", json_text(Json{{"path", options_.output},
                                            {"kernels", (*opened)->size()},
                                            {"binaries", compiled_ + resumed_},
                                            {"targets", targets},
                                            {"bytes", bytes.size()},
                                            {"compiled", compiled_},
                                            {"resumed", resumed_},
                                            {"left_out", failures_.size()},
                                            {"root", hex((*opened)->header().root)},
                                            {"seconds", seconds}}));
      return kDone;
    }
    std::string list;
    for (const auto target : targets) list.append(list.empty() ? "" : ", ").append(target);
    console_.remark("{}: {} kernel{} for {}, {:.1f} KiB; {} compiled{} in {:.1f} s", options_.output, (*opened)->size(),
                    (*opened)->size() == 1 ? "" : "s", list.empty() ? "no target" : list,
                    static_cast<double>(bytes.size()) / 1024, compiled_,
                    resumed_ == 0 ? "" : fmt::format(", {} finished before", resumed_), seconds);
    return kDone;
  }

  std::vector<Request> requests_;
  const Options& options_;
  const Console& console_;
  std::size_t threads_;
  UnfinishedBuild unfinished_;
  Ahead ahead_;
  std::vector<Group> groups_;
  std::mutex mutex_;  ///< of what follows
  std::vector<Failure> failures_;
  bundle::Writer writer_;
  std::size_t compiled_ = 0, resumed_ = 0;
};

}  // namespace

int bundle_build(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (options.output.empty())
    return console.usage("bundle build: -o is missing: the bundle to write, such as -o X.wfb");
  if (options.output == "-") return console.usage("bundle build: -o must be a file: beside it lies what is finished");
  if (files.empty() && options.from_record.empty()) return console.usage("bundle build: FILE is missing");
  Requests requests;
  if (!files.empty()) {
    requests = requests_of(files, options, console);
    if (requests.status != kDone) return requests.status;
  }
  if (!options.from_record.empty()) {
    auto recorded = recorded_requests(options.from_record);
    if (!recorded) return console.fail(recorded.error());
    for (auto& request : *recorded) requests.list.push_back(std::move(request));
  }
  auto unfinished = UnfinishedBuild::of(options.output);
  if (!unfinished) return console.fail(unfinished.error());
  return Build(std::move(requests.list), std::move(*unfinished), options, console).run();
}

}  // namespace weft::tools
