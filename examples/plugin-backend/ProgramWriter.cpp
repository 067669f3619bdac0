// The wrapper program as the main function of a C file.
#include "ProgramWriter.h"
#include "KernelWriter.h"
#include "Prelude.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cbackend;
using namespace kiln;
using llvm::formatv;
using sym::Expr;

ModelWriter::ModelWriter(const FinishedProgram &finished, const Options &options)
    : finished(finished), options(options), module(finished.module),
      program(*module.getOps<wrapper::ProgramOp>().begin()) {
  function = options.function.empty() ? finished.name : options.function;
  std::replace_if(function.begin(), function.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
  if (function.empty() || llvm::isDigit(function.front()))
    function.insert(0, "model_");
  for (auto bind : program.getOps<wrapper::BindOp>())
    symbols.push_back(Expr::symbol(bind.getSymbol()));
}

FailureOr<std::vector<ProgramFile>> ModelWriter::write() {
  writeSignatureComment();
  out.text += prelude;
  writeConstants();
  writeKernels();
  writeArenaSize();
  writeMain();
  if (out.hasFailed())
    return failure();
  std::vector<ProgramFile> files = {{"", std::move(out.text)}};
  if (options.weightsFile)
    files.push_back({".weights", std::move(weights)});
  return files;
}

std::string ModelWriter::parameters(bool ofArena) {
  std::vector<std::string> all;
  if (!ofArena) {
    all = {"void *const *inputs", "void *const *outputs", "void *arena"};
    if (options.weightsFile)
      all.push_back("void *weights");
  }
  for (Expr symbol : symbols)
    all.push_back("int64_t " + out.symbol(symbol.symbolName()));
  return all.empty() ? "void" : llvm::join(all, ", ");
}

void ModelWriter::writeSignatureComment() {
  auto list = [&](StringRef what, ArrayRef<Type> types,
                  llvm::function_ref<StringRef(unsigned)> name) {
    for (auto [i, type] : llvm::enumerate(types)) {
      std::string text;
      llvm::raw_string_ostream(text) << type;
      out.line(formatv(" * {0}[{1}]: {2}, {3}", what, i, comment(name(i)), comment(text)));
    }
  };
  out.line("/* " + comment(finished.name) + ", written by Kiln's example of a plug-in.");
  list("inputs", program.getArgumentTypes(), [&](unsigned i) { return program.getInputName(i); });
  list("outputs", program.getResultTypes(), [&](unsigned i) { return program.getOutputName(i); });
  out.line(" * Types are sizes, strides in elements, and what an element is. The arena and the "
           "weights begin "
           "at multiples of 64 bytes. */");
}

void ModelWriter::writeConstants() {
  if (options.weightsFile)
    weights.resize(program.getWeightsBytes().value_or(0));
  llvm::StringSet<> written;
  for (auto constant : program.getOps<wrapper::ConstantOp>()) {
    if (!constant.getOffset()) // for folds alone
      continue;
    std::optional<kernel::ConstantBytes> bytes = kernel::getConstantBytes(constant.getValue());
    if (!bytes)
      return out.refuse(constant, "a constant without data");
    ArrayRef<char> data = bytes->data();
    uint64_t offset = *constant.getOffset();
    Type element = constant.getType().getElementType();
    std::string type = out.memoryType(constant, element);
    if (out.hasFailed())
      return;
    if (options.weightsFile) {
      if (offset + data.size() <= weights.size())
        llvm::copy(data, weights.begin() + offset);
      names[constant] = formatv("(({0} *)((char *)weights + {1}))", type, offset);
      continue;
    }
    std::string name = formatv("constant_{0}_{1}", offset, type);
    names[constant] = name;
    if (!written.insert(name).second)
      continue;
    // One without elements has a place all the same.
    std::string values;
    unsigned size = wrapper::getElementBytes(element);
    for (size_t at = 0; at + size <= data.size(); at += size) {
      values += at % (8 * size) ? " " : "\n  ";
      if (isa<FloatType>(element)) {
        double number = 0;
        float single = 0;
        std::memcpy(size == 4 ? static_cast<void *>(&single) : &number, data.data() + at, size);
        values += literal(size == 4 ? single : number, size == 4);
      } else {
        uint64_t number = 0;
        std::memcpy(&number, data.data() + at, size);
        values += literal(llvm::SignExtend64(number, 8 * size));
      }
      values += ",";
    }
    out.line(formatv("static {0}{1} {2}[] = {{{3}};", constant.getMutated() ? "" : "const ", type,
                     name, values.empty() ? "0" : values));
  }
}

void ModelWriter::writeKernels() {
  llvm::SetVector<Operation *> launched;
  program.walk(
      [&](wrapper::LaunchOp launch) { launched.insert(module.lookupSymbol(launch.getKernel())); });
  for (Operation *kernel : launched)
    KernelWriter(out, cast<kernel::FuncOp>(kernel)).write();
}

void ModelWriter::writeArenaSize() {
  Expr bytes = program.getArenaBytes() ? program.getArenaBytesAttr().getValue() : Expr(0);
  out.line("");
  out.line("int64_t " + function + "_arena_bytes(" + parameters(/*ofArena=*/true) + ") {");
  for (Expr symbol : symbols)
    out.line("(void)" + out.symbol(symbol.symbolName()) + ";");
  // Symbols that a run finds out have no part in this: what they size is in other segments.
  out.line("return " + out.expr(bytes) + ";");
  out.line("}");
}

void ModelWriter::writeMain() {
  out.line("");
  out.line("int " + function + "(" + parameters(/*ofArena=*/false) + ") {");
  out.line("int status = 0;");
  for (StringRef unused : {"inputs", "outputs", "arena"})
    out.line("(void)" + unused + ";");
  if (options.weightsFile)
    out.line("(void)weights;");
  checkSymbols();
  for (BlockArgument input : program.getBody().getArguments())
    define(input, formatv("inputs[{0}]", input.getArgNumber()));
  for (Operation &step : program.getBody().front())
    writeStep(&step);
  out.line("return status;");
  out.line("}");
}

void ModelWriter::checkSymbols() {
  DictionaryAttr table = program.getSymbolsAttr();
  for (Expr symbol : symbols) {
    auto range = table ? table.getAs<DictionaryAttr>(symbol.symbolName()) : DictionaryAttr();
    std::string name = out.symbol(symbol.symbolName());
    for (auto [bound, sign] : {std::pair("min", "<"), std::pair("max", ">")})
      if (auto limit = range ? range.getAs<IntegerAttr>(bound) : IntegerAttr()) {
        out.line(formatv("if ({0} {1} {2})", name, sign, literal(limit.getInt())));
        out.line("  return BAD_SYMBOL;");
      }
  }
}

void ModelWriter::define(Value buffer, const llvm::Twine &address) {
  Operation *op = buffer.getDefiningOp() ? buffer.getDefiningOp() : program;
  std::string type =
      out.memoryType(op, cast<wrapper::BufferType>(buffer.getType()).getElementType());
  std::string name = "b" + std::to_string(names.size());
  names[buffer] = name;
  out.line(type + " *const " + name + " = " + address + ";");
  out.line("(void)" + name + ";");
}

void ModelWriter::writeStep(Operation *op) {
  if (isa<wrapper::FreeOp, wrapper::FoldOp, wrapper::BindOp, wrapper::ConstantOp>(op))
    return;
  if (auto launch = dyn_cast<wrapper::LaunchOp>(op))
    return writeLaunch(launch);
  if (auto copy = dyn_cast<wrapper::CopyOp>(op))
    return writeCopy(copy);
  auto pointerTo = [&](Value buffer) {
    return "(" + out.memoryType(op, cast<wrapper::BufferType>(buffer.getType()).getElementType()) +
           " *)";
  };
  if (auto output = dyn_cast<wrapper::OutputOp>(op))
    return define(output, formatv("outputs[{0}]", output.getIndex()));
  if (auto alloc = dyn_cast<wrapper::AllocOp>(op)) {
    if (alloc.getSegment() || !alloc.getOffset())
      return out.refuse(op, "memory whose size data gives");
    return define(alloc, formatv("{0}((char *)arena + {1})", pointerTo(alloc),
                                 out.expr(alloc.getOffsetAttr().getValue())));
  }
  if (auto reuse = dyn_cast<wrapper::ReuseOp>(op))
    return define(reuse, pointerTo(reuse) + "(void *)" + names.lookup(reuse.getBuffer()));
  if (auto view = dyn_cast<wrapper::ViewOp>(op))
    return define(view,
                  formatv("{0}(void *){1} + {2}", pointerTo(view), names.lookup(view.getBuffer()),
                          out.expr(view.getOffsetAttr().getValue())));
  if (auto remark = dyn_cast<wrapper::CommentOp>(op))
    return out.line("/* " + comment(remark.getText()) + " */");
  if (auto define = dyn_cast<wrapper::DefineOp>(op)) {
    std::string value = define.getValue() ? "*" + names.lookup(define.getValue())
                                          : out.expr(define.getExprAttr().getValue());
    return out.line("const int64_t " + out.symbol(define.getSymbol()) + " = " + value + ";");
  }
  if (isa<wrapper::AssertOp, wrapper::CheckOp>(op)) {
    auto assertion = dyn_cast<wrapper::AssertOp>(op);
    std::string holds =
        assertion ? out.expr(assertion.getExprAttr().getValue()) + " >= 0"
                  : "*" + names.lookup(cast<wrapper::CheckOp>(op).getCondition()) + " != 0";
    out.line("if (!(" + holds + "))");
    StringRef message =
        assertion ? assertion.getMessage() : cast<wrapper::CheckOp>(op).getMessage();
    return out.line("  return ASSERTION_FAILED; /* " + comment(message) + " */");
  }
  out.refuse(op);
}

void ModelWriter::writeLaunch(wrapper::LaunchOp launch) {
  auto kernel = module.lookupSymbol<kernel::FuncOp>(launch.getKernel());
  std::vector<std::string> arguments;
  for (Value buffer : launch->getOperands())
    arguments.push_back(names.lookup(buffer));
  for (Expr symbol : KernelWriter::getSymbols(kernel))
    arguments.push_back(out.symbol(symbol.symbolName()));
  out.line("status = " + functionName(kernel.getName()) + "(" + llvm::join(arguments, ", ") + ");");
  out.line("if (status)");
  out.line("  return status;");
}

void ModelWriter::writeCopy(wrapper::CopyOp copy) {
  SmallVector<std::string> dims;
  for (Expr size : copy.getSource().getType().getSizes()) {
    dims.push_back("i" + std::to_string(dims.size()));
    out.line(formatv("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{", dims.back(), out.expr(size)));
  }
  auto element = [&](TypedValue<wrapper::BufferType> buffer) -> std::string {
    Expr offset;
    for (auto [i, stride] : llvm::enumerate(buffer.getType().getStrides()))
      offset = offset + Expr::dim(i) * stride;
    return formatv("{0}[{1}]", names.lookup(buffer), out.expr(offset, dims));
  };
  out.line(element(copy.getTarget()) + " = " + element(copy.getSource()) + ";");
  for (size_t i = 0; i < dims.size(); ++i)
    out.line("}");
}
