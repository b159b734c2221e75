#include "tools/bundle_requests.h"

#include "dsl/parse.h"
#include "runtime/engine/front.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/pattern_file.h"

#include <algorithm>
#include <set>

namespace weft::tools {

namespace {

using Dims = std::vector<std::int64_t>;

/// `a,b` and a repeated option are the same list; doubles count once.
std::vector<std::string> listed(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const auto& text : texts) {
    for (std::size_t at = 0; at <= text.size();) {
      const auto end = std::min(text.find(',', at), text.size());
      auto word = text.substr(at, end - at);
      if (std::find(out.begin(), out.end(), word) == out.end()) out.push_back(std::move(word));
      at = end + 1;
    }
  }
  return out;
}

/// What the options say, checked, before any file is read.
struct Wanted {
  std::vector<std::string> targets;
  std::vector<DType> dtypes;
  CompileOptions common;  ///< with all parameters, whichever pattern has them
};

Result<Wanted> wanted_of(const Options& options) {
  Wanted out;
  out.targets = listed(options.targets);
  if (out.targets.empty()) return user_error("--target is missing: a list such as sm_61,sm_90,cpu:x86-64-v3");
  for (const auto& word : out.targets) {
    if (auto wrong = wrong_target(word); !wrong.empty()) return user_error(std::move(wrong));
  }
  for (const auto& word : listed(options.dtypes)) {
    const auto type = dtype_named(word);
    if (!type || *type == DType::f64) return user_error(fmt::format("--dtype {}: expected f32, f16 or bf16", word));
    out.dtypes.push_back(*type);
  }
  WEFT_TRY(out.common, compile_options(options, Source{}));
  out.common.paged = options.paged;
  if (options.paged && options.gradients) {
    return user_error("--paged and --grad do not go together: K and V in pages have no backward pass");
  }
  return out;
}

/// The one value that a pattern fixes, else what the options list; nothing where neither says anything.
template <typename Value, typename Fixed>
std::vector<std::optional<Value>> choices(const std::optional<Fixed>& fixed, const std::vector<Value>& asked) {
  if (fixed) return {std::nullopt};  // not to be bound again
  return {asked.begin(), asked.end()};
}

class Collector {
 public:
  Collector(const Options& options, Wanted wanted) : options_(options), wanted_(std::move(wanted)) {}

  /// Requests for the patterns of one file. Diagnostics are into its text.
  Status add(const std::shared_ptr<const Source>& source) {
    WEFT_TRY(const auto text, check_text(*source));
    for (const auto& pattern : text.file.patterns) {
      if (!options_.pattern.empty() && options_.pattern != pattern.name) continue;
      auto known = wanted_.common;
      known.pattern = pattern.name;
      known.source_name = source->name;
      std::erase_if(known.params, [&](const auto& param) { return !has_param(pattern, param.first); });
      for (const auto& [name, value] : known.params) used_.insert(name);
      WEFT_CHECK(add_pattern(text, source, known));
    }
    return done;
  }

  /// What was asked for and met no pattern.
  Status finish() const {
    if (!options_.pattern.empty() && list.empty()) {
      return user_error(fmt::format("no file has a pattern '{}'", options_.pattern));
    }
    for (const auto& [name, value] : wanted_.common.params) {
      if (used_.count(name) == 0)
        return user_error(fmt::format("-D {}={}: no pattern has this parameter", name, value));
    }
    return done;
  }

  std::vector<Request> list;

 private:
  static bool has_param(const dsl::PatternDef& pattern, const std::string& name) {
    return std::any_of(pattern.params.begin(), pattern.params.end(), [&](const auto& p) { return p.name == name; });
  }

  Status add_pattern(const CheckedText& text, const std::shared_ptr<const Source>& source, CompileOptions known) {
    auto open = known;
    open.heads = open.kv_heads = std::nullopt;
    WEFT_TRY(const auto front, read_pattern(text, *source, open));
    const auto& pattern = front.pattern;
    if (pattern.heads) known.heads = std::nullopt;
    if (pattern.kv_heads) known.kv_heads = std::nullopt;
    const auto dims = choices(pattern.dim, options_.dims);
    auto dims_v = choices(pattern.dim_v, options_.dims_v);
    const auto dtypes = choices(pattern.dtype, wanted_.dtypes);
    if (dims.empty()) return left_open(pattern.name, "dim", "--dim 64,128");
    if (dtypes.empty()) return left_open(pattern.name, "dtype", "--dtype f16,bf16");
    if (dims_v.empty()) dims_v = {std::nullopt};  // that of q and k
    for (const auto& target : wanted_.targets) {
      for (const auto& dtype : dtypes) {
        for (const auto& dim : dims) {
          for (const auto& dim_v : dims_v) {
            auto one = known;
            one.target = target;
            one.dtype = dtype;
            one.dim = dim;
            one.dim_v = dim_v;
            list.push_back({.source = source, .options = one});
            one.gradient = true;
            if (options_.gradients) list.push_back({.source = source, .options = std::move(one)});
          }
        }
      }
    }
    return done;
  }

  static Error left_open(const std::string& pattern, const char* what, const char* option) {
    return user_error(
        fmt::format("pattern '{}' leaves {} open, and no option binds it: add {}", pattern, what, option));
  }

  const Options& options_;
  Wanted wanted_;
  std::set<std::string> used_;
};

template <typename Value>
void take(const Json& from, const char* key, Value& to) {
  to = from.at(key).get<Value>();
}

void take(const Json& from, const char* key, std::optional<std::int64_t>& to) {
  if (!from.at(key).is_null()) to = from.at(key).get<std::int64_t>();
}

Request recorded(const Json& from, const std::string& name) {
  CompileOptions to{.source_name = name};
  auto source = std::make_shared<Source>(Source{.name = name, .text = {}});
  take(from, "pattern", to.pattern);
  take(from, "target", to.target);
  take(from, "dim", to.dim);
  take(from, "dim_v", to.dim_v);
  take(from, "heads", to.heads);
  take(from, "kv_heads", to.kv_heads);
  take(from, "branch_lse", to.branch_lse);
  take(from, "paged", to.paged);
  if (from.contains("gradient")) take(from, "gradient", to.gradient);  // older records have no backward passes
  take(from, "params", to.params);
  take(from, "text", source->text);
  to.dtype = dtype_named(from.at("dtype").get<std::string>());
  return {.source = std::move(source), .options = std::move(to)};
}

}  // namespace

Requests requests_of(const std::vector<std::string>& files, const Options& options, const Console& console) {
  auto wanted = wanted_of(options);
  if (!wanted) return {.status = console.usage(wanted.error().message)};
  Collector collector(options, std::move(*wanted));
  for (const auto& path : files) {
    auto read = read_source(path);
    if (!read) return {.status = console.fail(read.error())};
    const auto source = std::make_shared<const Source>(std::move(*read));
    if (auto added = collector.add(source); !added) {
      auto error = std::move(added).error();
      if (error.diagnostics.empty()) error.message = path + ": " + error.message;
      return {.status = console.fail(error, source.get())};
    }
  }
  if (auto finished = collector.finish(); !finished) return {.status = console.fail(finished.error())};
  return {.list = std::move(collector.list)};
}

Result<std::vector<Request>> recorded_requests(const std::string& path) {
  WEFT_TRY(const auto text, read_text(path));
  std::vector<Request> out;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    const auto wrong = user_error(fmt::format("{}: line {} is no recorded kernel", path, number + 1));
    try {
      const auto parsed = Json::parse(line);
      if (const auto version = parsed.at("weft_record").get<int>(); version != 1) {
        return user_error(
            fmt::format("{}: line {} has format {}, which a newer Weft wrote", path, number + 1, version));
      }
      out.push_back(recorded(parsed, fmt::format("line {} of {}", number + 1, path)));
    } catch (const Json::exception&) {
      return wrong;
    }
  }
  return out;
}

}  // namespace weft::tools
