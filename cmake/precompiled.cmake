# What nearly every file includes, compiled once for each kind of object: a fourth of a file's time. They are named as
# systems have them, so that a compiler cache knows them in another checkout, too. CMAKE_DISABLE_PRECOMPILE_HEADERS, which
# ./dev lint sets, shows what a file forgot to include.
set(weft_precompiled_headers
  <algorithm> <array> <cstddef> <cstdint> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <string>
  <string_view> <tuple> <utility> <variant> <vector> <fmt/format.h>)

# The objects of libraries.
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
add_library(weft_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_link_libraries(weft_precompiled PRIVATE weft_warnings)
target_precompile_headers(weft_precompiled PRIVATE ${weft_precompiled_headers})
