// CPUs that kernels are planned for: #cpu.target.
#include "kiln/Targets/CPU/CPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

FailureOr<CPUInfo> cpu::getTarget(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  if (module)
    if (auto target = module->getAttrOfType<TargetAttr>(targetAttrName))
      return target.getInfo();
  llvm::Expected<CPUInfo> native = CPUInfo::get("native");
  if (!native)
    return op->emitError(llvm::toString(native.takeError()));
  return *native;
}

CPUInfo TargetAttr::getInfo() const {
  CPUInfo info = llvm::cantFail(CPUInfo::get(getCpu()), "verified");
  static_cast<CPUModel &>(info) = getModel();
  return info;
}

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef cpu,
                                 CPUModel model) {
  llvm::Expected<CPUInfo> info = CPUInfo::get(cpu);
  if (!info) // C1
    return emitError() << llvm::toString(info.takeError());
  if (std::string problem = info->check(model); !problem.empty()) // C2 to C4
    return emitError() << problem;
  return success();
}

/// `, name = number`: one that has not been there before.
static ParseResult parseNumber(AsmParser &parser, CPUModel &model, SmallVector<StringRef> &seen) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name) || parser.parseEqual())
    return failure();
  const CPUNumber *number = findCPUNumber(name);
  if (!number)
    return parser.emitError(loc) << "'" << name << "' is no number of a CPU";
  if (llvm::is_contained(seen, number->name))
    return parser.emitError(loc) << name << " is given twice";
  seen.push_back(number->name);
  return parser.parseInteger(model.*number->value);
}

Attribute TargetAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string cpu;
  if (parser.parseLess() || parser.parseKeyword("cpu") || parser.parseEqual() ||
      parser.parseString(&cpu))
    return {};
  llvm::Expected<CPUInfo> info = CPUInfo::get(cpu);
  if (!info) {
    parser.emitError(loc) << llvm::toString(info.takeError());
    return {};
  }
  CPUModel model = *info;
  SmallVector<StringRef> seen;
  while (succeeded(parser.parseOptionalComma()))
    if (parseNumber(parser, model, seen))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<TargetAttr>(loc, parser.getContext(), StringRef(cpu), model);
}

void TargetAttr::print(AsmPrinter &printer) const {
  printer << "<cpu = ";
  printer.printString(getCpu());
  for (const CPUNumber &number : getCPUNumbers())
    printer << ", " << number.name << " = " << getModel().*number.value;
  printer << '>';
}

LogicalResult CPUDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == targetAttrName &&
      !(isa<ModuleOp>(op) && isa<TargetAttr>(attribute.getValue())))
    return op->emitOpError() << targetAttrName << " is a #cpu.target of a module";
  if (attribute.getName() == layoutAttrName &&
      !(isa<kernel::ContractOp>(op) && isa<LayoutAttr>(attribute.getValue())))
    return op->emitOpError() << layoutAttrName << " is a #cpu.layout of a contract";
  if (attribute.getName() == foldedAttrName &&
      !(isa<kernel::MapOp>(op) && isa<UnitAttr>(attribute.getValue())))
    return op->emitOpError() << foldedAttrName << " is a unit attribute of a map";
  return success();
}
