// cuda-group-launches: makes one launch of several that do not wait for each other.
#include "kiln/Dialect/Kernel/Costs.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAGROUPLAUNCHES
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;
using namespace kiln::wrapper;

/// Parts of a group: each is code of its kernel.
static constexpr size_t maxParts = 8;
/// A block's own results in shared memory, of which several blocks of a multiprocessor have as much.
static constexpr int64_t maxOwnBytes = 16 << 10;
/// Bytes that each block may read for those: from the cache, while the other blocks of its
/// multiprocessor read weights.
static constexpr int64_t maxReadBytes = 64 << 10;
/// Blocks of a map that each block of a group runs, one after the other. Each of them waits about
/// 0.4 us for what it reads, and a launch of its own costs 2 us.
static constexpr int64_t maxOwnBlocks = 4;

namespace {

/// Launches that become one.
struct Group {
  SmallVector<LaunchOp> divided; // one after the other in the program
  SmallVector<LaunchOp> own;     // before them
};

bool hasStorage(ValueRange buffers, Value storage) {
  return llvm::any_of(buffers, [&](Value buffer) { return getStorage(buffer) == storage; });
}

/// A step of which it is known what it reads and writes.
struct Access {
  SmallVector<Value> ins, outs;

  static std::optional<Access> of(Operation *op) {
    if (auto launch = dyn_cast<LaunchOp>(op))
      return Access{launch.getIns(), launch.getOuts()};
    if (auto copy = dyn_cast<CopyOp>(op))
      return Access{{copy.getSource()}, {copy.getTarget()}};
    if (isa<AllocOp, ViewOp, ConstantOp, OutputOp>(op))
      return Access();
    return std::nullopt;
  }
};

/// `later` has to come after `earlier`, for another reason than `except` (null: none), a buffer that
/// `earlier` writes and `later` reads.
bool dependsOn(const Access &later, const Access &earlier, Value except = {}) {
  auto meet = [&](const SmallVector<Value> &written, const SmallVector<Value> &others) {
    return llvm::any_of(written, [&](Value buffer) {
      return llvm::any_of(others, [&](Value other) {
        return getStorage(other) == getStorage(buffer) && !(buffer == except && other == except);
      });
    });
  };
  return meet(earlier.outs, later.ins) || meet(earlier.outs, later.outs) ||
         meet(later.outs, earlier.ins);
}

/// Kernels of the module, and those that have been made.
struct Module {
  explicit Module(ModuleOp module) : symbols(module) {}

  kernel::FuncOp getKernel(LaunchOp launch) {
    return symbols.lookup<kernel::FuncOp>(launch.getKernel());
  }
  bool mayBePart(LaunchOp launch) {
    kernel::FuncOp func = getKernel(launch);
    auto [known, isNew] = candidates.try_emplace(func);
    if (isNew)
      known->second = cuda::mayBePart(func);
    // The map of an operand that it writes over cannot be told from others in a group.
    bool writesOver = !func.getUpdates() && llvm::any_of(launch.getOuts(), [&](Value out) {
      return hasStorage(launch.getIns(), getStorage(out));
    });
    return known->second && !writesOver && !launch.getAlternatives() && !launch.getSymbolsAttr() &&
           launch->getDiscardableAttrDictionary().empty();
  }
  /// The kernel as groups call it.
  kernel::FuncOp getPart(kernel::FuncOp func) {
    kernel::FuncOp &part = parts[func];
    if (!part) {
      part = cast<kernel::FuncOp>(func->clone());
      part.setSymName((func.getSymName() + "_part").str());
      part.setPrivate();
      symbols.insert(part, Block::iterator(func));
    }
    return part;
  }

  SymbolTable symbols;
  DenseMap<Operation *, bool> candidates;
  llvm::MapVector<Operation *, kernel::FuncOp> parts;
  std::map<std::string, kernel::FuncOp> groups; // by what they compute
};

/// One function of the host program.
class Grouper {
public:
  Grouper(Block &block, Module &module, StringRef pass)
      : block(block), module(module), pass(pass) {}

  void run() {
    for (LaunchOp launch : llvm::to_vector(block.getOps<LaunchOp>()))
      if (module.mayBePart(launch) && !join(launch)) {
        numbers[launch] = groups.size();
        groups.push_back({{launch}, {}});
      }
    for (size_t number = 0; number < groups.size(); ++number)
      takeOwn(number);
    for (Group &group : groups)
      if (group.divided.size() + group.own.size() > 1 && !group.divided.empty())
        replace(group);
  }

private:
  //===-- Who belongs together ----------------------------------------------------------------===//

  /// Moves `launch` up to the first group whose launches it need not wait for: what only waits for it
  /// can then come up, too.
  bool join(LaunchOp launch) {
    std::optional<size_t> first;
    Access own = *Access::of(launch);
    for (Operation *op = launch->getPrevNode(); op;) {
      std::optional<Access> access = Access::of(op);
      if (!access)
        break;
      auto number = numbers.find(op);
      if (number == numbers.end()) {
        if (dependsOn(own, *access))
          break;
        op = op->getPrevNode();
        continue;
      }
      Group &group = groups[number->second];
      Relation relation = relate(launch, own, group);
      if (relation != Relation::Behind && group.divided.size() < maxParts)
        first = number->second;
      if (relation != Relation::Free)
        break;
      op = group.divided.front()->getPrevNode();
    }
    if (!first)
      return false;
    Group &group = groups[*first];
    moveAfter(launch, group);
    numbers[launch] = *first;
    group.divided.push_back(launch);
    return true;
  }

  /// A launch may come before a group; be a part of it, and no earlier; or has to come behind it.
  enum class Relation { Free, Part, Behind };

  Relation relate(LaunchOp launch, const Access &own, const Group &group) {
    Relation relation = Relation::Free;
    for (LaunchOp member : group.divided) {
      // Calls that compute the same would be taken for one.
      if (member.getKernel() == launch.getKernel() && member.getIns() == launch.getIns())
        return Relation::Behind;
      if (!dependsOn(own, *Access::of(member)))
        continue;
      if (!comesAfter(launch, member))
        return Relation::Behind;
      relation = Relation::Part;
    }
    return relation;
  }

  /// Each block of `launch` can do with what the same block of `member` has written.
  bool comesAfter(LaunchOp launch, LaunchOp member) {
    Value written = member.getOuts().front();
    auto ins = launch.getIns();
    unsigned number = llvm::find(ins, written) - ins.begin();
    if (number == ins.size() || llvm::count(ins, written) != 1 ||
        dependsOn(*Access::of(launch), *Access::of(member), written))
      return false;
    kernel::FuncOp func = module.getKernel(launch);
    return isReadWhereWritten(module.getKernel(member), func, func.getArgument(number));
  }

  void moveAfter(LaunchOp launch, Group &group) {
    for (Value operand : launch->getOperands())
      moveName(operand, group.divided.front());
    launch->moveAfter(group.divided.back());
  }

  /// Buffers are names: they may have theirs before anything is written there.
  static void moveName(Value buffer, Operation *before) {
    Operation *op = buffer.getDefiningOp();
    if (!op || op->isBeforeInBlock(before))
      return;
    for (Value operand : op->getOperands())
      moveName(operand, before);
    op->moveBefore(before);
  }

  //===-- What each block computes for itself -------------------------------------------------===//

  void takeOwn(size_t number) {
    int64_t ownBytes = 0, readBytes = 0;
    Group &group = groups[number];
    for (LaunchOp member : llvm::to_vector(group.divided))
      for (Value in : member.getIns()) {
        LaunchOp producer = findProducer(in, group);
        if (!producer || group.divided.size() + group.own.size() >= maxParts)
          continue;
        int64_t written = 0, read = 0;
        if (!getBytes(producer, read, written) || ownBytes + written > maxOwnBytes ||
            readBytes + read > maxReadBytes || !hasFewBlocks(producer))
          continue;
        ownBytes += written;
        readBytes += read;
        llvm::erase(groups[numbers.lookup(producer)].divided, producer);
        group.own.push_back(producer);
      }
  }

  /// The map that writes `buffer`, if nobody but products of `group` want what it computes, and it may
  /// be computed where the group is.
  LaunchOp findProducer(Value buffer, Group &group) {
    LaunchOp producer;
    auto alloc = buffer.getDefiningOp<AllocOp>();
    if (alloc)
      for (Operation *user : alloc->getUsers())
        if (auto launch = dyn_cast<LaunchOp>(user);
            launch && llvm::is_contained(launch.getOuts(), buffer))
          producer = launch;
    if (!producer || !numbers.contains(producer) ||
        !producer->isBeforeInBlock(group.divided.front()) ||
        llvm::is_contained(group.own, producer) ||
        !isa<kernel::MapOp>(module.getKernel(producer).getRoot()) ||
        !llvm::all_of(producer.getOuts(),
                      [&](Value out) { return isWantedBy(out, producer, group); }))
      return {};
    // Its operands are still there, and no block writes it while others read.
    for (Operation *op = producer->getNextNode(); op != group.divided.front();
         op = op->getNextNode()) {
      std::optional<Access> access = Access::of(op);
      if (!access || writesOperand(*access, producer))
        return {};
    }
    bool isWritten = llvm::any_of(group.divided, [&](LaunchOp member) {
      return writesOperand(*Access::of(member), producer);
    });
    return isWritten ? LaunchOp() : producer;
  }

  static bool writesOperand(const Access &access, LaunchOp launch) {
    return llvm::any_of(access.outs,
                        [&](Value out) { return hasStorage(launch.getIns(), getStorage(out)); });
  }

  /// All others that use `out` are products of `group` that read it.
  bool isWantedBy(Value out, LaunchOp producer, Group &group) {
    return out.getDefiningOp<AllocOp>() && llvm::all_of(out.getUsers(), [&](Operation *user) {
             auto launch = dyn_cast<LaunchOp>(user);
             return launch == producer ||
                    (launch && llvm::is_contained(group.divided, launch) &&
                     isa<kernel::ContractOp>(module.getKernel(launch).getRoot()) &&
                     !llvm::is_contained(launch.getOuts(), out));
           });
  }

  bool hasFewBlocks(LaunchOp launch) {
    FailureOr<KernelPlan> plan = planMap(module.getKernel(launch), groupThreads);
    std::optional<int64_t> blocks;
    if (succeeded(plan))
      blocks = plan->grid.constant();
    return blocks && *blocks <= maxOwnBlocks;
  }

  /// Bytes that the kernel reads and writes; false: that depends on sizes.
  bool getBytes(LaunchOp launch, int64_t &read, int64_t &written) {
    kernel::KernelCosts costs = kernel::getCosts(module.getKernel(launch));
    for (auto [i, bytes] : llvm::enumerate(costs.bytes)) {
      std::optional<int64_t> number = bytes.constant();
      if (!number)
        return false;
      (i < launch.getIns().size() ? read : written) += *number;
    }
    return true;
  }

  //===-- The launch of all -------------------------------------------------------------------===//

  void replace(Group &group) {
    SmallVector<LaunchOp> members(group.own);
    llvm::append_range(members, group.divided);
    // Operands and results are numbered alike for all groups that compute the same.
    llvm::SetVector<Value> ins, outs, own;
    for (LaunchOp launch : group.own)
      own.insert_range(launch.getOuts());
    for (LaunchOp launch : group.divided)
      outs.insert_range(launch.getOuts());
    for (LaunchOp launch : members)
      for (Value in : launch.getIns())
        // A buffer that is updated in place is an operand, too.
        if (!own.contains(in) &&
            (!outs.contains(in) || hasStorage(launch.getOuts(), getStorage(in))))
          ins.insert(in);
    OpBuilder builder(group.divided.front());
    SmallVector<Location> locations =
        llvm::map_to_vector(members, [](LaunchOp launch) -> Location { return launch.getLoc(); });
    auto launch = LaunchOp::create(builder, builder.getFusedLoc(locations),
                                   getGroup(members, ins, outs, own).getSymName(),
                                   ins.getArrayRef(), outs.getArrayRef());
    emitRemark(RemarkKind::Done, launch, pass, "Grouped", [&] {
      return RemarkText{
          llvm::formatv("one launch of {0} kernels: @{1}", members.size(),
                        llvm::join(llvm::map_range(
                                       members, [](LaunchOp member) { return member.getKernel(); }),
                                   ", @"))
              .str()};
    });
    for (LaunchOp member : members)
      member.erase();
    for (Value buffer : own)
      buffer.getDefiningOp()->erase();
  }

  kernel::FuncOp getGroup(ArrayRef<LaunchOp> members, const llvm::SetVector<Value> &ins,
                          const llvm::SetVector<Value> &outs, const llvm::SetVector<Value> &own) {
    // An operand that is updated has the number of the result, too.
    auto number = [](const llvm::SetVector<Value> &buffers, Value buffer) -> size_t {
      return llvm::find(buffers, buffer) - buffers.begin();
    };
    std::string key;
    llvm::raw_string_ostream stream(key);
    for (LaunchOp launch : members) {
      stream << launch.getKernel() << "(";
      for (Value in : launch.getIns())
        stream << number(ins, in) << "/" << number(outs, in) << "/" << number(own, in) << ", ";
      stream << ") -> ";
      for (Value out : launch.getOuts())
        stream << number(outs, out) << "/" << number(own, out) << ", ";
    }
    kernel::FuncOp &group = module.groups[key];
    if (!group)
      group = makeGroup(members, ins, outs);
    return group;
  }

  kernel::FuncOp makeGroup(ArrayRef<LaunchOp> members, const llvm::SetVector<Value> &ins,
                           const llvm::SetVector<Value> &outs) {
    DenseMap<Value, Type> types;
    for (LaunchOp launch : members) {
      kernel::FuncOp func = module.getKernel(launch);
      for (auto [buffer, type] : llvm::zip_equal(launch.getIns(), func.getArgumentTypes()))
        types[buffer] = type;
      for (auto [buffer, type] : llvm::zip_equal(launch.getOuts(), func.getResultTypes()))
        types[buffer] = type;
    }
    auto typeOf = [&](Value buffer) { return types.lookup(buffer); };
    kernel::FuncOp first = module.getKernel(members.front());
    OpBuilder builder(first);
    auto type = builder.getFunctionType(llvm::map_to_vector(ins, typeOf),
                                        llvm::map_to_vector(outs, typeOf));
    auto group = kernel::FuncOp::create(builder, first.getLoc(),
                                        ("group_" + Twine(module.groups.size() - 1)).str(), type);
    group->remove();
    module.symbols.insert(group, Block::iterator(first));
    DenseMap<Value, Value> values;
    for (auto [buffer, argument] : llvm::zip_equal(ins, group.getBody().getArguments()))
      values[buffer] = argument;
    builder.setInsertionPointToEnd(&group.getBody().front());
    for (LaunchOp launch : members) {
      kernel::FuncOp part = module.getPart(module.getKernel(launch));
      SmallVector<Value> operands =
          llvm::map_to_vector(launch.getIns(), [&](Value in) { return values.lookup(in); });
      auto call = kernel::CallOp::create(builder, launch.getLoc(), part.getResultTypes(),
                                         part.getSymName(), operands);
      for (auto [buffer, result] : llvm::zip_equal(launch.getOuts(), call.getResults()))
        values[buffer] = result;
    }
    SmallVector<Value> results =
        llvm::map_to_vector(outs, [&](Value out) { return values.lookup(out); });
    kernel::ReturnOp::create(builder, first.getLoc(), results);
    return group;
  }

  Block &block;
  Module &module;
  StringRef pass;
  std::vector<Group> groups;
  DenseMap<Operation *, size_t> numbers; // of the group that a launch is divided in
};

struct GroupLaunches : kiln::cuda::impl::CudaGroupLaunchesBase<GroupLaunches> {
  void runOnOperation() override {
    Module module(getOperation());
    for (auto function : getOperation().getOps<HostFunctionOpInterface>())
      Grouper(function.getFunctionBody().front(), module, getArgument()).run();
    for (auto &[func, part] : module.parts)
      if (SymbolTable::symbolKnownUseEmpty(func, getOperation()))
        module.symbols.erase(func);
  }
};

} // namespace
