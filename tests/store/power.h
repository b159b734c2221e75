#pragma once

#include "tracer.h"

#include <sys/syscall.h>

#include <fcntl.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// A disk that loses power. Modelled is one directory: what a file system may make of it that promises no more than
/// POSIX: what was synced is there, and of the rest any part.
namespace weft::store_test {

struct Operation {
  enum class Kind { create, write, sync, sync_directory, rename, remove };
  Kind kind;
  std::string name = {}, to = {};
  std::string data = {};
};

/// What a traced writer did with entries and temporary files.
inline std::vector<Operation> recorded(const Ended& ended) {
  using Kind = Operation::Kind;
  std::vector<Operation> out;
  std::map<std::uint64_t, std::string> files;  // by descriptor
  for (const Call& call : ended.calls) {
    if (call.result < 0) continue;
    const auto known = files.find(call.arguments[0]);
    switch (static_cast<long>(call.number)) {
      case SYS_openat: {
        const auto made = static_cast<std::uint64_t>(call.result);
        files.erase(made);
        if (call.path.starts_with("tmp-")) {
          files[made] = call.path;
          out.push_back({.kind = Kind::create, .name = call.path});
        } else if ((call.arguments[2] & O_DIRECTORY) != 0 && call.path.size() == 2) {
          files[made] = "";  // the shard itself
        }
        break;
      }
      case SYS_write:
        if (known != files.end()) out.push_back({.kind = Kind::write, .name = known->second, .data = call.data});
        break;
      case SYS_fsync:
        if (known != files.end() && known->second.empty()) out.push_back({.kind = Kind::sync_directory});
        if (known != files.end() && !known->second.empty()) out.push_back({.kind = Kind::sync, .name = known->second});
        break;
      case SYS_renameat:
      case SYS_renameat2:
        out.push_back({.kind = Kind::rename, .name = call.path, .to = call.second_path});
        break;
      case SYS_unlinkat:
        out.push_back({.kind = Kind::remove, .name = call.path});
        break;
      default:
        break;
    }
  }
  return out;
}

/// A file's bytes as they were written, and how many of them were synced.
struct Content {
  std::string bytes;
  std::size_t synced = 0;
};

/// What may be on the disk of a file: the synced bytes, and of the others none, half, zeroes, all.
inline std::vector<std::string> variants(const Content& content) {
  const std::string& all = content.bytes;
  if (content.synced == all.size()) return {all};
  const std::string kept = all.substr(0, content.synced);
  const std::size_t rest = all.size() - content.synced;
  return {kept, kept + all.substr(content.synced, rest / 2), kept + std::string(rest, '\0'), all};
}

/// visit(files) for each state that may be found after these operations on a directory that had `before`.
inline void each_state(const std::vector<Operation>& log, const std::map<std::string, std::string>& before,
                       const std::function<void(const std::map<std::string, std::string>&)>& visit) {
  using Kind = Operation::Kind;
  std::map<std::string, Content> contents;  // by the name a file was created under
  std::vector<Operation> changes;           // of the directory, in order
  std::size_t durable = 0;                  // so many of them are synced
  for (const Operation& operation : log) {
    Content& content = contents[operation.name];
    if (operation.kind == Kind::write) content.bytes += operation.data;
    if (operation.kind == Kind::sync) content.synced = content.bytes.size();
    if (operation.kind == Kind::sync_directory) durable = changes.size();
    if (operation.kind == Kind::create || operation.kind == Kind::rename || operation.kind == Kind::remove) {
      changes.push_back(operation);
    }
  }
  const std::size_t loose = std::min<std::size_t>(changes.size() - durable, 10);
  for (std::size_t kept = 0; kept < std::size_t{1} << loose; ++kept) {
    // Names, each with the file that it stands for; a file from before stands for itself.
    std::map<std::string, std::string> names;
    for (const auto& [name, bytes] : before) names[name] = "";
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (i >= durable && (kept >> (i - durable) & 1) == 0) continue;
      const Operation& change = changes[i];
      if (change.kind == Kind::create) names[change.name] = change.name;
      if (change.kind == Kind::remove) names.erase(change.name);
      // A rename that is on the disk without the creation before it is one of a file that has no other name.
      if (change.kind == Kind::rename) {
        names[change.to] = change.name;
        names.erase(change.name);
      }
    }
    std::vector<std::map<std::string, std::string>> states(1);
    for (const auto& [name, file] : names) {
      std::vector<std::map<std::string, std::string>> more;
      for (const std::string& bytes : file.empty() ? std::vector{before.at(name)} : variants(contents[file])) {
        for (auto state : states) {
          state[name] = bytes;
          more.push_back(std::move(state));
        }
      }
      states = std::move(more);
    }
    for (const auto& state : states) visit(state);
  }
}

}  // namespace weft::store_test
