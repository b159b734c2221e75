#include "runtime/engine/recipe.h"

#include "compiler/base/write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft {

namespace {

constexpr std::string_view kHarmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";

std::string quoted(std::string_view word) {
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string_view::npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string json_number(const std::optional<std::int64_t>& value) { return value ? std::to_string(*value) : "null"; }

std::string json_params(const CompileOptions& options) {
  std::string out;
  for (const auto& [name, value] : options.params) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", json_text(name), json_text(value));
  }
  return "{" + out + "}";
}

/// `<stdin>` and `<pattern>` are no files to give to a command.
std::string file_of(const CompileOptions& options) {
  const auto& name = options.source_name;
  return name.empty() || name.front() == '<' ? "FILE.weft" : quoted(name);
}

}  // namespace

std::string build_command(const CompileOptions& options, const Planned& planned, const std::string& bundle) {
  const auto& bind = planned.bind;
  auto out =
      fmt::format("weft bundle build --add -o {} {} --pattern {} --target {} --dtype {} --dim {}", quoted(bundle),
                  file_of(options), planned.pattern.name, planned.target.name, ir::to_string(bind.dtype), bind.d);
  if (bind.d_v != bind.d) out += fmt::format(" --dim-v {}", bind.d_v);
  if (options.heads) out += fmt::format(" --heads {}", *options.heads);
  if (options.kv_heads) out += fmt::format(" --kv-heads {}", *options.kv_heads);
  if (bind.branch_lse) out += " --lse-per-branch";
  if (bind.paged) out += " --paged";
  if (bind.gradient) out += " --grad";
  for (const auto& [name, value] : options.params) out += " -D " + quoted(name + "=" + value);
  return out;
}

std::string record_line(std::string_view text, const CompileOptions& options, const Planned& planned) {
  return fmt::format(
      "{{\"weft_record\":1,\"pattern\":{},\"target\":{},\"dtype\":\"{}\",\"dim\":{},\"dim_v\":{},\"heads\":{},"
      "\"kv_heads\":{},\"branch_lse\":{},\"paged\":{},\"gradient\":{},\"params\":{},\"text\":{}}}\n",
      json_text(planned.pattern.name), json_text(planned.target.name), ir::to_string(planned.bind.dtype),
      planned.bind.d, planned.bind.d_v, json_number(options.heads), json_number(options.kv_heads), options.branch_lse,
      options.paged, options.gradient, json_params(options), json_text(text));
}

Status Record::add(const std::string& line) const {
  const std::lock_guard lock(mutex_);
  if (!written_.insert(line).second) return done;
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  bool whole = false;
  int failure = errno;
  if (file >= 0) {
    const NoFileSizeSignal quiet;
    const auto wrote = ::write(file, line.data(), line.size());
    failure = wrote < 0 ? errno : ENOSPC;
    whole = wrote == static_cast<ssize_t>(line.size());
    ::close(file);
  }
  if (whole) return done;
  return environment_error(fmt::format("cannot record kernels in {}: {}", path_, std::strerror(failure)));
}

}  // namespace weft
