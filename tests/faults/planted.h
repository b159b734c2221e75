#pragma once

// Faults that tests plant, to see that something finds them. Each is declared where it matters, by a comment:
//
//   // fault(no_rescale) leaves this out                         the statement behind it is not computed
//   // fault(twice) also: ++count;                               this is computed before what stands behind it
//   // fault(one_too_near) instead: end = last - 1;              … in the place of the statement behind it
//   // fault(next_key) value: right + 1                          … in the place of the value that the variable behind
//                                                              it gets, which is `right`; one mark a variable
//
// Lines that begin with `//` and three spaces go on with a mark. Two marks of one name in one file are one fault.
// The product never sees any of this: compilers skip comments, and emitted texts are without them (embed.cmake). For
// tests plant.cmake makes copies in which every mark is code, so that one compilation serves all of a text's faults;
// which is planted, Planted says at run time. Stands in front of emitted texts, too: C++17.

/// Is it planted?
extern "C" __attribute__((const)) bool weft_is_planted(unsigned long long fault);

constexpr unsigned long long weft_fault_number(const char* name) {
  unsigned long long number = 0xCBF29CE484222325ULL;
  for (; *name != '\0'; ++name) number = (number ^ static_cast<unsigned char>(*name)) * 0x100000001B3ULL;
  return number;
}

template <unsigned long long kFault>
inline bool weft_is_planted_here() {
  return weft_is_planted(kFault);
}
#define WEFT_PLANTED(name) weft_is_planted_here<weft_fault_number(#name)>()
