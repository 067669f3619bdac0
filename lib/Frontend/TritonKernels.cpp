// Reads the description of packed Triton kernels: JSON to plain structs, and nothing is believed.
#include "TritonKernels.h"
#include "Json.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace kiln::frontend;
using kiln::frontend::json::Path;
using kiln::frontend::json::Value;

/// The only format that there is, as python/kiln/_triton.py writes it.
static constexpr int64_t knownFormat = 1;

/// llvm::json::Path names the root of the document, which the member's name already does.
static Error fail(Error error) {
  std::string message = toString(std::move(error));
  constexpr StringLiteral root = "(root).";
  if (size_t at = message.find(root); at != std::string::npos)
    message.erase(at, root.size());
  return createStringError(Twine(tritonMember) + ": " + message);
}

// Found by argument-dependent lookup.
namespace kiln::frontend {

static bool fromJSON(const Value &value, TritonImage &out, Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("arch", out.arch) && map.map("kind", out.kind) &&
         map.map("file", out.file) && map.map("shared", out.shared);
}

static bool fromJSON(const Value &value, TritonParameter &out, Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("name", out.name) && map.map("type", out.type) &&
         map.map("input", out.input);
}

static bool fromJSON(const Value &value, TritonConfig &out, Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("function", out.function) && map.map("warps", out.warps) &&
         map.map("alignment", out.alignment) && map.map("grid", out.grid) &&
         map.map("parameters", out.parameters) && map.map("images", out.images);
}

static bool fromJSON(const Value &value, TritonKernel &out, Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("inputs", out.inputs) && map.map("configs", out.configs);
}

Expected<TritonKernels> parseTritonKernels(StringRef text) {
  Expected<json::Document> document = json::Document::parse(text);
  if (!document)
    return fail(document.takeError());
  Path::Root root("");
  json::ObjectMapper map(document->root(), root);
  int64_t format = 0;
  TritonKernels kernels;
  if (!map || !map.map("format", format))
    return fail(root.getError());
  if (format != knownFormat)
    return createStringError(Twine(tritonMember) + ": is of format " + Twine(format) +
                             ", expected " + Twine(knownFormat) +
                             ": pack the program with this compiler's python -m kiln.pack");
  if (!map.map("kernels", kernels))
    return fail(root.getError());
  return kernels;
}

} // namespace kiln::frontend
