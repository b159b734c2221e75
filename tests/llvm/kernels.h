#pragma once

#include "runtime/llvm/compile.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace weft::llvm {

/// Small functions that bring every kind of section and relocation kernels may have: vector code, constants,
/// a jump table, a table of pointers, a call, zeroed and initialised data.
inline constexpr char kProbeIr[] = R"(
@weights = private unnamed_addr constant [8 x float] [float 1.0, float 2.0, float 4.0, float 8.0,
                                                      float 16.0, float 32.0, float 64.0, float 128.0], align 32
@functions = private constant [2 x ptr] [ptr @twice, ptr @square]
@calls = internal global i64 0
@step = internal global i64 3

define hidden i64 @twice(i64 %x) noinline nounwind {
  %r = add i64 %x, %x
  ret i64 %r
}
define hidden i64 @square(i64 %x) noinline nounwind {
  %r = mul i64 %x, %x
  ret i64 %r
}
define i64 @by_pointer(i64 %which, i64 %x) nounwind {
  %slot = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %which
  %f = load ptr, ptr %slot
  %r = call i64 %f(i64 %x)
  ret i64 %r
}
define i64 @count() nounwind {
  %old = load i64, ptr @calls
  %step = load i64, ptr @step
  %new = add i64 %old, %step
  store i64 %new, ptr @calls
  ret i64 %new
}
define i64 @branches(i64 %which) nounwind {
entry:
  switch i64 %which, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c
                                    i64 3, label %d  i64 4, label %e  i64 5, label %f ]
a: 
  %ra = call i64 @count()
  ret i64 %ra
b:
  %rb = call i64 @twice(i64 21)
  ret i64 %rb
c:
  %rc = call i64 @square(i64 5)
  ret i64 %rc
d:
  %rd = call i64 @by_pointer(i64 1, i64 9)
  ret i64 %rd
e:
  %re = call i64 @by_pointer(i64 0, i64 100)
  ret i64 %re
f:
  ret i64 -6
other:
  ret i64 7
}
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
define void @weigh(ptr %x, i64 %n) nounwind {
entry:
  %w = load <8 x float>, ptr @weights
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr float, ptr %x, i64 %i
  %v = load <8 x float>, ptr %at, align 4
  %m = fmul <8 x float> %v, %w
  %r = fadd <8 x float> %m, <float 0.5, float 0.25, float 0.5, float 0.25, float 0.5, float 0.25, float 0.5, float 0.25>
  store <8 x float> %r, ptr %at, align 4
  %next = add i64 %i, 8
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
)";

/// The library, or a failed test that says how to install it.
inline std::shared_ptr<const Library> library() {
  const auto opened = Library::open();
  if (opened.ok()) return *opened;
  std::string notes;
  for (const std::string& note : opened.error().notes) notes += "\n  " + note;
  ADD_FAILURE() << opened.error().message << notes;
  return nullptr;
}

inline std::vector<Target> cpu_targets() {
  std::vector<Target> out;
  for (const Target& target : known_targets()) {
    if (target.kind == TargetKind::cpu) out.push_back(target);
  }
  return out;
}

inline std::string compiled(const std::string& ir_text, const Target& target) {
  const auto llvm = library();
  if (llvm == nullptr) return {};
  auto bytes = compile(*llvm, ir_text, target);
  if (bytes.ok()) return std::move(*bytes);
  ADD_FAILURE() << bytes.error().message;
  return {};
}

}  // namespace weft::llvm
