// The function that a kernel becomes, while its body is being written:
//
//   void kernel(void *const *buffers, const int64_t *symbols, int64_t task, void *scratch,
//               int32_t *error)
//
// (`kiln_rt_kernel` in runtime/ir_interface.h). Memory is raw pointers and element offsets; every
// tensor is row-major and contiguous.
//
// Code that is emitted is described with *loop variables*: dims of the sym library that stand for
// i64 SSA values. The loop variables belong to the frame, not to a region, so that one loop nest
// can feed several regions (a contract's operands and epilogue), and so that a region's dims can be
// any expression of them: a loop over the collapsed dims (d0, d1) of a 12x64 tile binds d0 = v
// floordiv 64 and d1 = v mod 64, and the address 64*d0 + d1 is v again.
#ifndef KILN_CODEGEN_KERNELFRAME_H
#define KILN_CODEGEN_KERNELFRAME_H

#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <map>

namespace kiln::codegen {

class KernelFrame {
public:
  /// Creates the llvm.func named as `func`, outside any module, and leaves `builder` at its end.
  KernelFrame(kernel::FuncOp func, const CPUInfo &target);
  /// The same for a device, whose kernels have a parameter for each buffer, the values of `symbols`
  /// and `error`, in this order. `task` and `scratch` are null.
  KernelFrame(kernel::FuncOp func, const CPUInfo &target, llvm::ArrayRef<sym::Expr> symbols);
  /// The same for a function that kernels call. It has no buffers, `task`, `scratch` or `error`.
  KernelFrame(mlir::Location loc, llvm::StringRef name, llvm::ArrayRef<mlir::Type> parameters,
              const CPUInfo &target);

  kernel::FuncOp func; // null in a function that kernels call
  const CPUInfo &target;
  mlir::LLVM::LLVMFuncOp function;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Value task;    // i64
  mlir::Value scratch; // !llvm.ptr, 64-byte aligned
  mlir::Value error;   // !llvm.ptr to i32
  /// Facts about symbols and loop variables.
  sym::Assumptions assumptions;

  /// The base of an operand (a block argument of `func`) or of result number `i`.
  mlir::Value buffer(mlir::Value tensor) const { return buffers.lookup(tensor); }
  mlir::Value resultBuffer(unsigned i) const { return results[i]; }
  /// Lets reads of `tensor` go to `base`, for example a packed copy in scratch memory.
  void setBuffer(mlir::Value tensor, mlir::Value base) { buffers[tensor] = base; }

  /// A loop variable whose value is `value` (i64), 0 <= value < extent.
  sym::Expr addVariable(mlir::Value value, sym::Expr extent);
  /// A loop variable with an arbitrary range.
  sym::Expr addVariable(mlir::Value value, sym::Range range);
  /// A loop variable that is a multiple of `step`, 0 <= value < extent: the expression is
  /// step * (new variable), so that (variable + lane) floordiv (4*step) simplifies.
  sym::Expr addSteppedVariable(mlir::Value value, int64_t step, sym::Expr extent);
  /// Code for `expr`, 0 <= expr < extent, as a variable of its own, unless it is as simple as one.
  sym::Expr named(sym::Expr expr, sym::Expr extent);

  /// Code for an expression over symbols and loop variables (i64), at the insertion point. Parts
  /// that depend on outer loops come first in each sum, so that LLVM can hoist them.
  mlir::Value emit(sym::Expr expr);
  mlir::Value simplifyAndEmit(sym::Expr expr) { return emit(assumptions.simplify(expr)); }
  /// True (i1) if a size is 0; null if it is known not to be.
  mlir::Value isZero(sym::Expr size);
  /// The value of a symbol or loop variable.
  mlir::Value leafValue(sym::Expr leaf);

  /// x / 0 and INT_MIN / -1 trap on x86: such a divisor, or lane of one, becomes 1. It may also be
  /// that of a lane past the end.
  mlir::Value guardDivisor(mlir::Value dividend, mlir::Value divisor, bool isSigned = true);

  // Shorthands.
  mlir::Type ptrType() { return mlir::LLVM::LLVMPointerType::get(builder.getContext()); }
  mlir::Value constant(int64_t value); // i64
  /// Memory that holds `constant`, a vector or splat attribute's type: made once, on the stack.
  mlir::Value constantMemory(mlir::TypedAttr constant);
  /// base + offset elements of `elementType` (as stored).
  mlir::Value gep(mlir::Value base, mlir::Type elementType, mlir::Value offset);

  /// `scf.for` with i64 induction; `body` gets the induction variable and the iteration values and
  /// returns the next ones. A loop known to run exactly once is not a loop.
  llvm::SmallVector<mlir::Value>
  emitLoop(mlir::Value begin, mlir::Value end, int64_t step, mlir::ValueRange init,
           llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);

  /// Goes from `first` to `total` in strides of `stride`, `atOnce` of them in one iteration as long
  /// as there are so many: `body` gets the numbers of these steps.
  llvm::SmallVector<mlir::Value>
  emitStridedLoop(mlir::Value first, sym::Expr total, int64_t stride, int64_t atOnce,
                  mlir::ValueRange init,
                  llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<sym::Expr>,
                                                                    mlir::ValueRange)>
                      body);

  /// The kernel reports `code` if `bad`, an i1 or a vector of them, is ever true. What has been bad
  /// so far stays in registers, of `width` bits for each lane: `emitFailures` looks at it once.
  void reportIf(mlir::Value bad, int32_t code, unsigned width);
  /// To be called at the function's end.
  void emitFailures();

  /// The parts of a function that kernels call.
  struct Callee {
    llvm::SmallVector<mlir::Type> parameters;
    std::function<void(KernelFrame &)> emitBody;
  };
  /// Calls the function `name`: all kernels of a module share one. `emitBody` writes it, into a
  /// frame of its own, and must know no more of this kernel than the name says.
  void call(llvm::StringRef name, mlir::ValueRange arguments,
            std::function<void(KernelFrame &)> emitBody);
  /// All that `call` has asked for.
  std::map<std::string, Callee> callees;

private:
  /// The quotient, rounded down. It does not trap.
  mlir::Value emitQuotient(sym::Expr numerator, sym::Expr denominator);
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::SmallVector<mlir::Value> results;
  llvm::DenseMap<sym::Expr, mlir::Value> leaves;
  /// Variables that are given as a multiple of themselves: step * variable is the value.
  llvm::DenseMap<sym::Expr, std::pair<int64_t, mlir::Value>> stepped;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  /// The failures so far: on the stack, from where LLVM takes it into registers.
  struct Failure {
    int32_t code;
    mlir::Type type;
    mlir::Value slot;
  };
  llvm::SmallVector<Failure> failures;
  mlir::Value symbols;
  llvm::StringMap<unsigned> symbolNumbers;
  llvm::DenseMap<sym::Expr, sym::Expr> namedSizes; // that the host has computed
  unsigned nextVariable;
};

/// The type in which memory holds elements of this type: i8 for i1, else the signless type.
mlir::Type getStorageType(mlir::Type elementType);

/// `type`, a vector or a single value, with other elements.
mlir::Type withElements(mlir::Type type, mlir::Type element);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_KERNELFRAME_H
