// --load-plugin, which the tools that make pipelines have.
#ifndef KILN_TOOLS_PLUGINOPTION_H
#define KILN_TOOLS_PLUGINOPTION_H

#include "kiln/Pipeline/Plugin.h"
#include "llvm/Support/CommandLine.h"

namespace kiln {

/// Registers --load-plugin, and loads what the command line names by it. That is before the command
/// line is parsed, since other options take the names that plug-ins add.
inline llvm::Error loadPlugins(int argc, char **argv, llvm::cl::OptionCategory &category) {
  static llvm::cl::list<std::string> option(
      "load-plugin", llvm::cl::value_desc("file.so"), llvm::cl::cat(category),
      llvm::cl::desc("a library with targets, passes and dialects (docs/plugins.md)"));
  llvm::ArrayRef<char *> arguments(argv + 1, argv + argc);
  while (!arguments.empty()) {
    llvm::StringRef argument = arguments.consume_front();
    if (argument == "--")
      break;
    if (!argument.consume_front("-"))
      continue;
    argument.consume_front("-");
    if (!argument.consume_front("load-plugin"))
      continue;
    if (argument.empty() && !arguments.empty())
      argument = arguments.consume_front();
    else if (!argument.consume_front("="))
      continue;
    if (llvm::Error error = loadPlugin(argument))
      return error;
  }
  return llvm::Error::success();
}

} // namespace kiln

#endif // KILN_TOOLS_PLUGINOPTION_H
