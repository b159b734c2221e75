#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Expected texts that live beside their input in tests/data/<case>/: what exists is checked, and
/// WEFT_BLESS=1 in the environment rewrites it.
namespace weft::test {

/// All folders of tests/data, sorted.
std::vector<std::filesystem::path> data_cases();

std::string read_text(const std::filesystem::path& file);

/// Empty when `file` does not exist, or holds `actual`; else the first difference and how to accept it.
std::string compare_blessed(const std::filesystem::path& file, const std::string& actual);

}  // namespace weft::test
