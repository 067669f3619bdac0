// Steps of the host program that run nested graphs.
//
// A graph is a function of its own, which gets its arena and the addresses of its buffers. Carried
// values of a loop are in one of two buffers each; a round reads the current one and writes the
// other, so that nothing is copied between rounds.
#include "HostProgram.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

SmallVector<Value> HostProgram::lookUp(ValueRange buffers) {
  return llvm::map_to_vector(buffers, [&](Value buffer) { return getAddress(buffer); });
}

/// Calls a graph with the run, its arena, `buffers`, and for each of its results where it is
/// written or where its address is put.
void HostProgram::emitGraph(FlatSymbolRefAttr graph, std::initializer_list<ArrayRef<Value>> buffers,
                            ArrayRef<Value> written, Value workspace) {
  LLVM::LLVMFuncOp callee = graphs.lookup(graph.getValue());
  auto source = SymbolTable::lookupNearestSymbolFrom<FuncOp>(program, graph);
  SmallVector<Value> operands = {run, workspace ? getAddress(workspace)
                                                : LLVM::ZeroOp::create(builder, loc, ptr)};
  for (ArrayRef<Value> group : buffers)
    llvm::append_range(operands, group);
  int32_t numGiven = 0;
  for (unsigned i = 0; i < source.getNumResults(); ++i) {
    if (source.isGiven(i)) {
      operands.push_back(
          LLVM::GEPOp::create(builder, loc, ptr, ptr, given, ArrayRef<LLVM::GEPArg>{numGiven++}));
    } else {
      operands.push_back(written.front());
      written = written.drop_front();
    }
  }
  emitCheck(LLVM::CallOp::create(builder, loc, callee, operands).getResult());
}

/// After a graph has run.
void HostProgram::loadGiven(ValueRange results) {
  for (auto [i, result] : llvm::enumerate(results))
    addresses[result] = load(ptr, given, i);
}

void HostProgram::emitIf(IfOp op) {
  Value holds;
  if (Value predicate = op.getPredicate()) {
    Type byte = builder.getI8Type();
    Value flag = loadData(byte, getAddress(predicate));
    Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(0));
    holds = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, flag, zero);
  } else {
    holds = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::sge,
                                 number(op.getWhen()->getValue()), number(sym::Expr(0)));
  }
  SmallVector<Value> ins = lookUp(op.getIns()), outs = lookUp(op.getOuts());
  Block *branches[] = {function.addBlock(), function.addBlock()}, *next = function.addBlock();
  LLVM::CondBrOp::create(builder, loc, holds, branches[0], branches[1]);
  for (auto [branch, graph] : llvm::zip_equal(branches, op.getGraphs())) {
    builder.setInsertionPointToEnd(branch);
    emitGraph(graph, {ins}, outs, op.getWorkspace());
    LLVM::BrOp::create(builder, loc, ValueRange(), next);
  }
  builder.setInsertionPointToEnd(next);
  loadGiven(op.getGiven());
}

/// Puts carried values that are elsewhere where they belong.
void HostProgram::copyCarried(ValueRange outs, ArrayRef<Value> current) {
  for (auto [out, from] : llvm::zip_equal(outs, current)) {
    Value to = getAddress(out);
    Value isThere = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, from, to);
    Value bytes = LLVM::SelectOp::create(builder, loc, isThere, number(sym::Expr(0)),
                                         number(cast<BufferType>(out.getType()).getBytes()));
    copyBytes(to, from, bytes);
  }
}

namespace {
/// A loop's header: the arguments are where carried values are, where the next round puts them, and
/// where the one after that does.
struct Carried {
  Carried(Block *header, size_t count, Type ptr, Location loc) : count(count) {
    for (size_t i = 0; i < 3 * count; ++i)
      values.push_back(header->addArgument(ptr, loc));
  }
  ArrayRef<Value> current() const { return ArrayRef(values).take_front(count); }
  ArrayRef<Value> next() const { return ArrayRef(values).slice(count, count); }

  static SmallVector<Value> join(ArrayRef<Value> a, ArrayRef<Value> b, ArrayRef<Value> c) {
    SmallVector<Value> all(a);
    llvm::append_range(all, b);
    llvm::append_range(all, c);
    return all;
  }
  SmallVector<Value> turn() const {
    return join(next(), ArrayRef(values).drop_front(2 * count), next());
  }

  size_t count;
  SmallVector<Value> values;
};
} // namespace

void HostProgram::emitWhile(WhileOp loop) {
  SmallVector<Value> ins = lookUp(loop.getIns()), outs = lookUp(loop.getOuts());
  Value flag = getAddress(loop.getFlag());
  Block *header = function.addBlock(), *body = function.addBlock(), *exit = function.addBlock();
  Carried carried(header, outs.size(), ptr, loc);
  LLVM::BrOp::create(builder, loc,
                     Carried::join(lookUp(loop.getCarried()), outs, lookUp(loop.getSpare())),
                     header);
  builder.setInsertionPointToEnd(header);
  emitGraph(loop.getConditionAttr(), {carried.current(), ins}, flag, loop.getWorkspace());
  Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(0));
  Value holds = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne,
                                     loadData(builder.getI8Type(), flag), zero);
  LLVM::CondBrOp::create(builder, loc, holds, body, exit);
  builder.setInsertionPointToEnd(body);
  emitGraph(loop.getBodyAttr(), {carried.current(), ins}, carried.next(), loop.getWorkspace());
  LLVM::BrOp::create(builder, loc, carried.turn(), header);
  builder.setInsertionPointToEnd(exit);
  copyCarried(loop.getOuts(), carried.current());
}

void HostProgram::emitFor(ForOp loop) {
  size_t count = loop.getCarried().size();
  SmallVector<Value> ins = lookUp(loop.getIns()), spare = lookUp(loop.getSpare());
  SmallVector<Value> outs = lookUp(loop.getOuts().take_front(count));
  Value length = number(loop.getLength().getValue()), one = number(sym::Expr(1));
  // The last round is to write to the results.
  Value zero = number(sym::Expr(0));
  Value isOdd = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne,
                                     LLVM::AndOp::create(builder, loc, length, one), zero);
  SmallVector<Value> first, second;
  for (auto [out, other] : llvm::zip_equal(outs, spare)) {
    first.push_back(LLVM::SelectOp::create(builder, loc, isOdd, out, other));
    second.push_back(LLVM::SelectOp::create(builder, loc, isOdd, other, out));
  }
  Block *header = function.addBlock(), *body = function.addBlock(), *exit = function.addBlock();
  Value round = header->addArgument(i64, loc);
  Carried carried(header, count, ptr, loc);
  SmallVector<Value> start = Carried::join(lookUp(loop.getCarried()), first, second);
  start.insert(start.begin(), zero);
  LLVM::BrOp::create(builder, loc, start, header);
  builder.setInsertionPointToEnd(header);
  Value more = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::slt, round, length);
  LLVM::CondBrOp::create(builder, loc, more, body, exit);

  builder.setInsertionPointToEnd(body);
  auto sliceOf = [&](Value buffer) {
    sym::Expr bytes = getSliceType(cast<BufferType>(buffer.getType())).getBytes();
    return offsetBytes(getAddress(buffer), LLVM::MulOp::create(builder, loc, round, number(bytes)));
  };
  SmallVector<Value> sliced = llvm::map_to_vector(loop.getSlices(), sliceOf);
  SmallVector<Value> stacked = llvm::map_to_vector(loop.getOuts().drop_front(count), sliceOf);
  SmallVector<Value> written(carried.next());
  llvm::append_range(written, stacked);
  emitGraph(loop.getBodyAttr(), {carried.current(), sliced, ins}, written, loop.getWorkspace());
  SmallVector<Value> turned = carried.turn();
  turned.insert(turned.begin(), LLVM::AddOp::create(builder, loc, round, one));
  LLVM::BrOp::create(builder, loc, turned, header);
  builder.setInsertionPointToEnd(exit);
  copyCarried(loop.getOuts().take_front(count), carried.current());
}
