// Somebody else's library, found by name.
#ifndef KILN_RUNTIME_EXTERNLIBRARY_H
#define KILN_RUNTIME_EXTERNLIBRARY_H

#include "ExternFailure.h"

#include <initializer_list>

namespace kiln::externs {

struct LibraryName {
  const char *title;
  /// In this order, unless the environment's `variable` names another file.
  std::initializer_list<const char *> files;
  const char *variable;
  /// The packages that hold it.
  const char *install;
};

/// A handle. Throws a Failure: none of the files can be loaded.
inline void *openLibrary(const LibraryName &name, int flags = RTLD_LOCAL) {
  std::string reasons;
  auto open = [&](const char *file) {
    void *handle = dlopen(file, RTLD_NOW | flags);
    const char *reason = handle ? nullptr : dlerror();
    if (!handle)
      reasons += (reasons.empty() ? "" : "; ") + std::string(reason ? reason : file);
    return handle;
  };
  if (const char *given = getenv(name.variable); given && *given) {
    if (void *handle = open(given))
      return handle;
  } else {
    for (const char *file : name.files)
      if (void *handle = open(file))
        return handle;
  }
  throw Failure{KILN_UNSUPPORTED, "cannot load " + std::string(name.title) + ": " + reasons +
                                      ". Install it (" + name.install +
                                      ") where the loader finds it; " + name.variable +
                                      " says where it is"};
}

} // namespace kiln::externs

#endif // KILN_RUNTIME_EXTERNLIBRARY_H
