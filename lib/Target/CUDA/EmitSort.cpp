// Sorts of rows that fit the shared memory: a block has a row and sorts it there, by a bitonic
// network over pairs of key and position, of which no two are equal.
#include "kiln/Target/CPU/BodyEmitter.h"
#include "kiln/Target/CUDA/KernelEmitters.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Elements of a row whose keys and positions fit 48 KB.
static constexpr int64_t mostElements = 4096;
/// Shorter rows are left to a thread each.
static constexpr int64_t shortRow = 16;
static constexpr int64_t mostThreads = 512;

/// The elements that the network has: a power of two.
static int64_t getWidth(kernel::SortOp sort) {
  return llvm::PowerOf2Ceil(*sort.getDomain().back().constant());
}

bool cuda::isBlockSort(kernel::SortOp sort) {
  auto length = sort.getDomain().back().constant();
  return length && *length >= shortRow && *length <= mostElements;
}

FailureOr<KernelPlan> cuda::planSort(kernel::FuncOp func) {
  auto sort = cast<kernel::SortOp>(func.getRoot());
  if (failed(cpu::verifyValueTypes(sort)))
    return failure();
  int64_t threads = std::clamp(getWidth(sort) / 2, warpSize, mostThreads);
  auto schedule = kernel::ScheduleAttr::get(func.getContext(), {threads}, {1}, 1, /*stage=*/false);
  return KernelPlan{schedule, sym::product(ArrayRef(sort.getDomain()).drop_back()), threads};
}

namespace {
class BlockSort {
public:
  BlockSort(DeviceFrame &frame, kernel::SortOp sort)
      : frame(frame), b(frame.builder), loc(frame.loc), sort(sort), domain(sort.getDomain()),
        body(frame, sort.getBody()), width(getWidth(sort)) {}

  void emit() {
    keys = frame.allocateShared(width * 8);
    positions = frame.allocateShared(width * 4);
    ArrayRef<sym::Expr> rows = ArrayRef(domain).drop_back();
    sym::Expr row = frame.addVariable(frame.block, sym::product(rows));
    for (auto [dim, value] : llvm::enumerate(sym::delinearize(row, rows)))
      body.setDim(dim, frame.assumptions.simplify(value));
    body.emitAvailable();
    forEach(width, [&](Value i) { emitKey(i); });
    auto stages = beginLoop(frame.constant(1), frame.constant(llvm::Log2_64(width) + 1));
    auto steps = beginLoop(frame.constant(0), stages.getInductionVar());
    frame.emitBarrier();
    Value one = frame.constant(1);
    // Runs of `run` are made of such that rise and fall in turns, by exchanges over `distance`.
    Value run = arith::ShLIOp::create(b, loc, one, stages.getInductionVar());
    Value exponent = arith::SubIOp::create(
        b, loc, arith::SubIOp::create(b, loc, stages.getInductionVar(), steps.getInductionVar()),
        one);
    Value distance = arith::ShLIOp::create(b, loc, one, exponent);
    forEach(width / 2, [&](Value pair) { emitExchange(pair, run, distance); });
    b.setInsertionPointAfter(stages);
    frame.emitBarrier();
    Value start = frame.simplifyAndEmit(row * domain.back());
    Value results = frame.gep(frame.resultBuffer(0), b.getI64Type(), start);
    forEach(*domain.back().constant(), [&](Value i) {
      Value position =
          arith::ExtUIOp::create(b, loc, b.getI64Type(), load(positions, b.getI32Type(), i));
      store(results, position, i);
    });
  }

private:
  Value load(Value base, Type type, Value index) {
    return LLVM::LoadOp::create(b, loc, type, frame.gep(base, type, index));
  }
  void store(Value base, Value value, Value index) {
    LLVM::StoreOp::create(b, loc, value, frame.gep(base, value.getType(), index));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }

  /// Leaves the builder inside.
  scf::ForOp beginLoop(Value begin, Value end) {
    auto loop = scf::ForOp::create(b, loc, begin, end, frame.constant(1));
    b.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  /// The block's threads take turns.
  void forEach(int64_t count, function_ref<void(Value)> emit) {
    auto loop = scf::ForOp::create(b, loc, frame.thread, frame.constant(count),
                                   frame.constant(frame.numThreads));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    emit(loop.getInductionVar());
  }

  /// Behind the row's end the largest key is, at positions that no element has.
  void emitKey(Value i) {
    cpu::BodyEmitter::Scope scope(body);
    int64_t length = *domain.back().constant();
    Value inside = arith::MinSIOp::create(b, loc, i, frame.constant(length - 1));
    body.setDim(domain.size() - 1, frame.addVariable(inside, length));
    Value key = body.emitYield().front();
    Value isElement = compare(arith::CmpIPredicate::slt, i, frame.constant(length));
    Value most = frame.constant(std::numeric_limits<int64_t>::max());
    store(keys, arith::SelectOp::create(b, loc, isElement, key, most), i);
    store(positions, arith::TruncIOp::create(b, loc, b.getI32Type(), i), i);
  }

  void emitExchange(Value pair, Value run, Value distance) {
    // The pair's number with a zero put in at the place of `distance`.
    Value below = arith::SubIOp::create(b, loc, distance, frame.constant(1));
    Value low = arith::AndIOp::create(b, loc, pair, below);
    Value high = arith::SubIOp::create(b, loc, pair, low);
    Value left = arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, high, high), low);
    Value right = arith::AddIOp::create(b, loc, left, distance);
    Type i32 = b.getI32Type(), i64 = b.getI64Type();
    Value leftKey = load(keys, i64, left), rightKey = load(keys, i64, right);
    Value leftPosition = load(positions, i32, left), rightPosition = load(positions, i32, right);
    Value isAfter = arith::OrIOp::create(
        b, loc, compare(arith::CmpIPredicate::sgt, leftKey, rightKey),
        arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::eq, leftKey, rightKey),
                              compare(arith::CmpIPredicate::sgt, leftPosition, rightPosition)));
    Value rises = compare(arith::CmpIPredicate::eq, arith::AndIOp::create(b, loc, left, run),
                          frame.constant(0));
    frame.emitIf(compare(arith::CmpIPredicate::eq, isAfter, rises), [&] {
      store(keys, rightKey, left);
      store(keys, leftKey, right);
      store(positions, rightPosition, left);
      store(positions, leftPosition, right);
    });
  }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::SortOp sort;
  SmallVector<sym::Expr> domain;
  cpu::BodyEmitter body;
  int64_t width;
  Value keys, positions;
};
} // namespace

LogicalResult cuda::emitSort(DeviceFrame &frame, kernel::SortOp sort) {
  BlockSort(frame, sort).emit();
  return success();
}
