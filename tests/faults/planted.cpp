#include "tests/faults/planted.h"

namespace {

unsigned long long planted[2] = {0, 0};

}  // namespace

#define WEFT_SEEN extern "C" __attribute__((visibility("default")))

WEFT_SEEN bool weft_is_planted(unsigned long long fault) { return fault == planted[0] || fault == planted[1]; }

/// 0: none.
WEFT_SEEN void weft_plant(unsigned long long first, unsigned long long second) {
  planted[0] = first;
  planted[1] = second;
}
