// Passes over the host program, in the order they run. A pass, its file in lib/Host and its test share
// one name.
#ifndef KILN_HOST_PASSES_TD
#define KILN_HOST_PASSES_TD

include "mlir/Pass/PassBase.td"

def WrapperMaterializeSizes : Pass<"wrapper-materialize-sizes", "::mlir::ModuleOp"> {
  let summary = "Compute sizes once, on the host";
  let description = [{
    Every expression over symbols that a launched kernel has in its loops and indices, or that is its
    grid, gets a name if it takes more than one operation with a number: `wrapper.define "size.0" = s0
    ceildiv 8` behind the `wrapper.bind`s, or where the last of its symbols is defined. Such a symbol
    has its expression as `size` in the tables of symbols; from there code generation knows that it need
    not compute it. Nothing else in the program mentions it, so that what is known of sizes stays known.
  }];
  let dependentDialects = ["::kiln::wrapper::WrapperDialect"];
}

def WrapperLowerToLLVM : Pass<"wrapper-lower-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Write the host program as functions and tables of the runtime's ABI";
  let description = [{
    The `wrapper.program` becomes `kiln_program` (runtime/ir_interface.h): `kiln_main` and the
    functions of nested graphs call the runtime for each launch, `kiln_bind` solves the symbols from the inputs' shapes, `kiln_eval` and
    `kiln_sizes` compute sizes and give -1 when they overflow; the tables describe inputs,
    outputs, constants and symbols. With a `debug-level` the inputs' and all launches' tensors are shown
    to the runtime, which has code for it in such a model alone. Kernels, which must have been scheduled, are referred to by name
    and dropped from the module.
  }];
  let options = [
    Option<"name", "name", "std::string", "\"model\"", "the model's name in kiln_model_info">,
    Option<"target", "target", "std::string", "\"cpu\"", "the target in kiln_model_info">,
    Option<"compiler", "compiler", "std::string", "\"kiln\"", "the compiler in kiln_model_info">,
    Option<"device", "device", "bool", "false", "kernels run on a device">,
    Option<"externalWeights", "external-weights", "bool", "false", "weights are in a file">,
    Option<"weightsHash", "weights-hash", "uint64_t", "0", "what identifies that file">,
    Option<"debugLevel", "debug-level", "unsigned", "0", "debug printing, see runtime/debug.h">,
    ListOption<"debugFilter", "debug-filter", "std::string", "the kernels that it is for">,
    Option<"stepsAlone", "steps-alone", "bool", "false",
           "a function for each step that another host runs, instead of the program">,
    Option<"stepsHash", "steps-hash", "uint32_t", "0", "what identifies that host">,
    Option<"cpu", "cpu", "std::string", "\"\"", "the CPU that code is for, as the compiler was told">,
    Option<"cpuFeatures", "cpu-features", "uint64_t", "0",
           "instruction sets that it must have, see runtime/cpu_features.h">,
    Option<"entry", "entry", "std::string", "\"model\"", "the program's name in kiln_model_info">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // KILN_HOST_PASSES_TD
