// Plans and writes a kernel that holds others, its parts: what each block computes for itself comes
// first, into shared memory. After that a block is one of some part's.
#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Map/MapDims.h"
#include "CUDA/Map/TransposePlan.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// The most that a part computes or reduces: beyond that it fills a GPU by itself.
static constexpr int64_t fewElements = 1 << 18;

static bool areFew(sym::Expr elements) { return codegen::estimate(elements) <= fewElements; }

bool cuda::mayBePart(kernel::FuncOp func) {
  sym::SymbolCollector used;
  used.add(func);
  if (kernel::isGroup(func) || func.getScheduleAttr() || !used.symbols.empty())
    return false;
  Operation *root = func.getRoot();
  if (auto contract = dyn_cast<kernel::ContractOp>(root))
    return !contract.getBytes() && isDot(ContractDims(contract));
  if (auto map = dyn_cast<kernel::MapOp>(root)) {
    // Tiles that shared memory transposes have blocks of their own.
    MapDims dims(map);
    return areFew(sym::product(map.getExtents())) && dims.reduced <= fewElements &&
           !TransposePlan::choose(map, dims);
  }
  auto scatter = dyn_cast<kernel::ScatterOp>(root);
  return scatter && !isPlaceScatter(func) &&
         areFew(sym::product(scatter.getBatch().getSizes()) *
                sym::product(scatter.getPlaces().getSizes())) &&
         (func.getUpdates() || areFew(sym::product(sym::getShape(scatter.getResult()))));
}

bool cuda::isReadWhereWritten(kernel::FuncOp producer, kernel::FuncOp part,
                              BlockArgument argument) {
  auto from = dyn_cast<kernel::ContractOp>(producer.getRoot());
  auto to = dyn_cast<kernel::ContractOp>(part.getRoot());
  if (!from || !to || !isDot(ContractDims(from)) || !isDot(ContractDims(to)) ||
      from.getBatch() != to.getBatch() || from.getM() != to.getM() || from.getN() != to.getN())
    return false;
  SmallVector<sym::Expr> dims;
  for (int64_t dim : from.getResultDims())
    dims.push_back(sym::Expr::dim(dim));
  sym::Expr written = sym::linearize(dims, sym::getShape(from.getResult()));
  SmallVector<sym::Expr> shape = sym::getShape(argument);
  sym::Assumptions known = kernel::getAssumptions(&to.getEpilogue());
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    auto read = dyn_cast<kernel::ReadOp>(user);
    if (!read || read->getParentRegion() != &to.getEpilogue() || !read.getValues().empty())
      return false;
    sym::Expr distance = sym::linearize(read.getMap().getResults(), shape) - written;
    return known.simplify(distance).isConstant(0);
  });
}

namespace {
/// Calls that have the same blocks, one after the other.
using Sequence = SmallVector<kernel::CallOp>;

/// The calls of a group by when they run.
struct Calls {
  explicit Calls(kernel::FuncOp group);

  SmallVector<kernel::CallOp> own;
  SmallVector<Sequence> divided;
};
} // namespace

Calls::Calls(kernel::FuncOp group) {
  OperandRange returned = kernel::getReturned(group);
  auto isReturned = [&](Value value) { return llvm::is_contained(returned, value); };
  DenseMap<Operation *, size_t> places;
  for (kernel::CallOp call : kernel::getParts(group)) {
    if (!llvm::all_of(call.getResults(), isReturned)) {
      own.push_back(call);
      continue;
    }
    size_t place = divided.size();
    for (Value operand : call.getOperands())
      if (isReturned(operand))
        place = places.lookup(operand.getDefiningOp());
    if (place == divided.size())
      divided.emplace_back();
    divided[place].push_back(call);
    places[call] = place;
  }
}

/// The plan of a part with `groupThreads` threads.
static FailureOr<KernelPlan> planPart(kernel::FuncOp part) {
  Operation *root = part.getRoot();
  if (isa<kernel::MapOp>(root))
    return planMap(part, groupThreads);
  if (isa<kernel::ScatterOp>(root))
    return planTasks(part, groupThreads);
  if (!isa<kernel::ContractOp>(root))
    return root->emitError("cannot be a part of a group");
  FailureOr<KernelPlan> plan = planContract(part, /*tf32=*/false);
  if (succeeded(plan) && !isa<DotScheduleAttr>(plan->schedule))
    return root->emitError("is a part of a group, but no product of few rows");
  return plan;
}

/// Every operand that another part returns is written by the same block before.
static LogicalResult verifyOrder(kernel::FuncOp group, const Sequence &sequence) {
  for (kernel::CallOp call : sequence)
    for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
      auto producer = operand.getDefiningOp<kernel::CallOp>();
      if (!producer || !llvm::is_contained(kernel::getReturned(group), operand))
        continue;
      kernel::FuncOp part = kernel::getPart(call);
      if (!llvm::is_contained(sequence, producer) ||
          !isReadWhereWritten(kernel::getPart(producer), part, part.getArgument(i)))
        return call.emitOpError("reads what other blocks of the group write");
    }
  return success();
}

/// Plans and schedules the part that is called, unless another group has. `before`, if there is
/// one, has the same blocks.
static FailureOr<sym::Expr> schedulePart(kernel::CallOp call, kernel::CallOp before) {
  kernel::FuncOp part = kernel::getPart(call);
  FailureOr<KernelPlan> plan = planPart(part);
  if (failed(plan))
    return failure();
  part.setScheduleAttr(plan->schedule);
  part.setLaunchAttr(plan->launch());
  if (plan->threads != groupThreads)
    return part.emitError("has blocks of ")
           << plan->threads << " threads in a group of " << groupThreads;
  if (before && getSchedule<DotScheduleAttr>(kernel::getPart(before)).getColumns() !=
                    getSchedule<DotScheduleAttr>(part).getColumns())
    return part.emitError("has other columns than what it reads of");
  return plan->grid;
}

FailureOr<KernelPlan> cuda::planGroup(kernel::FuncOp group) {
  for (kernel::CallOp call : kernel::getParts(group))
    if (kernel::FuncOp part = kernel::getPart(call);
        !part.isPrivate() || (!part.getScheduleAttr() && !mayBePart(part)))
      return call.emitOpError("calls what is no part of a group");
  Calls calls(group);
  for (kernel::CallOp call : calls.own) {
    FailureOr<sym::Expr> grid = schedulePart(call, {});
    if (failed(grid))
      return failure();
    if (!grid->isConstant() || !isa<kernel::MapOp>(kernel::getPart(call).getRoot()))
      return call.emitOpError("is each block's own, but no map of a known size");
  }
  sym::Expr grid = 0;
  for (const Sequence &sequence : calls.divided) {
    if (failed(verifyOrder(group, sequence)))
      return failure();
    for (kernel::CallOp call : sequence) {
      bool isFirst = call == sequence.front();
      FailureOr<sym::Expr> own = schedulePart(call, isFirst ? kernel::CallOp() : sequence.front());
      if (failed(own))
        return failure();
      if (isFirst)
        grid = grid + *own;
    }
  }
  return KernelPlan{GroupScheduleAttr::get(group.getContext(), groupThreads), grid, groupThreads,
                    "its parts do not wait for each other"};
}

namespace {
class GroupEmitter {
public:
  explicit GroupEmitter(DeviceFrame &frame) : frame(frame), group(frame.func), calls(group) {
    for (BlockArgument argument : group.getArguments())
      buffers[argument] = frame.buffer(argument);
    for (auto [i, value] : llvm::enumerate(kernel::getReturned(group)))
      buffers[value] = frame.resultBuffer(i);
  }

  LogicalResult emit() {
    for (kernel::CallOp call : calls.own)
      if (failed(emitOwn(call)))
        return failure();
    if (!calls.own.empty())
      frame.emitBarrier();
    shared = frame.sharedBytes;
    LogicalResult result = emitDivided(calls.divided, frame.block);
    frame.sharedBytes = shared;
    return result;
  }

private:
  /// All blocks of a part, one after the other.
  LogicalResult emitOwn(kernel::CallOp call) {
    for (Value result : call.getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      int64_t bytes = *wrapper::BufferType::get(type).getBytes().constant();
      buffers[result] = frame.allocateShared(bytes);
    }
    int64_t numBlocks = *codegen::getGrid(kernel::getPart(call)).constant();
    LogicalResult result = success();
    frame.emitLoop(frame.constant(0), frame.constant(numBlocks), 1, {},
                   [&](Value block, ValueRange) -> SmallVector<Value> {
                     result = emitPart(call, block);
                     // Threads of a team read until here, each what another has left for it.
                     if (numBlocks > 1)
                       frame.emitBarrier();
                     return {};
                   });
    frame.sharedBytes = shared;
    return result;
  }

  /// Block number `block` of these.
  LogicalResult emitDivided(ArrayRef<Sequence> sequences, Value block) {
    auto emitFirst = [&] {
      for (kernel::CallOp call : sequences.front())
        if (failed(emitPart(call, block)))
          return failure();
      return success();
    };
    if (sequences.size() == 1)
      return emitFirst();
    OpBuilder &builder = frame.builder;
    Value grid =
        frame.simplifyAndEmit(codegen::getGrid(kernel::getPart(sequences.front().front())));
    Value isFirst =
        arith::CmpIOp::create(builder, frame.loc, arith::CmpIPredicate::slt, block, grid);
    Value rest = arith::SubIOp::create(builder, frame.loc, block, grid);
    auto branch = scf::IfOp::create(builder, frame.loc, isFirst, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    if (failed(emitFirst()))
      return failure();
    builder.setInsertionPointToStart(branch.elseBlock());
    return emitDivided(sequences.drop_front(), rest);
  }

  /// Writes a part as a function of its own, which then goes on where the group is.
  LogicalResult emitPart(kernel::CallOp call, Value block) {
    DeviceFrame part(kernel::getPart(call), {});
    LLVM::LLVMFuncOp function = part.function;
    llvm::scope_exit erase([&] { function.erase(); });
    Block &body = function.getBody().front();
    part.block = body.addArgument(block.getType(), frame.loc);
    part.sharedBytes = frame.sharedBytes;
    if (failed(emitRoot(part)))
      return failure();
    part.emitFailures();
    shared = std::max(shared, part.sharedBytes);
    SmallVector<Value> values;
    for (Value value : call->getOperands())
      values.push_back(buffers.lookup(value));
    for (Value value : call.getResults())
      values.push_back(buffers.lookup(value));
    llvm::append_values(values, frame.error, block);
    for (auto [argument, value] : llvm::zip_equal(body.getArguments(), values))
      argument.replaceAllUsesWith(value);
    Operation *begin = &frame.function.getBody().front().front();
    for (Operation &op : llvm::make_early_inc_range(body)) {
      op.moveBefore(frame.builder.getBlock(), frame.builder.getInsertionPoint());
      // Memory on the stack is that of the whole function.
      if (auto memory = dyn_cast<LLVM::AllocaOp>(op)) {
        memory.getArraySize().getDefiningOp()->moveBefore(begin);
        memory->moveBefore(begin);
      }
    }
    return success();
  }

  DeviceFrame &frame;
  kernel::FuncOp group;
  Calls calls;
  DenseMap<Value, Value> buffers;
  int64_t shared = 0; // bytes so far
};
} // namespace

LogicalResult cuda::emitGroup(DeviceFrame &frame) { return GroupEmitter(frame).emit(); }
