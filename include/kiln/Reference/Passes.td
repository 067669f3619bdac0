// Passes that run programs of the kernel dialect.
#ifndef KILN_REFERENCE_PASSES_TD
#define KILN_REFERENCE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RunReference : Pass<"run-reference", "::mlir::ModuleOp"> {
  let summary = "Run functions of kernel ops in the reference interpreter";
  let description = [{
    For tests: no pipeline has it. Runs each public function of the module, or each kernel of a module without functions, on
    made-up inputs. The first of two runs of the pass leaves what the functions give as `reference.results` on the module; the second one
    compares, reports what differs, and takes the attribute away. Thus `--run-reference --PASS --run-reference` checks that PASS changes no
    result. Integers have to be equal. Floating-point numbers may differ by what rounding explains: 16 times the
    difference between results that are rounded as the types say and those of double precision throughout, and 64 last places of the largest
    element.

    Calls of libraries are refused.
  }];
  let options = [
    Option<"inputs", "inputs", "std::string", "\"random\"", "random, or count: 0, 1, 2, ...">,
    Option<"seed", "seed", "unsigned", "0", "of random inputs">,
    ListOption<"symbols", "symbols", "std::string", "values of symbols, NAME=VALUE; default: 3, 4, 5, ..., in their ranges">,
    Option<"print", "print", "bool", "false", "say the results, as remarks, and compare nothing">
  ];
}

#endif // KILN_REFERENCE_PASSES_TD
