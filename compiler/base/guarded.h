#pragma once

#include "compiler/base/result.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

namespace weft {

/// Short enough that a string holds it without an allocation.
inline Error out_of_memory() { return environment_error("out of memory"); }

/// Runs `body`, which returns a Result; whatever it throws becomes an error. Nothing leaves the library otherwise.
template <typename Body>
auto guarded(const Body& body) noexcept -> decltype(body()) {
  try {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::length_error&) {
      return out_of_memory();  // a string or vector was to be larger than memory can be
    } catch (const std::system_error& refused) {
      return environment_error(refused.what());
    } catch (const std::exception& defect) {
      return internal_error(defect.what());
    }
  } catch (...) {
    return out_of_memory();  // for the error's own text
  }
}

}  // namespace weft
