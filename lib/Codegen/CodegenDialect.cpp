// The codegen dialect and the verifiers of its schedules. Labels (C1) … are those of the
// constraints in CodegenAttributes.td.
#include "kiln/Codegen/CodegenDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

#include "kiln/Codegen/CodegenDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Codegen/CodegenAttributes.cpp.inc"

void CodegenDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Codegen/CodegenAttributes.cpp.inc"
      >();
}

LogicalResult codegen::verifyLanes(function_ref<InFlightDiagnostic()> emitError, int64_t lanes) {
  if (lanes >= 1 && lanes <= maxLanes && llvm::isPowerOf2_64(lanes))
    return success();
  return emitError() << lanes << " lanes, expected a power of two up to " << maxLanes;
}

static LogicalResult verifyRows(function_ref<InFlightDiagnostic()> emitError, int64_t rows) {
  if (rows >= 1)
    return success();
  return emitError() << "a task of " << rows << " rows";
}

static LogicalResult verifyRows(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                                int64_t columns, int64_t lanes) {
  if (failed(verifyRows(emitError, rows)) || // C1
      failed(verifyLanes(emitError, lanes))) // C2
    return failure();
  if (columns < 0 || columns % lanes != 0) // C3
    return emitError() << columns << " columns, expected a multiple of the " << lanes << " lanes";
  if (columns && rows != 1) // C4
    return emitError() << "a task of " << rows << " rows with " << columns
                       << " columns each, expected one row or all columns";
  return success();
}

LogicalResult ScanAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                               int64_t columns, int64_t lanes) {
  return verifyRows(emitError, rows, columns, lanes);
}

LogicalResult ScatterAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                                  int64_t columns, int64_t lanes) {
  return verifyRows(emitError, rows, columns, lanes);
}

LogicalResult SortAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                               int64_t lanes, int64_t digitsFrom, int64_t pickFrom,
                               int64_t wideFrom, int64_t digitBits, int64_t candidates) {
  if (failed(verifyRows(emitError, rows)) || // C1
      failed(verifyLanes(emitError, lanes))) // C2
    return failure();
  if (digitsFrom < 1) // C3
    return emitError() << "digits_from is " << digitsFrom << ", expected a positive length";
  if (wideFrom < 1) // C3
    return emitError() << "wide_from is " << wideFrom << ", expected a positive length";
  if (pickFrom < 0) // C4
    return emitError() << "pick_from is " << pickFrom << ", expected a length, or 0 for never";
  if (digitBits < 1 || digitBits > 8 || !llvm::isPowerOf2_64(digitBits)) // C5
    return emitError() << "digits of " << digitBits << " bits, expected 1, 2, 4 or 8";
  if (candidates < 1 || (pickFrom && candidates >= pickFrom)) // C6
    return emitError() << candidates << " candidates, expected some, and less than the " << pickFrom
                       << " elements to pick from";
  return success();
}

LogicalResult RepeatAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t lanes) {
  return verifyLanes(emitError, lanes); // C1
}

bool ScanAttr::appliesTo(Operation *root) const { return isa<kernel::ScanOp>(root); }
bool ScatterAttr::appliesTo(Operation *root) const { return isa<kernel::ScatterOp>(root); }
bool SortAttr::appliesTo(Operation *root) const { return isa<kernel::SortOp>(root); }
bool RepeatAttr::appliesTo(Operation *root) const { return isa<kernel::RepeatOp>(root); }
