// The text of an emitted module: the prelude, one function for each graph, and load().
#include "FxFunction.h"
#include "kiln/Fx/Fx.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::fx;
using namespace kiln::wrapper;

/// lib/Fx/prelude.py (see lib/CMakeLists.txt).
extern "C" const char kiln_fx_prelude_begin[], kiln_fx_prelude_end[];

llvm::Expected<fx::Module> fx::writeModule(ModuleOp module, const ModuleOptions &options) {
  host::Steps steps(module);
  ProgramOp program = *module.getOps<ProgramOp>().begin();
  Context context{module, program, steps, {}};
  FailureOr<SmallVector<HostFunctionOpInterface>> functions = getFunctionsInOrder(module);
  if (failed(functions))
    return llvm::createStringError("a nested graph calls itself");
  std::string graphs;
  Names names;
  for (HostFunctionOpInterface function : *functions) {
    FunctionWriter writer(context, function);
    bool isMain = function == program;
    std::string name = isMain ? "main" : names.add(function.getName());
    if (!isMain)
      context.graphs[function.getName()] = {name, writer.getFreeSymbols()};
    llvm::Expected<std::string> text = writer.write(name);
    if (!text)
      return text.takeError();
    graphs += *text + "\n\n";
  }
  auto hash = static_cast<uint32_t>(llvm::xxh3_64bits(graphs));
  std::string text;
  text += "\"\"\"" + StringRef(quote(options.name)).drop_front().drop_back().str() +
          ", compiled by " + options.compiler +
          ": load() gives a torch.fx.GraphModule.\n\nIt needs PyTorch, and beside it " +
          StringRef(quote(options.library)).drop_front().drop_back().str() +
          ", the library of its kernels.\"\"\"\n";
  text += StringRef(kiln_fx_prelude_begin, kiln_fx_prelude_end - kiln_fx_prelude_begin);
  text += "\n\n" + graphs;
  text += "def load():\n"
          "    \"\"\"The model as a torch.fx.GraphModule, with constants of its own.\"\"\"\n"
          "    return _build(main, pathlib.Path(__file__).resolve().with_name(" +
          quote(options.library) + "), " + std::to_string(hash) + ")\n";
  return Module{std::move(text), hash};
}
