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
  return torch::ConstantOp::create(
      builder, location, cast<RankedTensorType>(value.getType()),
      builder.getStringAttr(spec.target), value, builder.getStringAttr(kind),
      /*aliases=*/ArrayAttr(), spec.kind == InputKind::Buffer && !spec.persistent, isMutated(spec),
      /*overlaps=*/ArrayAttr());
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

static Expected<StorageView> viewOf(const TensorMeta &meta, RankedTensorType type) {
  StorageView view;
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
  view.elementBytes = bytesOf(type.getElementType());
  if (!view.setBytes())
    return createStringError("needs more than 2^63 bytes");
  return view;
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

  Expected<StorageView> view = viewOf(stored, *type);
  if (!view)
    return failHere(toString(view.takeError()));
  // Tied weights are views of one storage; views that are the same are the same op.
  std::string storage = formatv("{0} {1}", store == &weights, member).str();
  std::string key = formatv("{0} {1} {2:$[ ]} @{3}", storage, *type,
                            make_range(view->strides.begin(), view->strides.end()), view->offset)
                        .str();
  torch::ConstantOp &op = constantOps[key];
  if (!op) {
    Expected<DenseResourceElementsAttr> value =
        isLater ? kernel::makeLaterConstant(*type, spec.target)
                : loadBytes(*store->archive, member, *view, *type, spec.target);
    if (!value)
      return failHere(toString(value.takeError()));
    op = createConstant(spec, *value);
    constantsOf[storage].emplace_back(std::move(*view), op);
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

void Importer::noteOverlaps() {
  for (auto &storage : constantsOf) {
    MutableArrayRef<std::pair<StorageView, torch::ConstantOp>> found = storage.second;
    llvm::sort(found, [](auto &a, auto &b) {
      return std::pair(a.first.begin, a.second.getName()) <
             std::pair(b.first.begin, b.second.getName());
    });
    std::vector<SmallVector<StringRef>> names(found.size());
    for (auto [i, one] : llvm::enumerate(found))
      for (size_t j = i + 1; j < found.size() && found[j].first.begin < one.first.end; ++j)
        if (overlap(one.first, found[j].first)) {
          names[i].push_back(found[j].second.getName());
          names[j].push_back(one.second.getName());
        }
    for (auto [one, others] : llvm::zip(found, names))
      if (!others.empty())
        one.second.setOverlapsAttr(builder.getStrArrayAttr(others));
  }
}

//===-- Bytes -------------------------------------------------------------------------------===//

/// Copies the view's elements in row-major order.
static void gather(const StorageView &view, const char *storage, char *out) {
  SmallVector<int64_t> index(view.sizes.size(), 0);
  int64_t position = view.offset;
  while (true) {
    std::memcpy(out, storage + position * view.elementBytes, view.elementBytes);
    out += view.elementBytes;
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

Expected<DenseResourceElementsAttr> Importer::loadBytes(Pt2Archive &from, StringRef member,
                                                        const StorageView &view,
                                                        RankedTensorType type, StringRef name) {
  uint64_t elementBytes = view.elementBytes;
  uint64_t numBytes = static_cast<uint64_t>(type.getNumElements()) * elementBytes;
  auto makeAttr = [&](AsmResourceBlob blob) {
    return DenseResourceElementsAttr::get(type, name, std::move(blob));
  };
  Expected<Pt2Archive::Bytes> bytes = from.read(member, /*verify=*/false);
  if (!bytes)
    return bytes.takeError();
  if (numBytes == 0)
    return makeAttr(AsmResourceBlob(ArrayRef<char>(), elementBytes, {}, /*dataIsMutable=*/false));

  if (static_cast<uint64_t>(view.end) > bytes->data.size())
    return createStringError(formatv("needs {0} elements of {1} bytes, member '{2}' has {3} bytes",
                                     view.end / view.elementBytes, elementBytes, member,
                                     bytes->data.size())
                                 .str());
  const char *start = bytes->data.data() + view.begin;
  bool isAligned = reinterpret_cast<uintptr_t>(start) % elementBytes == 0;
  std::shared_ptr<const void> owner = bytes->owner;
  if (!view.isContiguous() || !isAligned) {
    // A view may repeat elements, so that a few bytes claim any amount of memory.
    Expected<std::shared_ptr<char[]>> copy = archive.allocate(numBytes);
    if (!copy)
      return copy.takeError();
    gather(view, bytes->data.data(), copy->get());
    start = copy->get();
    owner = *copy;
  }
  ArrayRef<char> data(start, numBytes);
  if (type.getElementType().isInteger(1) && llvm::any_of(data, [](char c) { return c & ~1; }))
    return createStringError("is bool but holds a byte that is neither 0 nor 1");
  return makeAttr(AsmResourceBlob(
      data, elementBytes, [owner](void *, size_t, size_t) {}, /*dataIsMutable=*/false));
}
