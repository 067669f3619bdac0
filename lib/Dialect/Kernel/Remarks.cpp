// Remarks of passes, with the node and the Python line that they are about.
#include "kiln/Dialect/Kernel/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kiln;

/// The name of the function around `op`.
static StringRef getFunctionName(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto name = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      return name.getValue();
  return {};
}

std::string kiln::describeSchedule(kernel::FuncOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "kernel @" << kernel.getSymName();
  if (auto schedule = kernel.getScheduleAttr())
    stream << ": " << schedule;
  if (auto launch = kernel.getLaunchAttr())
    stream << ", " << launch;
  return text;
}

void kiln::emitRemark(RemarkKind kind, Operation *op, StringRef pass, StringRef name,
                      function_ref<RemarkText()> describe) {
  if (!wantsRemarks(op))
    return;
  remark::RemarkOpts options =
      remark::RemarkOpts::name(name).category(pass).function(getFunctionName(op));
  Location loc = op->getLoc();
  remark::detail::InFlightRemark remark = kind == RemarkKind::Done ? remark::passed(loc, options)
                                          : kind == RemarkKind::NotDone
                                              ? remark::missed(loc, options)
                                              : remark::analysis(loc, options);
  if (!remark) // the pass is none of those that are listened to
    return;
  using Arg = remark::detail::Remark::Arg;
  RemarkText said = describe();
  remark << Arg(remarkWhereKey, sym::describe(loc)) << Arg(remarkTextKey, said.text);
  if (!said.reason.empty())
    remark << Arg(remarkReasonKey, said.reason);
  if (said.cycles)
    remark << Arg(remarkCyclesKey, llvm::formatv("{0:f0}", *said.cycles).str());
}
