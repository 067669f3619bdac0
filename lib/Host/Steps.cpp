// Finds the steps of a program that are code of the model's, and what each computes with.
#include "kiln/Host/Steps.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::host;
using namespace kiln::wrapper;

bool host::isFunctionCall(ExternCallOp call) {
  return call.getLibrary() == torch::cLibrary || call.getLibrary() == torch::runtimeLibrary;
}

Steps::Steps(ModuleOp module) {
  ProgramOp program = *module.getOps<ProgramOp>().begin();
  for (auto [size, name] : getNamedSizes(program.getSymbolsAttr()))
    names.insert(name);
  for (auto define : program.getBody().front().getOps<DefineOp>())
    if (names.contains(sym::Expr::symbol(define.getSymbol())))
      sizes.push_back(define);
  llvm::StringMap<size_t> kernels;     // steps by what they launch
  llvm::StringMap<unsigned> launchers; // steps of each kernel
  unsigned numCalls = 0;
  module.walk([&](Operation *op) {
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      // Launches that choose between other kernels are other steps.
      std::string name = launch.getKernel().str(), key = name;
      if (launch.getAlternatives())
        llvm::raw_string_ostream(key) << launch.getAlternativesAttr() << launch.getWhenAttr();
      if (unsigned others = launchers[name]; others && !kernels.contains(key))
        name += "." + std::to_string(others);
      auto [known, isNew] = kernels.try_emplace(key, steps.size());
      numbers[op] = known->second;
      if (!isNew)
        return;
      SymbolCollector used;
      for (FlatSymbolRefAttr name : launch.getKernels()) {
        auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(op, name);
        used.add(kernel);
        used.add(codegen::getGrid(kernel));
      }
      llvm::for_each(launch.getConditions(), [&](sym::Expr condition) { used.add(condition); });
      ++launchers[launch.getKernel()];
      add(op, std::move(name), used.symbols.getArrayRef());
    } else if (auto call = dyn_cast<ExternCallOp>(op); call && isFunctionCall(call)) {
      numbers[op] = steps.size();
      SymbolCollector used;
      used.add(op);
      for (Type type : call->getOperandTypes())
        used.walker.walk(type);
      add(op, (call.getCallee() + "." + Twine(numCalls++)).str(), used.symbols.getArrayRef());
    }
  });
}

void Steps::add(Operation *op, std::string name, ArrayRef<sym::Expr> symbols) {
  Step step{std::move(name), op, llvm::to_vector(symbols), {}};
  llvm::erase_if(step.symbols, [&](sym::Expr symbol) { return names.contains(symbol); });
  for (DefineOp define : sizes) {
    bool follows = true;
    define.getExpr()->getValue().walkLeaves(
        [&](sym::Expr leaf) { follows &= llvm::is_contained(step.symbols, leaf); });
    if (follows)
      step.sizes.push_back(define);
  }
  steps.push_back(std::move(step));
}

const Step *Steps::lookup(Operation *op) const {
  auto found = numbers.find(op);
  return found == numbers.end() ? nullptr : &steps[found->second];
}
