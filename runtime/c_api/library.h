#pragma once

#include <cstddef>

/// The patterns of examples/, carried along as they stand.
namespace weft::c_api {

std::size_t library_size();
const char* library_text(std::size_t number);

}  // namespace weft::c_api
