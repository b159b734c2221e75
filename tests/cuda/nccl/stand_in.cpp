#include "stand_in.h"

#include "runtime/ring/nccl/functions.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace weft::nccl {

namespace {

constexpr int kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5;

struct Op {
  CommHandle* comm = nullptr;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  bool comes = false;
};

}  // namespace

struct CommHandle {
  std::string id;
  int rank = 0, ranks = 0;
  bool connected = false;
  std::vector<Op> pending = {};
};

namespace {

std::map<std::string, std::map<int, CommHandle*>> worlds;  // by id: ranks that came
thread_local std::vector<Op> group;
thread_local bool in_group = false;

test::NcclStandIn& state() {
  static auto* const one = new test::NcclStandIn;
  return *one;
}

/// Writes the call down. 0, or the error with which it shall fail.
int called(const char* name) {
  auto& s = state();
  s.calls.emplace_back(name);
  if (s.fail_at < 0) return kSuccess;
  return s.fail_at-- == 0 ? kSystemError : kSuccess;
}

int misused(std::string how) {
  state().misuse.push_back(std::move(how));
  return kInvalidUsage;
}

/// Once all came it stays, though some go.
bool is_connected(CommHandle& comm) {
  comm.connected |= state().connects && static_cast<int>(worlds[comm.id].size()) == comm.ranks;
  return comm.connected;
}

/// What both sides have begun goes over.
void deliver(std::map<int, CommHandle*>& world) {
  if (state().loses) return;
  for (auto& [rank, from] : world) {
    for (auto op = from->pending.begin(); op != from->pending.end();) {
      const auto to = world.find(op->peer);
      auto taken = false;
      if (!op->comes && to != world.end()) {
        auto& theirs = to->second->pending;
        const auto match = std::find_if(theirs.begin(), theirs.end(),
                                        [&, sender = rank](const Op& of) { return of.comes && of.peer == sender; });
        if (match != theirs.end()) {
          if (match->bytes != op->bytes) misused("one sends other bytes than the other expects");
          std::memcpy(match->data, op->data, std::min(match->bytes, op->bytes));
          state().bytes += op->bytes;
          theirs.erase(match);
          taken = true;
        }
      }
      op = taken ? from->pending.erase(op) : op + 1;
    }
  }
}

int leave(CommHandle* comm) {
  worlds[comm->id].erase(comm->rank);
  --state().comms;
  delete comm;
  return kSuccess;
}

int add(const Op& op) {
  if (!in_group) return misused("a message outside of a group");
  group.push_back(op);
  return kSuccess;
}

}  // namespace
}  // namespace weft::nccl

using namespace weft::nccl;  // NOLINT(google-build-using-namespace): the functions below have no namespace

#define STAND_IN(name, parameters) extern "C" __attribute__((visibility("default"))) int nccl##name parameters
#define CALLED(name)                                       \
  const std::lock_guard lock(state().mutex);               \
  if (const int wrong = called(name); wrong != kSuccess) { \
    return wrong;                                          \
  }

extern "C" weft::test::NcclStandIn* weft_nccl_stand_in() { return &state(); }

extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(int error) {
  return error == kSystemError ? "unhandled system error" : "another error";
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(CommHandle*) {
  return "the stand-in was told to";
}

STAND_IN(GetVersion, (int* version)) {
  const std::lock_guard lock(state().mutex);
  *version = state().version;
  return kSuccess;
}
STAND_IN(GetUniqueId, (UniqueId * out)) {
  CALLED("GetUniqueId");
  static int made = 0;
  const auto id = "world " + std::to_string(made++);
  id.copy(out->bytes.data(), out->bytes.size() - 1);
  return kSuccess;
}
STAND_IN(CommInitRankConfig, (CommHandle * *out, int ranks, UniqueId id, int rank, Config* config)) {
  CALLED("CommInitRankConfig");
  if (config->magic != 0xcafebeef || config->size != 24 || config->version < 21400) return kInvalidArgument;
  if (config->blocking != 0) return misused("a communicator that blocks");
  auto* const comm = new CommHandle{.id = id.bytes.data(), .rank = rank, .ranks = ranks};
  if (!worlds[comm->id].emplace(rank, comm).second) misused("a rank came twice");
  ++state().comms;
  for (auto& [number, of] : worlds[comm->id]) is_connected(*of);
  *out = comm;
  return kInProgress;
}
STAND_IN(CommGetAsyncError, (CommHandle * comm, int* error)) {
  CALLED("CommGetAsyncError");
  deliver(worlds[comm->id]);
  *error = is_connected(*comm) && comm->pending.empty() ? kSuccess : kInProgress;
  return kSuccess;
}
STAND_IN(CommDestroy, (CommHandle * comm)) {
  const std::lock_guard lock(state().mutex);
  if (!comm->pending.empty()) misused("destroyed while messages are under way");
  return leave(comm);
}
STAND_IN(CommAbort, (CommHandle * comm)) {
  const std::lock_guard lock(state().mutex);
  ++state().aborts;
  return leave(comm);
}
STAND_IN(GroupStart, ()) {
  CALLED("GroupStart");
  in_group = true;
  return kSuccess;
}
STAND_IN(Send, (const void* data, std::size_t count, int type, int peer, CommHandle* comm, weft::cuda::StreamHandle*)) {
  CALLED("Send");
  if (type != kInt8) return kInvalidArgument;
  return add({.comm = comm, .data = const_cast<void*>(data), .bytes = count, .peer = peer});
}
STAND_IN(Recv, (void* data, std::size_t count, int type, int peer, CommHandle* comm, weft::cuda::StreamHandle*)) {
  CALLED("Recv");
  if (type != kInt8) return kInvalidArgument;
  return add({.comm = comm, .data = data, .bytes = count, .peer = peer, .comes = true});
}
STAND_IN(GroupEnd, ()) {
  const std::lock_guard lock(state().mutex);
  in_group = false;
  const auto ops = std::move(group);
  group.clear();
  if (const int wrong = called("GroupEnd"); wrong != kSuccess) return wrong;
  if (static_cast<int>(ops.size()) > state().most_in_a_group) return misused("a group that is too large");
  for (const auto& op : ops) {
    if (!is_connected(*op.comm)) return misused("a message before ranks are connected");
    if (op.comm == ops.front().comm && &op == &ops.front() && !op.comm->pending.empty())
      return misused("a group before the last one was queued");
    op.comm->pending.push_back(op);
  }
  return kInProgress;
}
