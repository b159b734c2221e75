#include "kernels_cache/bundle/writer.h"
#include "runtime/object/embed.h"
#include "tools/commands/bundle.h"
#include "tools/files.h"
#include "tools/json.h"

#include <algorithm>
#include <filesystem>

/// The words of `weft bundle` that make files of bundles: merge, export, sign.
namespace weft::tools {

namespace {

namespace fs = std::filesystem;

/// A bundle whose every byte was checked: what is copied on must not carry damage along.
Result<std::shared_ptr<const bundle::Bundle>> sound_bundle(const std::string& path, const Options& options) {
  WEFT_TRY(auto opened, open_bundle(path, options));
  WEFT_CHECK(opened->verify());
  return opened;
}

Result<std::string> merged(const std::vector<std::string>& files, const Options& options) {
  bundle::Writer writer;
  for (const auto& path : files) {
    WEFT_TRY(const auto from, sound_bundle(path, options));
    for (std::size_t i = 0; i < from->size(); ++i) {
      WEFT_TRY(auto kernel, from->packed(i));
      writer.add_if_absent(std::move(kernel));
    }
  }
  return writer.finish();
}

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// `my-kernels.wfb` is `weft_my_kernels`.
std::string symbol_of(const std::string& path) {
  auto name = "weft_" + fs::path(path).stem().string();
  for (auto& c : name) {
    if (!is_identifier("_" + std::string(1, c))) c = '_';
  }
  return name;
}

std::string header_text(const std::string& symbol, const bundle::Bundle& bundle) {
  auto guard = symbol + "_h";
  std::transform(guard.begin(), guard.end(), guard.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return fmt::format(R"(/* A bundle of {count} Weft kernels, linked into the program:

       weft::EngineOptions options;
       options.linked_bundles = {{{{{symbol}, {symbol}_size, "{symbol}"}}}};
       weft::Engine engine(options);

   Written by `weft bundle export`. Root: {root} */
#ifndef {guard}
#define {guard}

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

extern const unsigned char {symbol}[];
extern const size_t {symbol}_size;

#ifdef __cplusplus
}}
#endif

#endif
)",
                     fmt::arg("count", bundle.size()), fmt::arg("symbol", symbol),
                     fmt::arg("root", hex(bundle.header().root)), fmt::arg("guard", guard));
}

std::string header_path(const std::string& object) { return fs::path(object).replace_extension(".h").string(); }

}  // namespace

int bundle_merge(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (options.output.empty()) return console.usage("bundle merge: -o is missing: the bundle to write");
  if (files.empty()) return console.usage("bundle merge: name the bundles");
  const auto bytes = merged(files, options);
  if (!bytes) return console.fail(bytes.error());
  if (auto written = write_file(options.output, *bytes); !written) return console.fail(written.error());
  const auto made = bundle::Bundle::open_in_memory(*bytes, options.output);
  if (!made) return console.fail(internal_error("what was written is no bundle: " + made.error().message));
  if (console.json()) {
    console.print("{}\n",
                  json_text(Json{{"path", options.output}, {"kernels", (*made)->size()}, {"bytes", bytes->size()}}));
  } else {
    console.remark("{}: {} kernels of {} bundles, {} bytes", options.output, (*made)->size(), files.size(),
                   bytes->size());
  }
  return kDone;
}

int bundle_export(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (files.size() != 1) return console.usage("bundle export takes one bundle");
  if (options.output.empty()) return console.usage("bundle export: -o is missing: the object to write, such as -o X.o");
  const auto symbol = options.symbol.empty() ? symbol_of(files[0]) : options.symbol;
  if (!is_identifier(symbol)) return console.usage(fmt::format("--symbol {}: no name in C", symbol));
  const auto header = header_path(options.output);
  if (header == options.output) return console.usage("bundle export: -o names the object; the header lies beside it");
  const auto checked = open_bundle(files[0], options);
  if (!checked) return console.fail(checked.error());
  const auto bytes = (*checked)->bytes();
  if (!bytes) return console.fail(bytes.error());
  for (const auto& [path, text] :
       {std::pair(header, header_text(symbol, **checked)), std::pair(options.output, object::embed(*bytes, symbol))}) {
    if (auto written = write_file(path, text); !written) return console.fail(written.error());
  }
  if (console.json())
    console.print("{}\n", json_text(Json{{"object", options.output}, {"header", header}, {"symbol", symbol}}));
  else
    console.remark("{} and {}: {}, {} bytes", options.output, header, symbol, bytes->size());
  return kDone;
}

int bundle_sign(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (files.size() != 1) return console.usage("bundle sign takes one bundle");
  if (options.key.empty()) return console.usage("bundle sign: --key is missing: the file of a private key");
  const auto pem = read_text(options.key);
  if (!pem) return console.fail(pem.error());
  const auto key = named(bundle::SigningKey::read(*pem), options.key);
  if (!key) return console.fail(key.error());
  const auto checked = open_bundle(files[0], options);
  if (!checked) return console.fail(checked.error());
  const auto bytes = (*checked)->bytes();
  if (!bytes) return console.fail(bytes.error());
  const auto& header = (*checked)->header();
  const auto signature = key->sign(bundle::signed_message(header.root));
  if (!signature) return console.fail(signature.error());
  const auto signed_bytes =
      bundle::with_signature(*bytes, header, bundle::Signed{.key = key->public_key(), .signature = *signature});
  const auto& path = options.output.empty() ? files[0] : options.output;
  if (auto written = write_file(path, signed_bytes); !written) return console.fail(written.error());
  const auto by = bundle::spelled(key->public_key());
  if (console.json())
    console.print("{}\n", json_text(Json{{"path", path}, {"signed_by", by}, {"root", hex(header.root)}}));
  else
    console.remark("{}: signed by {}", path, by);
  return kDone;
}

}  // namespace weft::tools
