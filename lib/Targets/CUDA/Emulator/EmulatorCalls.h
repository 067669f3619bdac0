//===- EmulatorCalls.h - The emulator, for what is to call it ---*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_EMULATOR_EMULATORCALLS_H
#define KILN_LIB_TARGETS_CUDA_EMULATOR_EMULATORCALLS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace kiln::cuda {

/// Elements of products' operands, as the emulator numbers them (`enum operand` of its machine.h).
enum class EmulatedOperand { BF16, F16, TF32, S8, E4M3, E5M2 };

/// The functions of the emulator (test/Targets/CUDA/emulator/emulator.h), declared as they are
/// used.
class Emulator {
public:
  Emulator(mlir::ModuleOp module, mlir::OpBuilder &builder) : builder(builder), module(module) {}

  mlir::Value call(mlir::Location loc, llvm::StringRef name, mlir::Type result,
                   mlir::ValueRange arguments) {
    auto function = module.lookupSymbol<mlir::LLVM::LLVMFuncOp>(name);
    if (!function) {
      mlir::OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(module.getBody());
      auto type = mlir::LLVM::LLVMFunctionType::get(
          result ? result : mlir::LLVM::LLVMVoidType::get(module.getContext()),
          llvm::SmallVector<mlir::Type>(arguments.getTypes()));
      function = mlir::LLVM::LLVMFuncOp::create(builder, loc, name, type);
    }
    auto made = mlir::LLVM::CallOp::create(builder, loc, function, arguments);
    return result ? made.getResult() : mlir::Value();
  }

  /// Memory of a thread of the function that `op` is in, for this many registers.
  mlir::Value allocate(mlir::Operation *op, int64_t count) {
    mlir::OpBuilder::InsertionGuard guard(builder);
    auto function = op->getParentOfType<mlir::LLVM::LLVMFuncOp>();
    builder.setInsertionPointToStart(&function.getBody().front());
    mlir::Value size =
        mlir::LLVM::ConstantOp::create(builder, op->getLoc(), builder.getI64IntegerAttr(count));
    return mlir::LLVM::AllocaOp::create(builder, op->getLoc(),
                                        mlir::LLVM::LLVMPointerType::get(op->getContext()),
                                        builder.getI32Type(), size);
  }

  mlir::OpBuilder &builder;

private:
  mlir::ModuleOp module;
};

/// Replaces an instruction that goes on while its thread does something else, or that tells of
/// such (EmulateAsync.cpp). False: `op` is none. `nextSite` counts instructions that threads must
/// execute together.
bool emulateAsync(Emulator &emulator, mlir::Operation *op, int32_t &nextSite);

/// The same for Blackwell's tensor memory (EmulateTensorMemory.cpp).
bool emulateTensorMemory(Emulator &emulator, mlir::Operation *op);

/// Replaces any other instruction that the host does not have, and has accesses of memory checked.
/// Failure, with an error: the emulator does not know it (EmulateInstruction.cpp).
mlir::LogicalResult emulateInstruction(Emulator &emulator, mlir::Operation *op, int32_t &nextSite);

/// Asks the emulator for the sums of products of warpgroups where something else than such a
/// product reads them: only then need they be there (EmulateSums.cpp).
mlir::LogicalResult emulateSums(mlir::LLVM::LLVMFuncOp function);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_EMULATOR_EMULATORCALLS_H
