#pragma once

#include "compiler/target/target.h"
#include "tests/machine/driver/machine.h"

#include <weft/weft.h>

#include <string>

namespace weft::test {

/// The driver, which this process has opened.
machine::Machine& the_machine();

/// Architectures whose machine code is run here.
constexpr int kArchitectures[] = {61, 75, 80, 90};
/// A kernel costs NVRTC some seconds: of many, one in `every` is run, and they take the architectures in turn. All on
/// all of them with WEFT_TEST_ALL.
bool is_run_on(int sm, std::size_t number, std::size_t every);
/// Of cases that need one architecture only, which take them in turn.
bool is_turn_of(int sm, std::size_t number);

/// From here on the driver of this process is the machine, as a GPU of this architecture. Why not, in a sentence, where
/// NVRTC or a disassembler that knows the architecture is not there; otherwise empty.
std::string become(int sm);

/// Remembers kernels in the folder WEFT_MACHINE_STORE; without it, nothing.
Engine engine_of_machine();

}  // namespace weft::test
