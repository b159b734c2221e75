# {fmt} is compiled into what is built here, from the headers installed: Debian has no static library of it, and as
# headers alone it doubles the time of every file.
find_package(fmt REQUIRED)
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
set(fmt_source ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)

# Another version may promise more than fmt.cpp keeps.
if(NOT DEFINED WEFT_FMT_INSIDE)
  try_compile(WEFT_FMT_INSIDE
    SOURCES ${fmt_source} ${CMAKE_CURRENT_LIST_DIR}/fmt_used.cpp
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${fmt_include} -DCMAKE_CXX_VISIBILITY_PRESET=hidden
    CXX_STANDARD 20)
endif()
if(WEFT_FMT_INSIDE)
  add_library(weft_fmt STATIC ${fmt_source})
  target_include_directories(weft_fmt SYSTEM PUBLIC ${fmt_include})
else()
  add_library(weft_fmt INTERFACE)
  target_link_libraries(weft_fmt INTERFACE $<IF:$<BOOL:${WEFT_STATIC}>,fmt::fmt-header-only,fmt::fmt>)
endif()
