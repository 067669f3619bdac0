// Schedules of the ordered ops: a task is the same on every target, whatever runs it.
#ifndef KILN_CODEGEN_CODEGENATTRIBUTES_TD
#define KILN_CODEGEN_CODEGENATTRIBUTES_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

include "kiln/Dialect/Kernel/KernelInterfaces.td"

def Codegen_Dialect : Dialect {
  let name = "codegen";
  let cppNamespace = "::kiln::codegen";
  let summary = "Schedules of ops that every target runs in the same tasks";
  let description = [{
    Attributes only. Scans, scatters, sorts and repeats have an order, so what is left to decide is which
    rows and columns a task has. On a CPU a thread runs many elements of a task in vectors; on a
    GPU a thread runs a task of one row and one column.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Codegen_ScheduleAttr<string name, string op>
    : AttrDef<Codegen_Dialect, name, [DeclareAttrInterfaceMethods<Kernel_ScheduleAttrInterface>]> {
  let mnemonic = op;
  let summary = "how a `kernel." # op # "` is run";
  let genVerifyDecl = 1;
}

class Codegen_RowsAttr<string name, string op> : Codegen_ScheduleAttr<name, op> {
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$rows,
                        DefaultValuedParameter<"int64_t", "0">:$columns,
                        DefaultValuedParameter<"int64_t", "1">:$lanes);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Codegen_ScanAttr : Codegen_RowsAttr<"Scan", "scan"> {
  let description = [{
    `#codegen.scan<rows = 4, lanes = 16>`

    A row is one position of all dims but the one that is scanned and the last one, which, if it is
    another, has the columns.

    - `rows`: of a task.
    - `columns`: of a task, which then has one row; 0: all of them.
    - `lanes`: columns in a vector.

    Constraints. (C1) There is a row. (C2) `lanes` is a power of two up to 256. (C3) `columns` is a multiple
    of `lanes`. (C4) Only a task of one row has a part of the columns.
  }];
}

def Codegen_ScatterAttr : Codegen_RowsAttr<"Scatter", "scatter"> {
  let description = [{
    `#codegen.scatter<rows = 4, lanes = 16>`

    A row is one position of the batch dims but the last one, which has the columns if no place depends on
    it. Parameters and constraints are those of `#codegen.scan`.
  }];
}

def Codegen_SortAttr : Codegen_ScheduleAttr<"Sort", "sort"> {
  let description = [{
    `#codegen.sort<rows = 2, lanes = 8, digits_from = 64, pick_from = 160>`

    - `rows`: of a task.
    - `lanes`: keys that are computed in a vector.
    - `digits_from`: rows of as many elements are sorted digit by digit, shorter ones by merging.
    - `wide_from`: the same for rows whose keys do not fit into 64 bits together with their places, which
      takes more passes over more memory.
    - `digit_bits`: of a digit.
    - `pick_from`: of rows of as many elements, the first ones alone are picked out; 0: never.
    - `candidates`: what may be among the first ones is sorted when there are as many.

    Constraints. (C1) There is a row. (C2) `lanes` is a power of two up to 256. (C3) `digits_from` and
    `wide_from` are positive. (C4) `pick_from` is not negative. (C5) `digit_bits` is 1, 2, 4 or 8. (C6) There
    are candidates, and less of them than elements to pick from.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$rows,
                        DefaultValuedParameter<"int64_t", "1">:$lanes, "int64_t":$digits_from,
                        DefaultValuedParameter<"int64_t", "0">:$pick_from,
                        DefaultValuedParameter<"int64_t", "256">:$wide_from,
                        DefaultValuedParameter<"int64_t", "8">:$digit_bits,
                        DefaultValuedParameter<"int64_t", "128">:$candidates);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Codegen_RepeatAttr : Codegen_ScheduleAttr<"Repeat", "repeat"> {
  let description = [{
    `#codegen.repeat<lanes = 8>`: the elements of a mask that are looked at together. A task is a chunk of
    the op's.

    Constraint. (C1) `lanes` is a power of two up to 256.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$lanes);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // KILN_CODEGEN_CODEGENATTRIBUTES_TD
