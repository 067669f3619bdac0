//===- HostProgram.h - From wrapper.program to LLVM -------------*- C++ -*-===//
//
// The functions and tables of `kiln_program` (runtime/ir_interface.h).
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_HOST_HOSTPROGRAM_H
#define KILN_LIB_HOST_HOSTPROGRAM_H

#include "../../runtime/ir_interface.h"
#include "kiln/Codegen/ExprEmitter.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Kernel/ResultNodes.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Host/Debug.h"
#include "kiln/Host/LowerProgram.h"
#include "kiln/Host/ModelInfo.h"
#include "kiln/Host/Steps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include <string>
#include <vector>

namespace kiln::host {

class HostProgram {
public:
  /// Code goes to the end of `module`, where `program` is.
  HostProgram(wrapper::ProgramOp program, const HostTablesOptions &options);

  /// Emits everything; a failure has been reported.
  mlir::LogicalResult emit();

private:
  mlir::LogicalResult findKernels();

  // Functions of steps (HostParts.cpp).
  void emitFunction(wrapper::HostFunctionOpInterface source);
  void beginPart(wrapper::HostFunctionOpInterface source, llvm::StringRef name,
                 mlir::LLVM::LLVMFunctionType type, llvm::ArrayRef<mlir::Operation *> steps);
  mlir::Value getAddress(mlir::Value buffer);

  void emitBind();
  /// kiln_sizes: sizes that follow from the inputs', the arena's bytes among them.
  void emitSizes();
  /// A function of the symbols and the number of an expression.
  void emitEval(llvm::StringRef name, llvm::ArrayRef<sym::Expr> expressions);
  void emitTables();
  // Rows of its tables (HostTables.cpp).
  template <typename Struct> using Rows = llvm::SmallVector<codegen::Row<Struct>>;
  codegen::Row<kiln_rt_tensor> makeTensorRow(llvm::StringRef name, mlir::Type type, int64_t flags,
                                             llvm::ArrayRef<sym::Expr> strides);
  Rows<kiln_rt_tensor> makeInputRows();
  Rows<kiln_rt_tensor> makeOutputRows();
  /// `rows` gets the number of each constant's row.
  Rows<kiln_rt_constant> makeConstantRows(llvm::DenseMap<mlir::Value, int64_t> &rows);
  Rows<kiln_rt_symbol> makeSymbolRows();
  codegen::Row<kiln_rt_constant> makeConstantRow(llvm::StringRef name, wrapper::BufferType type,
                                                 wrapper::ConstantOp constant, int64_t cell);
  /// Names of the messages of failures.
  llvm::SmallVector<std::string> emitFailures();
  /// The symbol of the weights in this file.
  std::string declareWeights();
  /// The name of the kiln_rt_externs of all calls, or "" if there are none.
  std::string emitExterns();

  /// The folds, whose constants are `rows` of the table of constants.
  std::string emitFolds(const llvm::DenseMap<mlir::Value, int64_t> &rows);
  /// With the number of the entry.
  llvm::SmallVector<std::pair<int64_t, wrapper::FoldOp>> getAllFolds();

  // The steps alone (HostSteps.cpp).
  void emitNoMain();
  void emitStepFunctions();
  std::string emitStepFunction(const Step &step, unsigned number);
  Rows<kiln_rt_step> makeStepRows();
  void emitStepTable(const Rows<kiln_rt_step> &rows);

  // Profiles (HostProfile.cpp).
  void numberSteps();
  /// The number of a launch or call in the profile.
  mlir::Value getStepNumber(mlir::Operation *step);
  /// Emits a call between the functions that measure it.
  void emitProfiledCall(mlir::Operation *step, mlir::Value buffers,
                        llvm::function_ref<void()> emit);
  /// The name of the kiln_rt_profile, or "" if there are no steps.
  std::string emitProfile();

  // Pieces of functions.
  void emitStep(mlir::Operation &op);
  /// `buffers` is the address of the buffers' addresses.
  mlir::Value getKernelAddress(kernel::FuncOp kernel);
  void emitLaunch(wrapper::LaunchOp launch, mlir::Value buffers);
  /// A table of symbols for a kernel that takes others than its own; null if it does not.
  mlir::Value emitSymbols(wrapper::LaunchOp launch, kernel::FuncOp kernel);
  /// The symbols that a kernel reads, and those of sizes that follow from them.
  llvm::ArrayRef<std::pair<sym::Expr, sym::Expr>> getSymbolsOf(kernel::FuncOp kernel);
  void emitExternCall(wrapper::ExternCallOp call);
  /// The numbers of a call in memory.
  mlir::Value emitNumbers(wrapper::ExternCallOp call);
  /// The address of numbers.
  mlir::Value placeNumbers(llvm::ArrayRef<sym::Expr> numbers);
  void emitCustomCall(wrapper::ExternCallOp call, mlir::Value buffers, mlir::Value numbers);
  // Launches of Triton kernels (HostTriton.cpp).
  void emitTritonLaunch(wrapper::ExternCallOp call, mlir::Value buffers);
  /// `count`: rows of it.
  std::string describeTritonConfigs(wrapper::ExternCallOp call, llvm::StringRef suffix,
                                    size_t &count);
  codegen::Row<kiln_extern_call> describeCall(wrapper::ExternCallOp call, llvm::StringRef suffix,
                                              int64_t library);
  void emitCopy(wrapper::CopyOp copy);
  void emitAssert(wrapper::AssertOp assertion);
  void emitDefine(wrapper::DefineOp define);
  void emitCheckData(wrapper::CheckOp check);
  void emitReserve(wrapper::ReserveOp reserve);
  /// The address of an output of the program.
  mlir::Value bindOutput(unsigned index);
  /// Ends the run with `message` unless `holds`; the values of `symbols` follow it.
  void failUnless(mlir::Value holds, llvm::StringRef message, llvm::ArrayRef<sym::Expr> symbols);
  // Debug printing (HostDebug.cpp).
  void nameBuffers(wrapper::HostFunctionOpInterface source);
  codegen::Row<kiln_rt_debug_tensor> describeDebugTensor(mlir::Value buffer,
                                                         std::optional<kernel::ResultNode> node);
  /// The address of a kiln_rt_debug_step.
  mlir::Value describeDebugStep(llvm::StringRef kernel, mlir::ValueRange operands,
                                mlir::ValueRange results, mlir::Operation *step);
  /// The node of the exported program whose value result `result` of a step is.
  std::optional<kernel::ResultNode> getNode(mlir::Operation *step, unsigned result);
  void emitDebug(mlir::Value step, int32_t time, mlir::Value buffers);
  void emitDebugInputs(mlir::Value inputs);
  /// Emits a step, which is given `buffers`, between what shows its tensors if that is wanted.
  void emitShown(mlir::Operation *step, mlir::ValueRange operands, mlir::ValueRange results,
                 mlir::Value buffers, llvm::function_ref<void()> emit);
  // Steps that run nested graphs (HostGraphs.cpp).
  void emitGraph(mlir::FlatSymbolRefAttr graph,
                 std::initializer_list<llvm::ArrayRef<mlir::Value>> buffers,
                 llvm::ArrayRef<mlir::Value> written, mlir::Value workspace);
  void loadGiven(mlir::ValueRange given);
  void emitIf(wrapper::IfOp op);
  void emitWhile(wrapper::WhileOp loop);
  void emitFor(wrapper::ForOp loop);
  void copyCarried(mlir::ValueRange outs, llvm::ArrayRef<mlir::Value> current);
  llvm::SmallVector<mlir::Value> lookUp(mlir::ValueRange buffers);
  /// Returns `status` from the function if it is not 0.
  void emitCheck(mlir::Value status);
  mlir::Value offsetBytes(mlir::Value base, sym::Expr bytes);
  mlir::Value offsetBytes(mlir::Value base, mlir::Value bytes);
  /// The address of the buffers' addresses.
  mlir::Value storeAddresses(mlir::ValueRange buffers);
  mlir::Value storeNumbers(mlir::Value memory, unsigned at, llvm::ArrayRef<sym::Expr> numbers);

  /// Finds the steps that kiln_sizes does.
  void findEntrySizes();
  void storeSymbol(mlir::Value symbols, llvm::StringRef name, mlir::Value value);
  /// Functions that run before anything is computed lie together (see `codegen::Globals::Place`).
  void placeAtEntry(mlir::LLVM::LLVMFuncOp function);

  /// Starts a function; the builder is at its entry afterwards.
  mlir::LLVM::LLVMFuncOp beginFunction(llvm::StringRef name, mlir::LLVM::LLVMFunctionType type);
  /// Makes `errorBlock` for the function, which `endErrors` ends: it returns 0, or the block's
  /// argument.
  void beginErrors();
  void endErrors();
  mlir::LLVM::LLVMFuncOp declare(llvm::StringRef name, mlir::LLVM::LLVMFunctionType type);
  mlir::LLVM::LLVMFuncOp declare(const codegen::RuntimeFunction &function);
  /// Calls a function of the runtime.
  mlir::LLVM::CallOp call(const codegen::RuntimeFunction &function, mlir::ValueRange operands);
  mlir::LLVM::LLVMFuncOp declareKernel(kernel::FuncOp kernel);
  /// Kernels run on a device, in whose memory buffers are.
  bool isDevice() const { return options.device; }
  /// The runtime's function for the memory that buffers are in.
  codegen::RuntimeFunction choose(const codegen::RuntimeFunction &onHost,
                                  const codegen::RuntimeFunction &onDevice) const {
    return isDevice() ? onDevice : onHost;
  }
  /// Data that another object of the link has; returns the name.
  std::string declareData(llvm::StringRef name);
  /// The number at `address`, among the program's buffers.
  mlir::Value loadData(mlir::Type type, mlir::Value address);
  /// memcpy among them.
  void copyBytes(mlir::Value to, mlir::Value from, mlir::Value bytes);
  mlir::Value load(mlir::Type type, mlir::Value base, int64_t index);
  /// The pointer at `offset` bytes of kiln_rt_run.
  mlir::Value loadRunField(size_t offset);
  void storeRunField(size_t offset, mlir::Value value);
  mlir::Value loadSymbol(mlir::Value symbols, llvm::StringRef name);
  std::optional<unsigned> getSymbolNumber(llvm::StringRef name) const;
  mlir::Value number(sym::Expr expr);
  /// The same, or -1 if it cannot be computed in 64 bits.
  mlir::Value checkedNumber(sym::Expr expr);
  mlir::Value text(llvm::StringRef text);
  mlir::Value i32(int32_t value);

  llvm::ArrayRef<mlir::NamedAttribute> getSymbols() const;
  /// Whether the program defines a symbol of the output's size or strides, which the runtime can
  /// then check only when it comes to it.
  bool isLate(unsigned output);
  /// A size for the tables: itself, or the number of an expression.
  int64_t encode(sym::Expr size);
  std::string sizes(llvm::ArrayRef<sym::Expr> sizes, codegen::Globals::Place place);

  wrapper::ProgramOp program;
  const HostTablesOptions &options;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Type ptr, i64, i32Type;
  codegen::Globals *globals = nullptr;
  // The function that is being emitted.
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value symbolValues; // const int64_t *
  llvm::StringMap<mlir::Value> loadedSymbols;
  llvm::DenseMap<sym::Expr, sym::Expr> namedSizes;
  mlir::Block *errorBlock = nullptr;
  // Arguments of a function of steps: the program's or a nested graph's.
  mlir::Value run, segments, arena, weights, state, inputs, outputs, arguments;
  mlir::Value given; // where graphs put the addresses of what they give
  llvm::function_ref<mlir::Value(unsigned index)> getInput, getOutput;
  llvm::SetVector<sym::Expr> definedSymbols;  // by the program or a graph, not by the inputs
  llvm::SmallDenseSet<unsigned> boundOutputs; // late ones that the runtime has been told of
  llvm::SetVector<mlir::Operation *> entrySizes;
  int64_t numSegments = 0; // that the functions reserve
  int64_t numFolds = 0;    // in the table
  llvm::DenseMap<mlir::Value, mlir::Value> addresses;
  llvm::StringMap<mlir::LLVM::LLVMFuncOp> graphs;
  // Found before declarations with the same names are made.
  llvm::DenseMap<mlir::StringAttr, kernel::FuncOp> kernels;
  int64_t scratchBytes = 0;
  llvm::SmallVector<wrapper::ExternCallOp> externCalls; // in the order of their numbers
  unsigned numCustomCalls = 0, numTritonLaunches = 0;
  unsigned numDebugSteps = 0;
  llvm::DenseMap<mlir::Value, std::string> bufferNames; // for debug printing
  std::optional<Steps> steps;                           // of a library of steps
  mlir::Value otherSymbols;                             // memory for the symbols of a launch
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<std::pair<sym::Expr, sym::Expr>>> symbolsOf;
  llvm::StringMap<unsigned> symbolNumbers;
  llvm::SmallVector<mlir::Operation *> profiledSteps;
  llvm::DenseMap<mlir::Operation *, int64_t> stepNumbers;
  llvm::SmallVector<std::string> stepFunctions;
  std::vector<sym::Expr> expressions;
  llvm::DenseMap<sym::Expr, int64_t> expressionNumbers;
};

} // namespace kiln::host

#endif // KILN_LIB_HOST_HOSTPROGRAM_H
