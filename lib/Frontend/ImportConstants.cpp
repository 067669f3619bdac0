// Parameters, buffers and constant tensors: from a range of the archive to torch.constant.
#include "Importer.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;

/// Bytes of an element; a bool takes one.
static uint64_t bytesOf(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * bytesOf(complex.getElementType());
  return std::max<uint64_t>(type.getIntOrFloatBitWidth() / 8, 1);
}

Error Importer::readTensorStore(StringRef kind, TensorStore &store) {
  std::string folder = ("data/" + kind + "/").str();
  std::string member = folder + model + "_" + kind.str() + "_config.json";
  std::string saved = folder + model + ".pt";
  auto parse = [&](StringRef name, StringRef member, auto parser) -> Error {
    Expected<Pt2Archive::Bytes> bytes = store.archive->read(name, /*verify=*/true);
    if (!bytes)
      return bytes.takeError();
    Expected<PayloadConfig> config = parser(bytes->text(), member);
    if (!config)
      return config.takeError();
    store.config = std::move(*config);
    return Error::success();
  };
  if (archive.contains(member) || !archive.contains(saved)) {
    store.archive = &archive;
    store.folder = folder;
    return parse(member, member, parsePayloadConfig);
  }
  Expected<std::unique_ptr<Pt2Archive>> inner = archive.openSaved(saved);
  if (!inner)
    return inner.takeError();
  store.saved = std::move(*inner);
  store.archive = store.saved.get();
  if (Error error = store.archive->checkWord("byteorder", "little"))
    return error;
  return parse("data.pkl", saved, parseSavedTensors);
}

Error Importer::readTensorStores() {
  if (hasTensorStores)
    return Error::success();
  hasTensorStores = true;
  if (Error error = readTensorStore("weights", weights))
    return error;
  return readTensorStore("constants", constants);
}

bool Importer::isMutated(const InputSpec &spec) {
  return llvm::any_of(program.outputSpecs, [&](const OutputSpec &output) {
    return (output.kind == OutputKind::BufferMutation ||
            output.kind == OutputKind::ParameterMutation) &&
           output.target == spec.target;
  });
}

torch::ConstantOp Importer::createConstant(const InputSpec &spec, DenseResourceElementsAttr value) {
  StringRef kind = spec.kind == InputKind::Parameter ? "parameter"
                   : spec.kind == InputKind::Buffer  ? "buffer"
                                                     : "constant";
  auto op = torch::ConstantOp::create(builder, location, cast<RankedTensorType>(value.getType()),
                                      builder.getStringAttr(spec.target), value,
                                      builder.getStringAttr(kind),
                                      /*aliases=*/ArrayAttr());
  op.setTransient(spec.kind == InputKind::Buffer && !spec.persistent);
  op.setMutated(isMutated(spec));
  return op;
}

/// A parameter that the archive has no value of.
Error Importer::importLaterConstant(const InputSpec &spec) {
  Expected<const TensorMeta *> meta = metaOf(spec.name);
  if (!meta)
    return meta.takeError();
  Expected<RankedTensorType> type = tensorType(**meta);
  if (!type)
    return createStringError("'" + spec.target + "': " + toString(type.takeError()));
  if (!type->hasStaticShape())
    return createStringError("'" + spec.target + "': has a size that is not a number");
  auto value = kernel::makeLaterConstant(*type, spec.target);
  return define(spec.name, {createConstant(spec, value).getResult(), {}, false});
}

Error Importer::importConstant(const InputSpec &spec) {
  auto failHere = [&](const Twine &message) {
    return createStringError("'" + Twine(spec.target) + "': " + message);
  };
  if (Error error = readTensorStores())
    return error;
  bool isLater = options.laterWeights && spec.kind != InputKind::TensorConstant;
  // A parameter or a persistent buffer is part of the state, everything else a constant.
  const TensorStore *store = &weights;
  auto found = weights.config.find(spec.target);
  if (found == weights.config.end()) {
    store = &constants;
    found = constants.config.find(spec.target);
    if (found == constants.config.end())
      return isLater ? importLaterConstant(spec) : failHere("no such weight in the archive");
  }
  const Payload &payload = found->second;
  if (payload.usePickle || !payload.meta)
    return failHere("a tensor subclass, which the archive holds pickled: save "
                    "program.run_decompositions({}), in which wrapped tensors are plain, or export "
                    "the module with tensor.as_subclass(torch.Tensor)");

  const TensorMeta &stored = *payload.meta;
  std::string member = store->folder + payload.pathName;

  Expected<const TensorMeta *> meta = metaOf(spec.name);
  if (!meta)
    return meta.takeError();
  Expected<RankedTensorType> type = tensorType(**meta);
  if (!type)
    return failHere(toString(type.takeError()));
  Expected<RankedTensorType> storedType = tensorType(stored);
  if (!storedType)
    return failHere(toString(storedType.takeError()));
  if (*storedType != *type || !type->hasStaticShape())
    return failHere(
        formatv("the graph expects {0}, the archive has {1}", *type, *storedType).str());

  // Tied weights are views of one storage; views that are the same are the same op.
  std::string key = formatv("{0} {1} {2}", store == &weights, member, *type).str();
  for (const SymInt &number : stored.strides)
    if (auto *stride = std::get_if<int64_t>(&number))
      key += " " + std::to_string(*stride);
  if (auto *offset = std::get_if<int64_t>(&stored.storageOffset))
    key += " @" + std::to_string(*offset);
  torch::ConstantOp &op = constantOps[key];
  if (!op) {
    Expected<DenseResourceElementsAttr> value =
        isLater ? kernel::makeLaterConstant(*type, spec.target)
                : loadBytes(*store->archive, member, stored, *type, spec.target);
    if (!value)
      return failHere(toString(value.takeError()));
    op = createConstant(spec, *value);
  } else {
    SmallVector<Attribute> aliases;
    if (ArrayAttr earlier = op.getAliasesAttr())
      aliases.assign(earlier.begin(), earlier.end());
    aliases.push_back(builder.getStringAttr(spec.target));
    op.setAliasesAttr(builder.getArrayAttr(aliases));
    if (isMutated(spec))
      op.setMutated(true);
  }
  return define(spec.name, {op.getResult(), {}, false});
}

//===-- Bytes -------------------------------------------------------------------------------===//

namespace {

/// A view of a storage, in elements.
struct View {
  SmallVector<int64_t> sizes, strides;
  int64_t offset = 0;
};

/// One past the last element that the view touches; nullopt on overflow. The view is not empty.
std::optional<int64_t> extentOf(const View &view) {
  int64_t last = view.offset;
  for (auto [size, stride] : llvm::zip(view.sizes, view.strides)) {
    int64_t step;
    if (__builtin_mul_overflow(size - 1, stride, &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  if (__builtin_add_overflow(last, 1, &last))
    return std::nullopt;
  return last;
}

bool isContiguous(const View &view) {
  int64_t expected = 1;
  for (auto [size, stride] : llvm::reverse(llvm::zip(view.sizes, view.strides))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

/// Copies the view's elements in row-major order.
void gather(const View &view, const char *storage, uint64_t elementBytes, char *out) {
  SmallVector<int64_t> index(view.sizes.size(), 0);
  int64_t position = view.offset;
  while (true) {
    std::memcpy(out, storage + position * elementBytes, elementBytes);
    out += elementBytes;
    size_t dim = index.size();
    while (dim-- > 0) {
      position += view.strides[dim];
      if (++index[dim] < view.sizes[dim])
        break;
      position -= view.strides[dim] * view.sizes[dim];
      index[dim] = 0;
    }
    if (dim == SIZE_MAX)
      return;
  }
}

} // namespace

Expected<DenseResourceElementsAttr> Importer::loadBytes(Pt2Archive &from, StringRef member,
                                                        const TensorMeta &meta,
                                                        RankedTensorType type, StringRef name) {
  View view;
  view.sizes.assign(type.getShape().begin(), type.getShape().end());
  for (const SymInt &number : meta.strides) {
    auto *stride = std::get_if<int64_t>(&number);
    if (!stride || *stride < 0)
      return createStringError("has a stride that is not a number");
    view.strides.push_back(*stride);
  }
  auto *offset = std::get_if<int64_t>(&meta.storageOffset);
  if (!offset || *offset < 0)
    return createStringError("has a storage offset that is not a number");
  view.offset = *offset;

  uint64_t elementBytes = bytesOf(type.getElementType());
  uint64_t numBytes = static_cast<uint64_t>(type.getNumElements()) * elementBytes;
  auto makeAttr = [&](AsmResourceBlob blob) {
    return DenseResourceElementsAttr::get(type, name, std::move(blob));
  };
  Expected<Pt2Archive::Bytes> bytes = from.read(member, /*verify=*/false);
  if (!bytes)
    return bytes.takeError();
  if (numBytes == 0)
    return makeAttr(AsmResourceBlob(ArrayRef<char>(), elementBytes, {}, /*dataIsMutable=*/false));

  uint64_t available = bytes->data.size() / elementBytes;
  std::optional<int64_t> extent = extentOf(view);
  if (!extent || static_cast<uint64_t>(*extent) > available)
    return createStringError(formatv("needs {0} elements of {1} bytes, member '{2}' has {3} bytes",
                                     extent ? std::to_string(*extent) : "more than 2^63",
                                     elementBytes, member, bytes->data.size())
                                 .str());
  const char *start = bytes->data.data() + view.offset * elementBytes;
  bool isAligned = reinterpret_cast<uintptr_t>(start) % elementBytes == 0;
  std::shared_ptr<const void> owner = bytes->owner;
  if (!isContiguous(view) || !isAligned) {
    // A view may repeat elements, so that a few bytes claim any amount of memory.
    Expected<std::shared_ptr<char[]>> copy = archive.allocate(numBytes);
    if (!copy)
      return copy.takeError();
    gather(view, bytes->data.data(), elementBytes, copy->get());
    start = copy->get();
    owner = *copy;
  }
  ArrayRef<char> data(start, numBytes);
  if (type.getElementType().isInteger(1) && llvm::any_of(data, [](char c) { return c & ~1; }))
    return createStringError("is bool but holds a byte that is neither 0 nor 1");
  return makeAttr(AsmResourceBlob(
      data, elementBytes, [owner](void *, size_t, size_t) {}, /*dataIsMutable=*/false));
}
