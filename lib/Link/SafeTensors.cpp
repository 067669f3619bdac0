// The header of a file of external weights, in the format of safetensors.
#include "Weights.h"

#include "../../runtime/weights_file.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include <tuple>

using namespace llvm;
using namespace kiln;

namespace {

class HeaderWriter {
public:
  HeaderWriter(const WeightsBlob &weights, uint64_t hash) : weights(weights), hash(hash) {
    // An empty tensor before one that begins at the same place.
    tensors.append(weights.tensors.begin(), weights.tensors.end());
    sort(tensors, [](const WeightsTensor &a, const WeightsTensor &b) {
      return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
    });
  }

  Expected<std::string> write() {
    uint64_t end = 0;
    for (const WeightsTensor &tensor : tensors) {
      if (tensor.offset < end || tensor.offset > weights.bytes ||
          tensor.bytes > weights.bytes - tensor.offset)
        return createStringError("tensor '" + tensor.name + "' overlaps another or the blob's end");
      if (!names.insert(tensor.name).second || tensor.name == metadataKey)
        return createStringError("tensor '" + tensor.name + "' has the name of another");
      end = tensor.offset + tensor.bytes;
    }
    json.object([&] {
      json.attributeObject(metadataKey, [&] { writeMetadata(); });
      uint64_t end = 0;
      for (const WeightsTensor &tensor : tensors) {
        writePadding(end, tensor.offset);
        writeTensor(tensor);
        end = tensor.offset + tensor.bytes;
      }
      writePadding(end, weights.bytes);
    });
    json.flush();
    return std::move(text);
  }

private:
  static constexpr StringLiteral metadataKey = "__metadata__";

  void writeMetadata() {
    // First: the runtime looks for it there.
    json.attribute("kiln.hash", formatv("{0:x-16}", hash).str());
    for (const auto &[key, value] : weights.notes)
      if (key != "kiln.hash")
        json.attribute(json::fixUTF8(key), json::fixUTF8(value));
  }

  void writePadding(uint64_t begin, uint64_t end) {
    if (begin == end)
      return;
    std::string name;
    do
      name = "kiln.padding." + std::to_string(numPaddings++);
    while (names.contains(name));
    writeTensor({name, "", {}, begin, end - begin});
  }

  void writeTensor(const WeightsTensor &tensor) {
    auto bytes = static_cast<int64_t>(tensor.bytes);
    bool isKnown = !tensor.dtype.empty();
    json.attributeObject(json::fixUTF8(tensor.name), [&] {
      json.attribute("dtype", isKnown ? tensor.dtype : "U8");
      json.attribute("shape", json::Array(isKnown ? ArrayRef<int64_t>(tensor.shape) : bytes));
      json.attribute("data_offsets", json::Array({tensor.offset, tensor.offset + tensor.bytes}));
    });
  }

  const WeightsBlob &weights;
  uint64_t hash;
  SmallVector<WeightsTensor> tensors;
  StringSet<> names;
  unsigned numPaddings = 0;
  std::string text;
  raw_string_ostream stream{text};
  json::OStream json{stream};
};

} // namespace

Expected<std::string> kiln::makeWeightsFront(const WeightsBlob &weights, uint64_t hash) {
  Expected<std::string> header = HeaderWriter(weights, hash).write();
  if (!header)
    return header;
  std::string front(sizeof(uint64_t), 0);
  front += *header;
  front.resize(alignTo(front.size(), KILN_RT_WEIGHTS_ALIGN), ' ');
  support::endian::write64le(front.data(), front.size() - sizeof(uint64_t));
  return front;
}
