// The beginning of every kernel for a GPU: its parameters, its threads, its shared memory.
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

const codegen::CPUInfo &cuda::getThreadTarget() {
  static const codegen::CPUInfo target = [] {
    codegen::CPUInfo info;
    info.name = "thread";
    info.vectorBytes = 1;
    return info;
  }();
  return target;
}

int64_t cuda::getThreads(kernel::FuncOp func) {
  kernel::LaunchAttr launch = func.getLaunchAttr();
  return launch ? launch.getThreads() : 0;
}

InFlightDiagnostic cuda::emitUnknownSchedule(kernel::FuncOp func) {
  return func.emitError("cannot be run on a GPU with the schedule ") << func.getScheduleAttr();
}

int64_t cuda::getCluster(LLVM::LLVMFuncOp function) {
  auto dims =
      function->getAttrOfType<DenseI32ArrayAttr>(NVVM::NVVMDialect::getClusterDimAttrName());
  return dims ? dims[0] : 1;
}

void cuda::setCluster(LLVM::LLVMFuncOp function, int64_t blocks) {
  auto dims = DenseI32ArrayAttr::get(function.getContext(), {static_cast<int32_t>(blocks), 1, 1});
  function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(), dims);
}

DeviceFrame::DeviceFrame(kernel::FuncOp func, ArrayRef<sym::Expr> symbols)
    : KernelFrame(func, getThreadTarget(), symbols), numThreads(getThreads(func)) {
  auto number = [&](Value register_) {
    return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), register_);
  };
  Type i32 = builder.getI32Type();
  thread = number(NVVM::ThreadIdXOp::create(builder, loc, i32));
  block = number(NVVM::BlockIdXOp::create(builder, loc, i32));
}

Value DeviceFrame::allocateShared(int64_t bytes, int64_t alignment) {
  int64_t offset = llvm::alignTo(sharedBytes, alignment);
  sharedBytes = offset + bytes;
  Type space = LLVM::LLVMPointerType::get(builder.getContext(),
                                          static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  Value base = LLVM::AddressOfOp::create(builder, loc, space, sharedMemoryName);
  base = LLVM::AddrSpaceCastOp::create(builder, loc, ptrType(), base);
  return gep(base, builder.getI8Type(), constant(offset));
}

Value DeviceFrame::addParameter(ArrayRef<NamedAttribute> own) {
  auto type = function.getFunctionType();
  SmallVector<Type> parameters(type.getParams());
  parameters.push_back(ptrType());
  SmallVector<DictionaryAttr> attributes;
  function.getAllArgAttrs(attributes);
  attributes.push_back(builder.getDictionaryAttr(own));
  function.removeArgAttrsAttr();
  function.setFunctionType(LLVM::LLVMFunctionType::get(type.getReturnType(), parameters));
  Value parameter = function.getBody().front().addArgument(ptrType(), loc);
  function.setAllArgAttrs(attributes);
  return parameter;
}

Value DeviceFrame::addWorkspace(int64_t bytes) {
  Value workspace = addWorkspace();
  workspaceBytes = bytes;
  return workspace;
}

Value DeviceFrame::addSharedWorkspace(int64_t bytes) {
  Value workspace = addWorkspace();
  sharedWorkspaceBytes = bytes;
  return workspace;
}

Value DeviceFrame::addWorkspace() {
  assert(maps.empty() && !workspaceBytes && !sharedWorkspaceBytes && "comes first, and once");
  return addParameter({builder.getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(),
                                            builder.getI64IntegerAttr(vectorBytes))});
}

Value DeviceFrame::addTensorMap(const TensorMap &map) {
  // CUtensorMap: what it holds is the driver's affair.
  auto contents = LLVM::LLVMArrayType::get(builder.getI64Type(), 16);
  Value parameter = addParameter(
      {builder.getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(64)),
       builder.getNamedAttr(LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(contents)),
       builder.getNamedAttr(NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr())});
  SmallVector<Attribute> numbers;
  auto add = [&](sym::Expr number) {
    numbers.push_back(sym::ExprAttr::get(builder.getContext(), assumptions.simplify(number)));
  };
  add(map.offset);
  llvm::for_each(map.sizes, add);
  llvm::for_each(map.strides.drop_front(), add);
  maps.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("box", builder.getDenseI64ArrayAttr(map.box)),
       builder.getNamedAttr("buffer", builder.getI64IntegerAttr(map.buffer)),
       builder.getNamedAttr("bytes",
                            builder.getI64IntegerAttr(map.type.getIntOrFloatBitWidth() / 8)),
       builder.getNamedAttr("numbers", builder.getArrayAttr(numbers))}));
  return parameter;
}

Value DeviceFrame::toShared(Value address) {
  Type space = LLVM::LLVMPointerType::get(builder.getContext(),
                                          static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  return LLVM::AddrSpaceCastOp::create(builder, loc, space, address);
}

Value DeviceFrame::readThread() { return readAgain(readThreadText); }

Value DeviceFrame::readBlock() { return readAgain(readBlockText); }

Value DeviceFrame::readAgain(StringRef text) {
  Value number = LLVM::InlineAsmOp::create(
                     builder, loc, TypeRange(builder.getI32Type()), ValueRange(), text, "=r",
                     /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                     LLVM::AsmDialectAttr(), ArrayAttr())
                     .getResult(0);
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), number);
}

void DeviceFrame::emitBarrier() { NVVM::Barrier0Op::create(builder, loc); }

void DeviceFrame::emitClusterBarrier(bool isRelaxed) {
  // Otherwise threads first wait for all that they have written.
  if (isRelaxed)
    NVVM::ClusterArriveRelaxedOp::create(builder, loc, UnitAttr());
  else
    NVVM::ClusterArriveOp::create(builder, loc, UnitAttr());
  NVVM::ClusterWaitOp::create(builder, loc, UnitAttr());
}

void DeviceFrame::emitIf(Value condition, function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

SmallVector<Value> DeviceFrame::emitWhere(Value condition, ValueRange otherwise,
                                          function_ref<SmallVector<Value>()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(builder, loc, otherwise.getTypes(), condition,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, otherwise);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, body());
  return SmallVector<Value>(branch.getResults());
}

Value DeviceFrame::both(Value x, Value y) {
  return !x ? y : !y ? x : arith::AndIOp::create(builder, loc, x, y).getResult();
}

Value DeviceFrame::emitLess(sym::Expr value, sym::Expr limit) {
  if (assumptions.isLess(value, limit))
    return {};
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, simplifyAndEmit(value),
                               simplifyAndEmit(limit));
}
