// --entry and --share-state
#include "EntryOptions.h"

using namespace llvm;
using namespace kiln;

static cl::list<std::string>
    entries("entry", cl::value_desc("name=file.pt2"),
            cl::desc("make the program in the file an entry of the model; may be given several "
                     "times. An archive of several programs is as many entries"));
static cl::list<std::string>
    sharedState("share-state", cl::value_desc("names"), cl::CommaSeparated,
                cl::desc("buffers that all entries which have them write to and read, by their "
                         "names or patterns such as 'key_cache_*'"));

void addEntryOptions(cl::OptionCategory &category) {
  entries.addCategory(category);
  sharedState.addCategory(category);
}

Error readEntryOptions(CompileOptions &options) {
  for (StringRef text : entries) {
    auto [name, file] = text.split('=');
    if (name.empty() || file.empty())
      return createStringError("--entry=" + text + ": expected NAME=FILE.pt2");
    options.entries.push_back({name.str(), file.str()});
  }
  if (options.input.empty() && !options.entries.empty())
    options.input = options.entries.front().file;
  options.sharedState = sharedState;
  if (is_contained(options.sharedState, ""))
    return createStringError("--share-state: expected names of buffers");
  return Error::success();
}
