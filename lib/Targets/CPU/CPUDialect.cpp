// The cpu dialect and the verifiers of its schedules. Labels (C1) … are those of the constraints in
// CPUAttributes.td.
#include "kiln/Targets/CPU/CPUDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace kiln::cpu {
using kernel::parseSizes;
using kernel::printSizes;
} // namespace kiln::cpu

#include "kiln/Targets/CPU/CPUDialect.cpp.inc"
#include "kiln/Targets/CPU/CPUEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Targets/CPU/CPUAttributes.cpp.inc"

void CPUDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Targets/CPU/CPUAttributes.cpp.inc"
      >();
}

bool MapAttr::appliesTo(Operation *root) const { return isa<kernel::MapOp>(root); }
bool ContractAttr::appliesTo(Operation *root) const { return isa<kernel::ContractOp>(root); }
bool AttentionAttr::appliesTo(Operation *root) const { return isa<kernel::AttentionOp>(root); }
bool AttentionByQueryAttr::appliesTo(Operation *root) const {
  return isa<kernel::AttentionOp>(root);
}

bool WinogradAttr::appliesTo(Operation *root) const { return isa<kernel::WinogradOp>(root); }

/// The most vectors of a tile: far more than there are registers, and no more code than compiles.
static constexpr int64_t maxTileVectors = 512;

static LogicalResult verifySizes(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<std::pair<StringRef, int64_t>> sizes) {
  for (auto [name, size] : sizes)
    if (size < 1)
      return emitError() << name << " is " << size << ", expected a positive number";
  return success();
}

static LogicalResult verifyTile(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                                int64_t vectors) {
  if (rows <= maxTileVectors && vectors <= maxTileVectors && rows * vectors <= maxTileVectors)
    return success();
  return emitError() << "a tile of " << rows << " times " << vectors << " vectors, expected up to "
                     << maxTileVectors;
}

LogicalResult MapAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              ArrayRef<int64_t> vector, int64_t lanes, int64_t rows,
                              int64_t columns, int64_t steps, ArrayRef<int64_t> reduceLanes,
                              ArrayRef<int64_t> reduceCopies, ArrayRef<int64_t> turn, bool keep,
                              bool streams) {
  for (ArrayRef<int64_t> dims : {vector, turn})
    for (auto [i, dim] : llvm::enumerate(dims)) // C1
      if (dim < 0 || dim != dims.front() + static_cast<int64_t>(i))
        return emitError() << "the loop in vectors has dims [" << dims
                           << "], expected adjacent ones in order";
  if (failed(verifySizes(emitError, {{"rows", rows}})) || // C2
      failed(codegen::verifyLanes(emitError, lanes)))     // C3
    return failure();
  if (columns < 0 || columns % lanes != 0) // C4
    return emitError() << columns << " columns, expected a multiple of the " << lanes << " lanes";
  if (failed(verifySizes(emitError, {{"steps", steps}}))) // C5
    return failure();
  if (vector.empty() && (lanes != 1 || columns != 0 || steps != 1)) // C6
    return emitError() << "lanes, columns and steps are those of a loop in vectors, of which there "
                          "is none";
  if (reduceLanes.size() != reduceCopies.size()) // C7
    return emitError() << "lanes of " << reduceLanes.size() << " reductions and copies of "
                       << reduceCopies.size();
  constexpr int64_t maxCopies = 16;
  for (int64_t copies : reduceCopies)
    if (copies < 1 || copies > maxCopies || !llvm::isPowerOf2_64(copies))
      return emitError() << copies << " copies, expected a power of two up to " << maxCopies;
  for (int64_t lanes : reduceLanes)
    if (failed(codegen::verifyLanes(emitError, lanes)))
      return failure();
  constexpr int64_t mostTurned = 64;
  if (!turn.empty() &&
      (lanes < 2 || lanes > mostTurned || steps != 1 || !reduceLanes.empty())) // C8
    return emitError() << "what is turned has 2 to " << mostTurned
                       << " lanes, one step and no reduction";
  if (keep && (vector.empty() || columns != 0 || reduceLanes.empty())) // C9
    return emitError() << "rows are kept of a loop in vectors whose reductions are of all columns";
  if (streams && (columns == 0 || rows != 1 || steps != 1 || !turn.empty() || keep ||
                  !reduceLanes.empty())) // C10
    return emitError() << "what is streamed is a block of columns of one row, without a reduction "
                          "of all columns";
  return success();
}

LogicalResult ContractAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t tileRows,
                                   int64_t vectors, int64_t lanes, int64_t blockRows,
                                   int64_t blockColumns, int64_t blockSums, LeftOperand lhs,
                                   EpiloguePlace epilogue, bool, PrefetchCache, int64_t tileAxes,
                                   int64_t blockAxes, int64_t lhsPadding, Turn turn,
                                   int64_t tileSums, int64_t unroll, RightOperand rhs,
                                   PrefetchCache, ProductUnit unit, int64_t parts,
                                   int64_t vectorRows, int64_t widenRows) {
  constexpr int64_t maxPadding = 4096, maxUnroll = 64;
  if (failed(verifySizes(emitError, {{"tile_rows", tileRows}, // C1
                                     {"vectors", vectors},
                                     {"block_rows", blockRows},
                                     {"block_columns", blockColumns},
                                     {"block_sums", blockSums},
                                     {"unroll", unroll},
                                     {"parts", parts}})) || // C11
      failed(codegen::verifyLanes(emitError, lanes)) ||     // C2
      failed(verifyTile(emitError, tileRows, vectors)))     // C3
    return failure();
  if (tileAxes < 1 || tileAxes > 2) // C4
    return emitError() << "a tile on " << tileAxes << " axes, expected 1 or 2";
  if (blockAxes != tileAxes && blockAxes != tileAxes + 1) // C4
    return emitError() << "a block on " << blockAxes << " axes, expected the " << tileAxes
                       << " of a tile or one more";
  if (lhsPadding < 0 || lhsPadding > (lhs == LeftOperand::Matrix ? maxPadding : 0)) // C5
    return emitError() << "lhs_padding is " << lhsPadding << ", expected up to " << maxPadding
                       << " for lhs = matrix, otherwise 0";
  if (turn != Turn::None && lanes == 1) // C6
    return emitError() << "turn = " << stringifyTurn(turn)
                       << " with one lane, which leaves nothing to turn";
  if (turn == Turn::Sums && vectors != 1) // C6
    return emitError() << "turn = sums with " << vectors << " vectors of columns, expected one";
  if (unroll > maxUnroll) // C7
    return emitError() << "unroll is " << unroll << ", expected up to " << maxUnroll;
  if (turn == Turn::Sums ? tileSums < tileRows || tileSums > maxTileVectors : tileSums != 0) // C8
    return emitError() << "tile_sums is " << tileSums << ", expected at least the " << tileRows
                       << " rows of a tile and up to " << maxTileVectors
                       << " for turn = sums, otherwise 0";
  if (rhs == RightOperand::Direct && turn != Turn::None) // C9
    return emitError() << "turn = " << stringifyTurn(turn)
                       << " with rhs = direct, which is read as it is";
  if (vectorRows < 1 || !llvm::isPowerOf2_64(vectorRows) || tileRows % vectorRows != 0) // C12
    return emitError() << "vector_rows is " << vectorRows
                       << ", expected a power of two that divides the " << tileRows
                       << " rows of a tile";
  if (vectorRows > 1 && (vectors != 1 || epilogue != EpiloguePlace::Registers ||
                         turn == Turn::Sums || unit == ProductUnit::Tiles)) // C12
    return emitError()
           << "vector_rows is " << vectorRows
           << ", expected 1 but for one vector of columns whose epilogue is on registers";
  if (failed(codegen::verifyLanes(emitError, lanes * vectorRows))) // C12
    return failure();
  if (widenRows < 0 ||
      (widenRows != 0 &&
       (unit != ProductUnit::Vectors || rhs != RightOperand::Panels || turn != Turn::None))) // C13
    return emitError() << "widen_rows is " << widenRows
                       << ", expected 0 or, for vectors of panels, a number of rows";
  if (unit != ProductUnit::Tiles)
    return success();
  if (tileRows > maxProductRows) // C10
    return emitError() << "unit = tiles with tile_rows = " << tileRows << ", expected up to "
                       << maxProductRows;
  if (rhs != RightOperand::Panels || vectors * lanes % tileColumns != 0) // C10
    return emitError() << "unit = tiles reads panels of a multiple of " << tileColumns
                       << " columns";
  if (epilogue != EpiloguePlace::Memory || turn != Turn::None) // C10
    return emitError() << "unit = tiles has the epilogue in memory, and turns nothing";
  return success();
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, OperandPlace,
                                 OperandOrder, OperandPlace rhs, int64_t panel) {
  constexpr int64_t maxPanel = 4096;
  if (panel < 0 || panel > maxPanel || (panel && rhs == OperandPlace::Kept)) // C1
    return emitError() << "panels of " << panel << " columns, expected "
                       << (rhs == OperandPlace::Kept ? "none of an operand that is kept"
                                                     : "up to 4096");
  return success();
}

LogicalResult AttentionAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t tileKeys,
                                    int64_t vectors, int64_t lanes, int64_t blockPanels,
                                    int64_t blockKeys, int64_t tileValues) {
  if (failed(verifySizes(emitError, {{"tile_keys", tileKeys}, // C1
                                     {"vectors", vectors},
                                     {"block_panels", blockPanels},
                                     {"block_keys", blockKeys},
                                     {"tile_values", tileValues}})) ||
      failed(codegen::verifyLanes(emitError, lanes)) ||   // C2
      failed(verifyTile(emitError, tileKeys, vectors)) || // C3
      failed(verifyTile(emitError, tileValues, vectors)))
    return failure();
  if (blockKeys % tileKeys != 0) // C4
    return emitError() << "blocks of " << blockKeys << " keys, expected a multiple of the "
                       << tileKeys << " of a tile";
  return success();
}

LogicalResult AttentionByQueryAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                           int64_t lanes, int64_t blockKeys, int64_t sums,
                                           int64_t keys) {
  constexpr int64_t most = 64;
  if (failed(verifySizes(emitError, {{"block_keys", blockKeys}, // C1
                                     {"sums", sums},
                                     {"keys", keys}})) ||
      failed(codegen::verifyLanes(emitError, lanes))) // C2
    return failure();
  if (lanes == 1) // C2
    return emitError() << "features lie along the lanes, of which there is one";
  if (blockKeys % lanes != 0) // C3
    return emitError() << "blocks of " << blockKeys << " keys, expected a multiple of the " << lanes
                       << " lanes";
  if (sums > most || keys > most) // C4
    return emitError() << sums << " sums and " << keys << " keys at a time, expected up to "
                       << most;
  return success();
}

LogicalResult WinogradAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t tileRows,
                                   int64_t tiles, int64_t lanes) {
  if (failed(verifySizes(emitError, {{"tile_rows", tileRows}, {"tiles", tiles}})) || // C1
      failed(codegen::verifyLanes(emitError, lanes)) ||                              // C2
      failed(verifyTile(emitError, tileRows, /*vectors=*/2)))                        // C3
    return failure();
  if (lanes == 1) // C2
    return emitError() << "channels lie along the lanes, of which there is one";
  if (tiles % tileRows != 0) // C3
    return emitError() << tiles << " tiles, expected a multiple of the " << tileRows
                       << " tile_rows";
  return success();
}
