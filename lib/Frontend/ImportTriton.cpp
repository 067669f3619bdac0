// Launches of Triton kernels: the code that the archive has for one becomes a kernel.triton, to
// which the call refers. A call without code stays as it is, for lowering to refuse.
#include "Importer.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFTypes.h"
#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;

/// More than any kernel has.
static constexpr size_t maxParameters = 1024, maxName = 200;

/// The text can be the name of a symbol.
static bool isName(StringRef text) {
  return !text.empty() && text.size() <= maxName &&
         llvm::all_of(text, [](char c) { return isAlnum(c) || c == '_'; });
}

/// A file that a driver, which is not told its size, reads no further than it is.
static bool isWholeElf(ArrayRef<char> bytes, uint16_t machine) {
  using Header = object::ELF64LE::Ehdr;
  if (bytes.size() < sizeof(Header))
    return false;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  auto fits = [&](uint64_t offset, uint64_t count, uint64_t size) {
    return offset <= bytes.size() && count * size <= bytes.size() - offset; // 16 bits each
  };
  return header.checkMagic() && header.getFileClass() == ELF::ELFCLASS64 &&
         header.getDataEncoding() == ELF::ELFDATA2LSB && header.e_machine == machine &&
         fits(header.e_shoff, header.e_shnum, header.e_shentsize) &&
         fits(header.e_phoff, header.e_phnum, header.e_phentsize);
}

/// Triton's name of a type, or null. Pointers are tensors of unknown rank.
static Type parseType(StringRef text, Builder &b) {
  if (text.consume_front("*")) {
    text.consume_front("k"); // to constant memory
    Type element = text == "u8"        ? Type(b.getIntegerType(8, /*isSigned=*/false))
                   : text == "fp8e4nv" ? Type(Float8E4M3FNType::get(b.getContext()))
                   : text == "fp8e5"   ? Type(Float8E5M2Type::get(b.getContext()))
                                       : parseType(text, b);
    return element && !isa<UnrankedTensorType>(element) ? Type(UnrankedTensorType::get(element))
                                                        : Type();
  }
  return llvm::StringSwitch<Type>(text)
      .Case("i1", b.getI1Type())
      .Case("i8", b.getI8Type())
      .Case("i16", b.getI16Type())
      .Case("i32", b.getI32Type())
      .Case("i64", b.getI64Type())
      .Case("u1", b.getI1Type())
      .Case("u8", b.getIntegerType(8, false))
      .Case("u16", b.getIntegerType(16, false))
      .Case("u32", b.getIntegerType(32, false))
      .Case("u64", b.getIntegerType(64, false))
      .Case("fp16", b.getF16Type())
      .Case("bf16", b.getBF16Type())
      .Case("fp32", b.getF32Type())
      .Case("fp64", b.getF64Type())
      .Default(Type());
}

Error Importer::readTritonKernels() {
  if (tritonKernels)
    return Error::success();
  tritonKernels.emplace();
  if (!archive.contains(tritonMember))
    return Error::success();
  Expected<Pt2Archive::Bytes> bytes = archive.read(tritonMember, /*verify=*/true);
  if (!bytes)
    return bytes.takeError();
  Expected<TritonKernels> parsed = parseTritonKernels(bytes->text());
  if (!parsed)
    return parsed.takeError();
  tritonKernels = std::move(*parsed);
  return Error::success();
}

Expected<Attribute> Importer::makeTritonImage(const TritonImage &image, StringRef function) {
  std::string member = "extra/" + image.file;
  if (!archive.contains(member))
    return fail("the archive has no '" + member + "'");
  Expected<Pt2Archive::Bytes> bytes = archive.read(member, /*verify=*/true);
  if (!bytes)
    return bytes.takeError();
  ArrayRef<char> data = bytes->data;
  bool isWhole = false;
  if (image.kind == "cubin")
    isWhole = isWholeElf(data, ELF::EM_CUDA);
  else if (image.kind == "emulator")
    isWhole = isWholeElf(data, ELF::EM_X86_64);
  else if (image.kind == "ptx") // text that is told to end at a zero byte
    isWhole = !data.empty() && !llvm::is_contained(data, '\0');
  else
    return fail("'" + member + "': code of the kind '" + image.kind + "'");
  if (!isWhole || !bytes->text().contains(function))
    return fail("'" + member + "' is no " + image.kind + " with the function '" + function + "'");
  std::shared_ptr<const void> owner = bytes->owner;
  auto type = RankedTensorType::get(static_cast<int64_t>(data.size()), builder.getI8Type());
  auto code = DenseResourceElementsAttr::get(type, image.file,
                                             AsmResourceBlob(
                                                 data, /*dataAlignment=*/1,
                                                 [owner](void *, size_t, size_t) {},
                                                 /*dataIsMutable=*/false));
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  if (failed(kernel::TritonImageAttr::verify([&] { return mlir::emitError(location); }, image.arch,
                                             image.kind, image.shared, code)))
    return fail("the Triton kernel '" + function + "' has " + message);
  return kernel::TritonImageAttr::get(&context, image.arch, image.kind, image.shared, code);
}

Expected<Attribute> Importer::makeTritonConfig(const TritonConfig &config) {
  if (!isName(config.function))
    return fail("'" + config.function + "' is no name of a Triton kernel");
  if (config.parameters.size() > maxParameters)
    return fail("a Triton kernel with " + Twine(config.parameters.size()) + " parameters");
  SmallVector<int64_t> parameters;
  SmallVector<Attribute> types, images;
  for (const TritonParameter &parameter : config.parameters) {
    Type type = parseType(parameter.type, builder);
    if (!type)
      return fail("parameter '" + parameter.name + "' of the Triton kernel '" + config.function +
                  "' has the type '" + parameter.type + "', which is not supported");
    if (parameter.input && *parameter.input < 0)
      return fail("parameter '" + parameter.name + "' of the Triton kernel '" + config.function +
                  "' is input " + Twine(*parameter.input));
    types.push_back(TypeAttr::get(type));
    parameters.push_back(parameter.input.value_or(-1));
  }
  for (const TritonImage &image : config.images) {
    Expected<Attribute> made = makeTritonImage(image, config.function);
    if (!made)
      return made.takeError();
    images.push_back(*made);
  }
  // Products of what the archive says do not overflow.
  int64_t threads =
      config.warps < 0 || config.warps > kernel::maxTritonThreads ? -1 : config.warps * 32;
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  auto grid = builder.getDenseI64ArrayAttr(config.grid);
  auto parameterAttr = builder.getDenseI64ArrayAttr(parameters);
  ArrayAttr typeAttr = builder.getArrayAttr(types), imageAttr = builder.getArrayAttr(images);
  if (failed(kernel::TritonConfigAttr::verify([&] { return mlir::emitError(location); },
                                              config.function, threads, config.alignment, grid,
                                              parameterAttr, typeAttr, imageAttr)))
    return fail("the Triton kernel '" + config.function + "' has " + message);
  return kernel::TritonConfigAttr::get(&context, config.function, threads, config.alignment, grid,
                                       parameterAttr, typeAttr, imageAttr);
}

Error Importer::importTriton(const Node &node, torch::HigherOrderOp op) {
  if (Error error = readTritonKernels())
    return error;
  SmallVector<Attribute> strides;
  for (const NamedArgument &input : node.inputs)
    if (auto *tensor = std::get_if<TensorRef>(&input.arg.value)) {
      auto memory = memoryOf(tensor->name);
      if (!memory)
        return memory.takeError();
      strides.push_back(memory->first);
    }
  op->setAttr(torch::stridesAttrName, builder.getArrayAttr(strides));

  // Inputs may be called "name" as well; this one comes behind them.
  const std::string *name = nullptr;
  size_t count = 0;
  for (auto [i, input] : llvm::enumerate(node.inputs))
    if (auto *text = std::get_if<std::string>(&input.arg.value); text && input.name == "name") {
      name = text;
      count = i;
    }
  auto found = name ? tritonKernels->find(*name) : tritonKernels->end();
  if (found == tritonKernels->end())
    return Error::success();
  const TritonKernel &kernel = found->second;
  bool fits = isName(*name) && kernel.inputs.size() == count;
  for (size_t i = 0; i < count && fits; ++i)
    fits = node.inputs[i].name == kernel.inputs[i];
  if (!fits)
    return fail(Twine(tritonMember) + " does not describe this call of the Triton kernel '" +
                *name + "'");
  auto reference = FlatSymbolRefAttr::get(&context, *name);
  op->setAttr(kernel::tritonAttrName, reference);
  if (SymbolTable::lookupSymbolIn(*module, reference))
    return isa<kernel::TritonOp>(SymbolTable::lookupSymbolIn(*module, reference))
               ? Error::success()
               : fail("'" + *name + "' is the name of a graph and of a Triton kernel");
  SmallVector<Attribute> configs;
  for (const TritonConfig &config : kernel.configs) {
    Expected<Attribute> made = makeTritonConfig(config);
    if (!made)
      return made.takeError();
    configs.push_back(*made);
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<StringRef> inputs(kernel.inputs.begin(), kernel.inputs.end());
  kernel::TritonOp::create(builder, location, *name, builder.getStrArrayAttr(inputs),
                           builder.getArrayAttr(configs));
  return Error::success();
}
