#pragma once

#include "kernels_cache/bundle/reader.h"
#include "tools/console.h"
#include "tools/options.h"

#include <memory>
#include <string>
#include <vector>

namespace weft::tools {

// The words of `weft bundle`; `files` are what follows the word. They return the exit status.
int bundle_build(const std::vector<std::string>& files, const Options& options, const Console& console);
int bundle_list(const std::vector<std::string>& files, const Options& options, const Console& console);
int bundle_verify(const std::vector<std::string>& files, const Options& options, const Console& console);
int bundle_diff(const std::vector<std::string>& files, const Options& options, const Console& console);
int bundle_merge(const std::vector<std::string>& files, const Options& options, const Console& console);
int bundle_export(const std::vector<std::string>& files, const Options& options, const Console& console);
int bundle_sign(const std::vector<std::string>& files, const Options& options, const Console& console);

/// Opens a bundle as the options trust them (--public-key).
Result<std::shared_ptr<const bundle::Bundle>> open_bundle(const std::string& path, const Options& options);

}  // namespace weft::tools
