// Reads the command line of a tool: a mistake is one line that names the option.
#include "CommandLine.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

/// LLVM's text, such as "aot-run: Unknown command line argument '-x'.  Try: 'aot-run --help'", with
/// a suggestion on a line of its own where there is one.
static std::string shorten(StringRef text, StringRef program) {
  auto dropProgram = [&](StringRef line) {
    line.consume_front(program);
    line.consume_front(sys::path::filename(program));
    line.consume_front(": ");
    return line.trim();
  };
  auto [first, rest] = text.split('\n');
  std::string message = dropProgram(first.split("  Try").first).rtrim(".!").str();
  if (message.starts_with("Too many positional"))
    message = "more than one input file";
  StringRef suggestion = dropProgram(rest.split('\n').first);
  if (suggestion.starts_with("Did you mean"))
    message += "; did" + suggestion.drop_front(3).str();
  else
    message += " (see --help)";
  return message;
}

Error kiln::parseCommandLine(int argc, char **argv, StringRef overview) {
  std::string problem;
  raw_string_ostream stream(problem);
  int saved = dup(STDERR_FILENO), captured = memfd_create("stderr", MFD_CLOEXEC);
  dup2(captured, STDERR_FILENO);
  bool valid = cl::ParseCommandLineOptions(argc, argv, overview, &stream);
  errs().flush();
  dup2(saved, STDERR_FILENO);
  char text[1024];
  ssize_t length = pread(captured, text, sizeof(text), 0);
  close(saved);
  close(captured);
  if (valid)
    return Error::success();
  if (problem.empty() && length > 0)
    problem.assign(text, length);
  return createStringError(shorten(problem, argv[0]));
}
