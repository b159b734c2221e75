# weft_add_bundle(TARGET FILE… TARGETS NAME…
#                 [PARAMS NAME=VALUE…] [HEADS N] [KV_HEADS N] [DIMS N…] [DIMS_V N…] [DTYPES NAME…] [BRANCH_LSE] [PAGED]
#                 [GRADIENTS] [NAME NAME] [KEY FILE] [OPTIONS ARGUMENT…])
#
# Compiles every pattern of the files when TARGET is built, for each of TARGETS, which are those of `weft bundle build`
# (`cpu:x86-64-v3`, `sm_80`; `cpu` is the machine that builds), and links the kernels into TARGET. Its sources may then
#
#     #include "NAME.h"
#     options.linked_bundles = {{weft_NAME, weft_NAME_size, "NAME"}};
#
# NAME is `TARGET_kernels` unless it is given; the bundle itself lies at the target's property WEFT_BUNDLE. PARAMS,
# HEADS, DIMS and DTYPES bind what a pattern leaves open. GRADIENTS adds the kernels of the backward pass. KEY signs the
# bundle. Kernels that are up to date are not compiled again.
function(weft_add_bundle target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "BRANCH_LSE;PAGED;GRADIENTS" "NAME;HEADS;KV_HEADS;KEY"
                        "TARGETS;PARAMS;DIMS;DIMS_V;DTYPES;OPTIONS")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "weft_add_bundle: there is no target ${target}")
  endif()
  if(NOT ARG_UNPARSED_ARGUMENTS OR NOT ARG_TARGETS)
    message(FATAL_ERROR "weft_add_bundle(${target} …): name pattern files, and TARGETS to compile them for")
  endif()
  if(NOT ARG_NAME)
    string(MAKE_C_IDENTIFIER ${target}_kernels ARG_NAME)
  endif()

  set(files)
  foreach(file IN LISTS ARG_UNPARSED_ARGUMENTS)
    get_filename_component(file ${file} ABSOLUTE)
    list(APPEND files ${file})
  endforeach()
  list(JOIN ARG_TARGETS "," targets)
  set(flags --target ${targets})
  foreach(param IN LISTS ARG_PARAMS)
    list(APPEND flags -D ${param})
  endforeach()
  foreach(pair DIMS:--dim DIMS_V:--dim-v DTYPES:--dtype HEADS:--heads KV_HEADS:--kv-heads)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 flag)
    if(ARG_${name})
      list(JOIN ARG_${name} "," values)
      list(APPEND flags ${flag} ${values})
    endif()
  endforeach()
  if(ARG_BRANCH_LSE)
    list(APPEND flags --lse-per-branch)
  endif()
  if(ARG_PAGED)
    list(APPEND flags --paged)
  endif()
  if(ARG_GRADIENTS)
    list(APPEND flags --grad)
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.weft)
  file(MAKE_DIRECTORY ${folder})
  set(bundle ${folder}/${ARG_NAME}.wfb)
  set(sign)
  if(ARG_KEY)
    get_filename_component(key ${ARG_KEY} ABSOLUTE)
    set(sign COMMAND weft::command bundle sign ${bundle} --key ${key})
  endif()
  add_custom_command(OUTPUT ${bundle} ${folder}/${ARG_NAME}.o ${folder}/${ARG_NAME}.h
    COMMAND weft::command bundle build -o ${bundle} ${files} ${flags} ${ARG_OPTIONS}
    ${sign}
    COMMAND weft::command bundle export ${bundle} -o ${folder}/${ARG_NAME}.o
    DEPENDS ${files} ${key} weft::command
    COMMENT "Compiling attention patterns for ${targets}" VERBATIM)
  target_sources(${target} PRIVATE ${folder}/${ARG_NAME}.o ${folder}/${ARG_NAME}.h)
  set_source_files_properties(${folder}/${ARG_NAME}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_include_directories(${target} PRIVATE ${folder})
  set_property(TARGET ${target} PROPERTY WEFT_BUNDLE ${bundle})
endfunction()
