// A kernel as a C function with plain loops.
#include "KernelWriter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cbackend;
using namespace kiln;
using llvm::formatv;
using sym::Expr;

SmallVector<Expr> KernelWriter::getSymbols(kernel::FuncOp kernel) {
  sym::SymbolCollector collector;
  collector.add(kernel);
  return collector.symbols.takeVector();
}

std::string cbackend::functionName(StringRef kernel) {
  std::string name = "kernel_" + kernel.str();
  std::replace_if(name.begin(), name.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
  return name;
}

void KernelWriter::write() {
  Operation *root = kernel.getRoot();
  std::vector<std::string> parameters;
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    names[argument] = "in" + std::to_string(argument.getArgNumber());
    Type element = cast<RankedTensorType>(argument.getType()).getElementType();
    parameters.push_back("const " + out.memoryType(root, element) + " *" + names[argument]);
  }
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes()))
    parameters.push_back(formatv(
        "{0} *out{1}", out.memoryType(root, cast<RankedTensorType>(type).getElementType()), i));
  for (Expr symbol : getSymbols(kernel))
    parameters.push_back("int64_t " + out.symbol(symbol.symbolName()));
  out.line("");
  out.line("/* " + comment(sym::describe(root->getLoc())) + " */");
  out.line("static int " + functionName(kernel.getName()) + "(" + llvm::join(parameters, ", ") +
           ") {");
  if (auto map = dyn_cast<kernel::MapOp>(root))
    writeMap(map);
  else if (auto contract = dyn_cast<kernel::ContractOp>(root))
    writeContract(contract);
  else
    out.refuse(root);
  out.line("return 0;");
  out.line("}");
}

void KernelWriter::writeMap(kernel::MapOp map) {
  writeLoops(map.getBody(), map.getExtents(), {}, [&](ArrayRef<std::string> dims) {
    // Results may lie where operands do: nothing is written before all is read.
    for (auto [i, value] : llvm::enumerate(getYielded(map.getBody())))
      store(i, dims, value);
  });
}

void KernelWriter::writeContract(kernel::ContractOp contract) {
  if (contract.getPanel() || contract.getPart())
    return out.refuse(contract, "kernel.contract in panels or parts");
  Dims dims;
  SmallVector<Expr> extents = contract.getExtents();
  size_t numK = contract.getNumK(), numOuter = extents.size() - numK;
  for (Expr extent : ArrayRef(extents).take_front(numOuter))
    dims.push_back(openLoop(extent));
  Value sum = contract.getEpilogue().getArgument(0);
  std::string type = out.scalarType(contract, sum.getType()), name = newName("sum");
  out.line(type + " " + name + " = 0;");
  Dims inner = dims;
  for (Expr extent : ArrayRef(extents).drop_front(numOuter))
    inner.push_back(openLoop(extent));
  dims.resize(extents.size()); // the epilogue uses none of the sum's
  std::string left = writeRegion(contract.getLhs(), inner).front();
  std::string right = writeRegion(contract.getRhs(), inner).front();
  if (isa<FloatType>(sum.getType()))
    out.line(formatv("{0} += ({1}){2} * ({1}){3};", name, type, left, right));
  else // wraps around
    out.line(formatv("{0} = ({1})((uint64_t){0} + (uint64_t){2} * (uint64_t){3});", name, type,
                     left, right));
  for (size_t i = 0; i < numK; ++i)
    out.line("}");
  names[sum] = name;
  std::string value = writeRegion(contract.getEpilogue(), dims).front();
  Dims index;
  for (int64_t dim : contract.getResultDims())
    index.push_back(dims[dim]);
  store(0, index, value);
  for (size_t i = 0; i < numOuter; ++i)
    out.line("}");
}

void KernelWriter::store(unsigned result, ArrayRef<std::string> index, StringRef value) {
  SmallVector<Expr> shape = sym::getShape(cast<RankedTensorType>(kernel.getResultTypes()[result]));
  SmallVector<Expr> position;
  for (size_t i = 0; i < index.size(); ++i)
    position.push_back(Expr::dim(i));
  out.line(formatv("out{0}[{1}] = {2};", result, out.expr(sym::linearize(position, shape), index),
                   value));
}

std::string KernelWriter::openLoop(Expr extent) {
  std::string dim = newName("d");
  out.line(formatv("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{", dim, out.expr(extent)));
  return dim;
}

void KernelWriter::writeLoops(Region &region, ArrayRef<Expr> extents, Dims dims,
                              function_ref<void(ArrayRef<std::string>)> finish) {
  // Ops in front of a loop may read what is there only if the loop has rounds.
  std::string guard;
  for (Expr extent : extents)
    if (std::optional<int64_t> constant = extent.constant(); !constant || *constant <= 0)
      guard += (guard.empty() ? "" : " && ") + out.expr(extent) + " > 0";
  out.line(guard.empty() ? "{" : "if (" + guard + ") {");

  unsigned outer = dims.size();
  dims.resize(outer + extents.size()); // those of loops that are not open have no name yet
  DenseMap<Operation *, unsigned> levels;
  for (Operation &op : region.front().without_terminator()) {
    unsigned level = 0;
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *source = operand.getDefiningOp())
          level = std::max(level, levels.lookup(source));
      if (sym::MapAttr map = kernel::getIndexMap(inner))
        for (Expr result : map.getResults())
          result.walkLeaves([&](Expr leaf) {
            if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() >= outer &&
                leaf.dimIndex() < outer + extents.size())
              level = std::max<unsigned>(level, leaf.dimIndex() - outer + 1);
          });
    });
    // A nested op's own dims come behind those here; `values` do, too, and are operands.
    levels[&op] = level;
  }
  for (unsigned level = 0; level <= extents.size(); ++level) {
    if (level)
      dims[outer + level - 1] = openLoop(extents[level - 1]);
    for (Operation &op : region.front().without_terminator())
      if (levels[&op] == level)
        writeOp(&op, dims);
  }
  finish(dims);
  for (size_t i = 0; i < extents.size(); ++i)
    out.line("}");
  out.line("}");
}

SmallVector<std::string> KernelWriter::writeRegion(Region &region, ArrayRef<std::string> dims) {
  for (Operation &op : region.front().without_terminator())
    writeOp(&op, dims);
  return getYielded(region);
}

SmallVector<std::string> KernelWriter::getYielded(Region &region) {
  return llvm::map_to_vector(region.front().getTerminator()->getOperands(),
                             [&](Value value) { return names.lookup(value); });
}

void KernelWriter::define(Value value, const llvm::Twine &expression) {
  std::string name = newName("v");
  out.line("const " + out.scalarType(value.getDefiningOp(), value.getType()) + " " + name + " = " +
           expression + ";");
  names[value] = name;
}

SmallVector<std::string> KernelWriter::declare(ValueRange values, ValueRange initial) {
  SmallVector<std::string> variables;
  for (auto [value, start] : llvm::zip_equal(values, initial)) {
    variables.push_back(newName("v"));
    out.line(out.scalarType(value.getDefiningOp(), value.getType()) + " " + variables.back() +
             " = " + names.lookup(start) + ";");
  }
  return variables;
}

void KernelWriter::assign(ArrayRef<std::string> variables, ArrayRef<std::string> values,
                          ValueRange results) {
  // A value that is given may be another of the variables, which then must not have changed.
  if (variables.size() == 1)
    return out.line(variables[0] + " = " + values[0] + ";");
  SmallVector<std::string> saved;
  for (auto [value, result] : llvm::zip_equal(values, results)) {
    saved.push_back(newName("next"));
    out.line("const " + out.scalarType(result.getDefiningOp(), result.getType()) + " " +
             saved.back() + " = " + value + ";");
  }
  for (auto [variable, value] : llvm::zip_equal(variables, saved))
    out.line(variable + " = " + value + ";");
}

void KernelWriter::writeOp(Operation *op, ArrayRef<std::string> dims) {
  if (auto read = dyn_cast<kernel::ReadOp>(op))
    return writeRead(read, dims);
  if (auto inside = dyn_cast<kernel::InsideOp>(op))
    return writeInside(inside, dims);
  if (auto reduce = dyn_cast<kernel::ReduceOp>(op))
    return writeReduce(reduce, dims);
  if (auto iterate = dyn_cast<kernel::IterateOp>(op))
    return writeIterate(iterate);
  if (auto index = dyn_cast<kernel::IndexOp>(op)) {
    Dims inputs(dims);
    for (Value value : index.getValues())
      inputs.push_back(names.lookup(value));
    return define(index, out.expr(index.getMap().getResults().front(), inputs));
  }
  if (auto expect = dyn_cast<kernel::ExpectOp>(op)) {
    out.line(formatv("if (!{0})", names.lookup(expect.getCondition())));
    out.line(formatv("  return FAILED; /* {0} */", comment(expect.getMessage())));
    names[expect] = names.lookup(expect.getValue());
    return;
  }
  SmallVector<std::string> operands;
  for (Value operand : op->getOperands())
    operands.push_back(names.lookup(operand));
  std::string expression = op->getNumResults() == 1 ? writeScalarOp(op, operands) : "";
  if (expression.empty())
    return out.refuse(op);
  define(op->getResult(0), expression);
}

void KernelWriter::writeRead(kernel::ReadOp read, ArrayRef<std::string> dims) {
  SmallVector<Expr> shape = sym::getShape(read.getTensor());
  Dims inputs(dims);
  for (Value value : read.getValues())
    inputs.push_back(names.lookup(value));
  std::string type = out.scalarType(read, read.getType()), name = newName("v");
  names[read] = name;
  out.line(type + " " + name + (read.getMask() ? " = " + names.lookup(read.getOther()) : "") + ";");
  if (read.getMask())
    out.line("if (" + names.lookup(read.getMask()) + ") {");
  // An index that data gives may be anything.
  for (auto [index, size] : llvm::zip_equal(read.getMap().getResults(), shape))
    if (index.numDimsUsed() > dims.size()) {
      out.line(
          formatv("if ((uint64_t){0} >= (uint64_t){1})", out.expr(index, inputs), out.expr(size)));
      out.line("  return OUT_OF_RANGE;");
    }
  Expr offset = sym::linearize(read.getMap().getResults(), shape);
  out.line(
      formatv("{0} = {1}[{2}];", name, names.lookup(read.getTensor()), out.expr(offset, inputs)));
  if (read.getMask())
    out.line("}");
}

void KernelWriter::writeInside(kernel::InsideOp inside, ArrayRef<std::string> dims) {
  Dims inputs(dims);
  for (Value value : inside.getValues())
    inputs.push_back(names.lookup(value));
  std::string all;
  for (auto [index, bound] :
       llvm::zip_equal(inside.getMap().getResults(), inside.getBounds().getSizes()))
    all += formatv("{0}within({1}, {2})", all.empty() ? "" : " && ", out.expr(index, inputs),
                   out.expr(bound));
  define(inside, all.empty() ? "true" : all);
}

void KernelWriter::writeReduce(kernel::ReduceOp reduce, ArrayRef<std::string> dims) {
  SmallVector<std::string> sums = declare(reduce.getResults(), reduce.getInit());
  writeLoops(reduce.getBody(), reduce.getExtents().getSizes(), Dims(dims),
             [&](ArrayRef<std::string> inner) {
               Block &combine = reduce.getCombine().front();
               SmallVector<std::string> values = sums;
               llvm::append_range(values, getYielded(reduce.getBody()));
               for (auto [argument, value] : llvm::zip_equal(combine.getArguments(), values))
                 names[argument] = value;
               assign(sums, writeRegion(reduce.getCombine(), inner), reduce.getResults());
             });
  for (auto [result, sum] : llvm::zip_equal(reduce.getResults(), sums))
    names[result] = sum;
}

void KernelWriter::writeIterate(kernel::IterateOp iterate) {
  SmallVector<std::string> state = declare(iterate.getResults(), iterate.getInit());
  for (auto [argument, value] : llvm::zip_equal(iterate.getBody().getArguments(), state))
    names[argument] = value;
  openLoop(Expr(iterate.getLimit()));
  SmallVector<std::string> yielded = writeRegion(iterate.getBody(), {});
  assign(state, ArrayRef(yielded).drop_front(), iterate.getResults());
  out.line("if (!" + yielded.front() + ")");
  out.line("  break;");
  out.line("}");
  for (auto [result, value] : llvm::zip_equal(iterate.getResults(), state))
    names[result] = value;
}
