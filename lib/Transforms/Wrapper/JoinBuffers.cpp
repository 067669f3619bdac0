// wrapper-join-buffers: computes the parts of a concatenation in place.
#include "kiln/Dialect/Kernel/Collective.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERJOINBUFFERS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;
using sym::Expr;

namespace {

/// Argument `argument` of a kernel is, element by element, its result from `offset` on.
struct Part {
  unsigned argument;
  Expr offset, numElements;
};

/// The parts that a kernel puts one after the other; nullopt if it does anything else. The map
/// reads each of them where the outermost dim that is not 1 lies in it:
///   read %b (d0 - n, d1) if inside (d0 - n) bounds [m] else(read %a (d0, d1) if …)
std::optional<SmallVector<Part>> getParts(kernel::FuncOp func) {
  auto map = dyn_cast<kernel::MapOp>(func.getRoot());
  if (!map || map->getNumResults() != 1)
    return std::nullopt;
  sym::Assumptions known = kernel::getAssumptions(&map.getBody());
  SmallVector<Expr> domain = map.getExtents(), dims;
  for (unsigned i = 0; i < domain.size(); ++i)
    dims.push_back(Expr::dim(i));
  Expr written = sym::linearize(dims, domain);
  const auto *joined = llvm::find_if(domain, [](Expr size) { return !size.isConstant(1); });
  if (joined == domain.end())
    return std::nullopt;
  Expr inner = sym::product(ArrayRef(joined + 1, domain.end()));
  Expr position = dims[joined - domain.begin()];

  SmallVector<Part> parts;
  Value value = map.getBody().front().getTerminator()->getOperand(0);
  while (auto read = value.getDefiningOp<kernel::ReadOp>()) {
    auto argument = dyn_cast<BlockArgument>(read.getTensor());
    auto inside = read.getMask() ? read.getMask().getDefiningOp<kernel::InsideOp>() : nullptr;
    if (!argument || argument.getOwner() != &func.getBody().front() || !inside ||
        !read.getValues().empty() || !inside.getValues().empty() ||
        inside.getMap().getResults().size() != 1)
      return std::nullopt;
    SmallVector<Expr> shape = sym::getShape(argument);
    Expr address = sym::linearize(read.getMap().getResults(), shape);
    Expr offset = known.simplify(written - address);
    Expr first = known.simplify(position - inside.getMap().getResults()[0]);
    Expr numElements = known.simplify(sym::product(shape));
    auto isSame = [&](Expr a, Expr b) { return known.simplify(a - b).isConstant(0); };
    if (offset.hasDims() || first.hasDims() || !isSame(first * inner, offset) ||
        !isSame(inside.getBounds().getSizes()[0] * inner, numElements))
      return std::nullopt;
    // Without a gap, and all of it.
    Expr end = parts.empty() ? Expr(0) : parts.back().offset + parts.back().numElements;
    if (!isSame(offset, end))
      return std::nullopt;
    parts.push_back({argument.getArgNumber(), offset, numElements});
    value = read.getOther();
  }
  if (parts.size() < 2 ||
      !known.simplify(parts.back().offset + parts.back().numElements - sym::product(domain))
           .isConstant(0))
    return std::nullopt;
  return parts;
}

/// The steps behind `step` that use the memory of `buffer`.
SmallVector<Operation *> getUsersBehind(Operation *step, Value buffer) {
  SmallVector<Operation *> users = getStorageUsers(buffer);
  llvm::erase_if(users, [&](Operation *user) { return !step->isBeforeInBlock(user); });
  return users;
}

/// True if a step behind `step` may write the memory of `buffer`.
bool isWrittenBehind(Operation *step, Value buffer) {
  auto isIn = [&](Value other) { return getStorage(other) == getStorage(buffer); };
  return llvm::any_of(getUsersBehind(step, buffer), [&](Operation *user) {
    if (auto launch = dyn_cast<LaunchOp>(user))
      return llvm::any_of(launch.getOuts(), isIn);
    if (auto call = dyn_cast<ExternCallOp>(user))
      return llvm::any_of(call.getOuts(), isIn);
    if (auto copy = dyn_cast<CopyOp>(user))
      return isIn(copy.getTarget());
    return isa<GraphCallOpInterface>(user);
  });
}

struct JoinBuffers : kiln::impl::WrapperJoinBuffersBase<JoinBuffers> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::MapVector<kernel::FuncOp, bool> joined; // whether it is launched still
    for (auto function : getOperation().getOps<HostFunctionOpInterface>()) {
      defined = getDefinedSymbols(function);
      for (auto launch :
           llvm::make_early_inc_range(function.getFunctionBody().front().getOps<LaunchOp>())) {
        auto func = symbols.lookup<kernel::FuncOp>(launch.getKernel());
        if (std::optional<SmallVector<Part>> parts = getParts(func))
          joined[func] |= !join(launch, *parts);
      }
    }
    for (auto [func, isLaunched] : joined)
      if (!isLaunched && SymbolTable::symbolKnownUseEmpty(func, getOperation()))
        symbols.erase(func);
  }

  bool join(LaunchOp launch, ArrayRef<Part> parts) {
    Value out = launch.getOuts()[0];
    Operation *target = out.getDefiningOp();
    if (!isa_and_present<AllocOp, OutputOp>(target) || usesDefined(out))
      return false;
    SmallVector<AllocOp> allocs;
    for (const Part &part : parts) {
      AllocOp owner = getOwner(launch, launch.getIns()[part.argument]);
      // It can be in one place only.
      allocs.push_back(llvm::is_contained(allocs, owner) ? AllocOp() : owner);
    }
    // A buffer that has its memory from elsewhere has to be copied, as the kernel does, but not
    // beside others.
    auto numOwned =
        static_cast<size_t>(llvm::count_if(allocs, [](AllocOp alloc) { return alloc; }));
    if (numOwned * 2 < parts.size())
      return false;

    Operation *earliest = target;
    for (AllocOp alloc : allocs)
      if (alloc && alloc->isBeforeInBlock(earliest))
        earliest = alloc;
    if (earliest != target)
      target->moveBefore(earliest);
    for (auto [part, alloc] : llvm::zip_equal(parts, allocs)) {
      Operation *at = alloc ? alloc.getOperation() : launch.getOperation();
      Value in = launch.getIns()[part.argument];
      OpBuilder builder(at);
      Value view = ViewOp::create(builder, at->getLoc(), alloc ? alloc.getType() : in.getType(),
                                  out, sym::ExprAttr::get(&getContext(), part.offset));
      if (!alloc) {
        CopyOp::create(builder, at->getLoc(), in, view);
        continue;
      }
      alloc.replaceAllUsesWith(view);
      alloc.erase();
    }
    launch.erase();
    return true;
  }

  /// The allocation that is all of `in`, if it can be a piece of the result from its beginning: updates behind the
  /// launch are of one of the two, and must not be seen in the other.
  AllocOp getOwner(LaunchOp launch, Value in) {
    auto alloc = getStorage(in).getDefiningOp<AllocOp>();
    auto type = cast<BufferType>(in.getType());
    auto isIn = [&](Value other) { return getStorage(other) == getStorage(in); };
    return alloc && alloc->getBlock() == launch->getBlock() && !hasToBeWhole(alloc) &&
                   alloc.getType().getElementType() == type.getElementType() &&
                   alloc.getType().getBytes() == type.getBytes() && !isWrittenBehind(launch, in) &&
                   (getUsersBehind(launch, in).empty() ||
                    !isWrittenBehind(launch, launch.getOuts()[0])) &&
                   llvm::count_if(launch->getOperands(), isIn) == 1
               ? alloc
               : AllocOp();
  }

  /// Triton kernels are compiled for addresses at multiples of 16 bytes, which parts need not have,
  /// and collectives take tensors without gaps.
  static bool hasToBeWhole(Operation *buffer) {
    return llvm::any_of(buffer->getUsers(), [](Operation *user) {
      auto call = dyn_cast<ExternCallOp>(user);
      return (call && (call.getLibrary() == kernel::tritonLibrary ||
                       call.getLibrary() == kernel::collectivesLibrary)) ||
             (isa<ViewOp>(user) && hasToBeWhole(user));
    });
  }

  /// Its size is not known before the function runs.
  bool usesDefined(Value buffer) {
    bool found = false;
    cast<BufferType>(buffer.getType()).getBytes().walkLeaves([&](Expr leaf) {
      found |= defined.contains(leaf);
    });
    return found;
  }

  llvm::SetVector<Expr> defined;
};

} // namespace
