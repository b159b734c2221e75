# The shared library with its two faces, C++ and C.
file(WRITE ${PROJECT_BINARY_DIR}/empty.cpp "")
add_library(weft_shared SHARED ${PROJECT_BINARY_DIR}/empty.cpp)
add_library(weft::weft ALIAS weft_shared)
target_link_libraries(weft_shared PRIVATE weft_c_api weft_explain weft_ring weft_runtime) # each before what it needs
# Both faces whole: nothing here refers to them.
set_target_properties(weft_shared PROPERTIES LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,weft_c_api,weft_ring,weft_runtime,weft_base")
target_include_directories(weft_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft VERSION ${PROJECT_VERSION} SOVERSION 0)
# What is inside stays inside, and what of it nobody uses is left out.
if(WEFT_STATIC)
  target_link_options(weft_shared PRIVATE -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a:libcrypto.a)
endif()
