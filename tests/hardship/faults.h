#pragma once

/// What a system may refuse, refused on purpose: memory by operator new, and threads.
namespace weft::test {

/// Who is refused memory. LLVM is not: it ends a process that has none for it.
enum class Asking { weft, weft_and_its_strings };

/// From the next allocation but `count` on, memory is refused once.
void refuse_memory_after(long count, Asking who = Asking::weft_and_its_strings);
/// Memory is given again; whether any was refused.
bool give_memory();

/// While it lives, no thread can be made.
class NoThreads {
 public:
  NoThreads();
  ~NoThreads();
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
};
int threads_refused();

}  // namespace weft::test
