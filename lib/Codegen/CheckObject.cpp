// Checks of every object that is made: generated code stands alone, so whatever else it needs is a
// mistake of code generation, found before anything is linked.
#include "CheckObject.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Object/ObjectFile.h"

using namespace llvm;

static bool isBF16(const Value *value) { return value->getType()->getScalarType()->isBFloatTy(); }
static bool isF16(const Value *value) { return value->getType()->getScalarType()->isHalfTy(); }
static bool isF32(const Value *value) { return value->getType()->getScalarType()->isFloatTy(); }

/// Between f16 and f32, or the integers that hold f16.
static bool isConversion(const Instruction &instruction) {
  if (isa<BitCastInst>(instruction))
    return true;
  return isa<FPExtInst>(instruction)
             ? isF32(&instruction)
             : isa<FPTruncInst>(instruction) && isF32(instruction.getOperand(0));
}

/// An instruction for pairs of bf16: their product, or what makes them of f32.
static bool isPairInstruction(const Value *value) {
  const auto *call = dyn_cast<CallInst>(value);
  const Function *function = call ? call->getCalledFunction() : nullptr;
  return function && (function->getName().starts_with("llvm.x86.avx512bf16.dpbf16ps.") ||
                      function->getName().starts_with("llvm.x86.avx512bf16.cvtne2ps2bf16."));
}

/// The instruction, what its operands are loaded or cast by, or the cast of its result.
static bool isOfPairs(const Instruction &instruction) {
  return isPairInstruction(&instruction) ||
         (isa<BitCastInst, LoadInst>(instruction) &&
          all_of(instruction.users(), isPairInstruction)) ||
         (isa<BitCastInst>(instruction) && isPairInstruction(instruction.getOperand(0)));
}

Error kiln::codegen::checkNumbers(const Module &module) {
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      auto any = [&](function_ref<bool(const Value *)> is) {
        return is(&instruction) || any_of(instruction.operands(), is);
      };
      if ((any(isBF16) && !isOfPairs(instruction)) || (any(isF16) && !isConversion(instruction)))
        return createStringError("internal error: %s computes on %s (%s)",
                                 function.getName().str().c_str(), any(isBF16) ? "bf16" : "f16",
                                 instruction.getOpcodeName());
    }
  return Error::success();
}

Error kiln::codegen::checkSymbols(const MemoryBuffer &object, const StringSet<> &known) {
  auto file = object::ObjectFile::createObjectFile(object.getMemBufferRef());
  if (!file)
    return file.takeError();
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    Expected<uint32_t> flags = symbol.getFlags();
    Expected<StringRef> name = symbol.getName();
    if (!flags || !name)
      return joinErrors(flags.takeError(), name.takeError());
    if (!(*flags & object::SymbolRef::SF_Undefined) || name->empty() || known.contains(*name) ||
        is_contained({"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"}, *name))
      continue;
    return createStringError("internal error: %s refers to '%s'",
                             object.getBufferIdentifier().str().c_str(), name->str().c_str());
  }
  return Error::success();
}
