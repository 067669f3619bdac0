// Calls in the place of instructions for tiles (AMX), for machines without: test/Targets/CPU/tiles has
// the functions.
#include "EmulateTiles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/InstrTypes.h"

using namespace llvm;

void kiln::codegen::emulateTiles(Module &module) {
  static constexpr StringLiteral names[] = {"ldtilecfg",   "tilerelease",  "tilezero",
                                            "tileloadd64", "tilestored64", "tdpbf16ps",
                                            "tdpbusd"};
  for (StringRef name : names) {
    Function *instruction = module.getFunction(("llvm.x86." + name).str());
    if (!instruction)
      continue;
    FunctionCallee function =
        module.getOrInsertFunction((tileFunctions + name).str(), instruction->getFunctionType());
    for (User *user : make_early_inc_range(instruction->users()))
      cast<CallBase>(user)->setCalledFunction(function);
    instruction->eraseFromParent();
  }
}
