# Device headers as string constants: cmake -DFILES=… -DOUT=… -P embed.cmake. Lines that include, or guard against
# including twice, are left out: the emitted text is one file. So are marks of faults (tests/faults/planted.h).
file(WRITE ${OUT}.new "// Made by embed.cmake from the headers that the emitted text consists of.\n#include \"codegen/cuda/headers.h\"\n\nnamespace weft::codegen::cuda {\n\nconst Header kHeaders[] = {\n")
foreach(path IN LISTS FILES)
  get_filename_component(name ${path} NAME)
  file(READ ${path} text)
  string(REGEX REPLACE "#pragma once\n+" "" text "${text}")
  string(REGEX REPLACE "#include \"[^\n]*\"\n+" "" text "${text}")
  string(REGEX REPLACE "\n *// fault\\([^\n]*(\n *//   [^\n]*)*" "" text "${text}")
  file(APPEND ${OUT}.new "    {\"${name}\", R\"header(${text})header\"},\n")
endforeach()
file(APPEND ${OUT}.new "};\n\nconst int kHeaderCount = sizeof kHeaders / sizeof kHeaders[0];\n\n}  // namespace weft::codegen::cuda\n")
file(RENAME ${OUT}.new ${OUT})
